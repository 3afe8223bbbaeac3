package differential

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// draw is a case under construction.
type draw struct {
	*rand.Rand
	c      *Case
	x      *mat.Dense // the operator, in float64
	signal []float64  // b of y = A b + noise
}

// Generate draws case index of a seed: a function of the two alone.
func Generate(seed uint64, index int) *Case {
	g := &draw{Rand: rand.New(rand.NewPCG(seed, uint64(index)+0x9e3779b97f4a7c15)),
		c: &Case{Seed: seed, Index: index, Sigma2: 1}}
	if g.chance(0.12) {
		g.named()
	} else if g.chance(0.1) {
		g.behind()
	} else {
		g.free()
	}
	g.scales()
	g.options()
	g.squares()
	slices.Sort(g.c.Features)
	g.c.Features = slices.Compact(g.c.Features)
	return g.c
}

func (g *draw) chance(p float64) bool { return g.Float64() < p }

func (g *draw) feature(name string) { g.c.Features = append(g.c.Features, name) }

// pick is one of the names, by their weights.
func pick[T any](g *draw, options []T, weights []float64) T {
	at := g.Float64() * floats.Sum(weights)
	for i, w := range weights {
		if at -= w; at < 0 {
			return options[i]
		}
	}
	return options[0]
}

// between is a number from lo to hi, uniform in its logarithm.
func (g *draw) between(lo, hi float64) float64 {
	return lo * math.Pow(hi/lo, g.Float64())
}

// length is d or p: 1 to 12, occasionally 1, occasionally up to 40.
func (g *draw) length() int {
	switch {
	case g.chance(0.06):
		return 1
	case g.chance(0.04):
		return 13 + g.IntN(28)
	}
	return 1 + g.IntN(12)
}

// side is the side of a matrix: 1 to 5, sometimes up to 8, rarely 12.
func (g *draw) side() int {
	switch {
	case g.chance(0.005):
		return 12
	case g.chance(0.06):
		return 6 + g.IntN(3)
	}
	return 1 + g.IntN(5)
}

// gaussian is a number of mean 0.
func (g *draw) gaussian(n int, size float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = size * g.NormFloat64()
	}
	return x
}

// kinds are the regularizers of cases that are not named problems.
var kinds = []string{"zero", "ridge", "l1", "weightedl1", "elasticnet", "nonnegative", "box", "groupl2",
	"grouplinf", "slope", "l1ball", "l2", "linfball", "simplex", "nuclear", "tv1d", "separable"}

// free draws an operator and a regularizer that are not those of a named problem.
func (g *draw) free() {
	kind := kinds[g.IntN(len(kinds))]
	shape := [2]int{}
	switch {
	case kind == "nuclear":
		shape = [2]int{g.side(), g.side()}
		g.c.Op = g.matrixOperator(shape)
	case kind == "separable" && g.chance(0.4):
		// Robust PCA and similar problems.
		shape = [2]int{1 + g.IntN(5), 1 + g.IntN(5)}
		n := shape[0] * shape[1]
		g.c.Op = Op{Kind: "hstack", Rows: n, Cols: 2 * n, Parts: []Op{identity(n), identity(n)}}
		g.observe()
		second := pick(g, []string{"l1", "ridge", "groupl2", "nonnegative"}, []float64{3, 1, 1, 1})
		g.c.Reg = Reg{Kind: "separable", N: 2 * n, Blocks: []Reg{
			g.regularizer("nuclear", 0, n, shape), g.regularizer(second, n, n, shape)}}
		return
	default:
		g.c.Op = g.operator()
	}
	g.observe()
	g.c.Reg = g.regularizer(kind, 0, g.c.Op.Cols, shape)
}

func identity(n int) Op { return Op{Kind: "identity", Rows: n, Cols: n} }

// observe draws y = A b + noise.
func (g *draw) observe() {
	m, _ := g.c.Op.matrix()
	g.x = mat.NewDense(m.r, m.c, floats64(m.a))
	g.signal = make([]float64, m.c)
	size := g.between(0.3, 30)
	for j := range g.signal {
		if g.chance(0.5) {
			// Each column has its share, whatever its unit.
			col := mat.Norm(g.x.ColView(j), 2)
			if col > 0 {
				g.signal[j] = size * g.NormFloat64() / col
			}
		}
	}
	g.c.Y = g.gaussian(m.r, 1)
	if !g.chance(0.03) {
		var fit mat.VecDense
		fit.MulVec(g.x, mat.NewVecDense(m.c, g.signal))
		floats.Add(g.c.Y, fit.RawVector().Data)
	}
	switch {
	case g.chance(0.12):
		g.feature("integer y")
		for i, v := range g.c.Y {
			g.c.Y[i] = math.Round(v)
		}
	case g.chance(0.01):
		g.feature("y = 0")
		clear(g.c.Y)
	case len(g.c.Y) > 1 && g.chance(0.04):
		g.feature("tied y")
		g.c.Y[0] = g.c.Y[len(g.c.Y)-1]
	case g.c.Intercept && g.chance(0.3), g.chance(0.01):
		g.feature("uncentred y")
		floats.AddConst(math.Round(g.between(1e3, 1e9)), g.c.Y)
	}
	if g.chance(0.3) {
		g.c.Sigma2 = g.between(0.05, 5)
	}
}

// scales occasionally multiplies y, and X where it is a matrix of numbers, by numbers far from 1.
func (g *draw) scales() {
	if g.chance(0.04) {
		f := math.Pow(10, float64(g.IntN(101)-50))
		g.feature("y scaled")
		g.scaleY(f)
	}
	if g.chance(0.04) {
		f := math.Pow(10, float64(g.IntN(101)-50))
		if g.scaleX(&g.c.Op, f) {
			g.feature("X scaled")
			g.c.Reg.rescale(f, f*f, 1/f)
			g.c.rescaleSquares(f * f)
		}
	}
}

func (g *draw) scaleY(f float64) {
	floats.Scale(f, g.c.Y)
	g.c.Sigma2 *= f * f
	g.c.Reg.rescale(f, 1, f)
}

// scaleX multiplies the entries of one dense or sparse matrix by f; false where there is none whose
// scale is that of all of A.
func (g *draw) scaleX(o *Op, f float64) bool {
	switch o.Kind {
	case "dense", "csr":
		floats.Scale(f, o.Data)
		return true
	case "centered", "scale", "compose":
		return g.scaleX(&o.Parts[0], f)
	}
	return false
}

// rescale multiplies weights of |b|, of b^2 and sizes of b.
func (r *Reg) rescale(weight, square, size float64) {
	switch r.Kind {
	case "ridge":
		r.Lambda *= square
	case "slope":
		floats.Scale(weight, r.Weights)
	default:
		r.Lambda *= weight
	}
	r.Lambda2 *= square
	r.Radius *= size
	for _, bound := range [][]float64{r.Lo, r.Hi} {
		for j, v := range bound {
			if math.Abs(v) != math.MaxFloat64 {
				bound[j] *= size
			}
		}
	}
	for i := range r.Blocks {
		r.Blocks[i].rescale(weight, square, size)
	}
}

// sparse reports that active sets solve the problem.
func (r *Reg) sparse() bool {
	if r.Kind == "separable" {
		return !slices.ContainsFunc(r.Blocks, func(b Reg) bool { return !b.sparse() })
	}
	return slices.Contains([]string{"zero", "ridge", "l1", "weightedl1", "elasticnet", "nonnegative"}, r.Kind)
}

// options draws solver, derivative and estimator.
func (g *draw) options() {
	c := g.c
	quadratic := c.K == nil && (c.Reg.Kind == "zero" || c.Reg.Kind == "ridge")
	written := c.Op.Kind == "dense" || c.Op.Kind == "csr" || c.Op.Kind == "centered"
	c.Solver = pick(g, []string{"fista", "admm", "ista"}, []float64{3, 2, 1})
	switch {
	case c.K != nil:
		c.Solver = pick(g, []string{"", "admm"}, []float64{4, 1})
	case c.Reg.sparse() && g.chance(0.5):
		c.Solver = "active-set"
	}
	if quadratic && written && g.chance(0.6) {
		c.Solver = "direct"
	}
	c.Derivative = "auto"
	if c.Solver != "direct" {
		c.Derivative = pick(g, []string{"auto", "implicit", "unrolled"}, []float64{8, 2, 1})
	}
	// Only a few cases get the default number of iterations, because they take most of the time.
	switch {
	case c.Solver == "admm" && (c.Op.Kind == "hstack" || c.Op.Kind == "compose"):
		c.MaxIter = 1000 // conjugate gradients at every step
	case g.chance(0.8):
		c.MaxIter = 2000
	}
	if g.chance(0.75) {
		return
	}
	c.Estimator = pick(g, []string{"exact", "hutchinson", "hutch++"}, []float64{5, 3, 2})
	switch {
	case c.Estimator == "exact":
	case (c.Estimator == "hutchinson" || c.Estimator == "hutch++") && g.chance(0.5):
		// As many as the accuracy requires.
	default:
		// Enough that six standard errors are a bound.
		c.Queries = 6 * (5 + g.IntN(4))
	}
}
