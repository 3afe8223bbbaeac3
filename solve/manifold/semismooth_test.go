package manifold_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/prox/cones"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// norm is a norm r with its dual norm r°, computed here.
type norm struct {
	r, dual func(x []float64) float64
	at      func(t *testing.T, dev array.Device, lambda float64) prox.Prox
}

// groupNorm is the sum of the norms of groups of three; coordinates in the group free are not
// penalized, so that their correlations must vanish.
func groupNorm(p, free int) norm {
	var groups [][]int
	for j := range p {
		if j/3 == free {
			continue
		}
		if len(groups) == 0 || groups[len(groups)-1][0]/3 != j/3 {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], j)
	}
	of := func(x []float64, g []int) float64 {
		s := 0.0
		for _, j := range g {
			s = math.Hypot(s, x[j])
		}
		return s
	}
	n := norm{at: func(t *testing.T, dev array.Device, lambda float64) prox.Prox {
		r, err := prox.NewGroupL2(dev, p, lambda, groups, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}}
	n.r = func(x []float64) (s float64) {
		for _, g := range groups {
			s += of(x, g)
		}
		return s
	}
	n.dual = func(x []float64) (s float64) {
		for _, g := range groups {
			s = max(s, of(x, g))
		}
		return s
	}
	return n
}

// sortedNorm is that of SLOPE with weights from 2 to 1.
func sortedNorm(p int) norm {
	w := make([]float64, p)
	for i := range w {
		w[i] = 2 - float64(i)/float64(p)
	}
	sizes := func(x []float64) []float64 {
		s := make([]float64, p)
		for j, v := range x {
			s[j] = -math.Abs(v)
		}
		slices.Sort(s)
		return s
	}
	return norm{
		r: func(x []float64) float64 { return -floats.Dot(w, sizes(x)) },
		dual: func(x []float64) (s float64) {
			sum, weights := 0.0, 0.0
			for i, v := range sizes(x) {
				sum, weights = sum-v, weights+w[i]
				s = max(s, sum/weights)
			}
			return s
		},
		at: func(t *testing.T, _ array.Device, lambda float64) prox.Prox {
			r, err := clustered.NewSortedL1(slices.Clone(floats.ScaleTo(make([]float64, p), lambda, w)))
			if err != nil {
				t.Fatal(err)
			}
			return r
		},
	}
}

// distance bounds ||X b - X b*|| by the duality gap of 1/2 ||X b - y||^2 + lambda r(b), computed
// here; free are the coordinates that r leaves out.
func (n norm) distance(x *mat.Dense, y, b []float64, lambda float64) float64 {
	var fit, c mat.VecDense
	fit.MulVec(x, mat.NewVecDense(len(b), b))
	rest := make([]float64, len(y))
	floats.SubTo(rest, y, fit.RawVector().Data)
	c.MulVec(x.T(), mat.NewVecDense(len(rest), rest))
	scale := min(1, lambda/n.dual(c.RawVector().Data))
	short := make([]float64, len(y))
	floats.AddScaledTo(short, y, -scale, rest)
	// primal - dual, without the difference of squares of y.
	gap := floats.Dot(rest, rest)*(1-scale)*(1-scale)/2 + lambda*n.r(b) - scale*floats.Dot(b, c.RawVector().Data)
	return math.Sqrt(2 * max(gap, 0))
}

// TestNewtonConvergesOnAnyColumns follows paths of weights on hard matrices, and compares every
// point with a duality gap that is computed here.
func TestNewtonConvergesOnAnyColumns(t *testing.T) {
	dev := array.NewHost()
	for _, size := range [][2]int{{30, 12}, {20, 21}, {12, 30}} {
		d, p := size[0], size[1]
		rng := rand.New(rand.NewPCG(uint64(d), uint64(p)))
		y := solvetest.Gaussian(rng, d)
		all := roomtest.Designs(rng, d, p)
		// A group has one unit: columns of very different lengths in one group are as hard as
		// columns that nearly coincide.
		for design, spread := range map[string]int{"units": 7, "units in groups": 3} {
			units := mat.DenseCopyOf(all["plain"])
			units.Apply(func(_, j int, v float64) float64 { return v * math.Pow(10, float64(j%spread-spread/2)) },
				units)
			all[design] = units
		}
		for design, x := range all {
			a := roomtest.Dense(t, dev, d, p, x.RawMatrix().Data)
			var c mat.VecDense
			c.MulVec(x.T(), mat.NewVecDense(d, y))
			for name, n := range map[string]norm{"group l2": groupNorm(p, -1), "SLOPE": sortedNorm(p)} {
				least := 1e-8
				switch {
				case name == "group l2" && design == "units":
					continue
				case p > d && (design == "correlated" || design == "units"):
					least = 1e-6 // below, rounding errors decide what is active, and the residual is of their size
				}
				most := n.dual(c.RawVector().Data)
				var from solve.From
				for k := range 20 {
					lambda := most * math.Pow(least, float64(k)/19)
					r := n.at(t, dev, lambda)
					s := roomtest.NewSolver(t, "newton", solve.Problem{A: a, R: r, Device: dev}, solve.Options{})
					sol, err := s.Solve(t.Context(), roomtest.On(t, dev, y), from)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(sol.Release)
					what := fmt.Sprintf("%d x %d %s %s %.1e", d, p, design, name, lambda/most)
					if !sol.Converged && !(sol.Optimality <= 1e-7 && sol.Error <= 1e-6) {
						t.Errorf("%s: not converged after %d iterations, optimality %g, error %g", what,
							sol.Iterations, sol.Optimality, sol.Error)
					}
					rest := sol.MuHat.ToHost()
					floats.Sub(rest, y)
					allowed := max(0.01*floats.Norm(rest, 2), 1e-6*floats.Norm(y, 2))
					if off := n.distance(x, y, sol.B.ToHost(), lambda); off > 1.1*allowed && sol.Error > allowed {
						t.Errorf("%s: the gap bounds the error by %g, expected at most %g", what, off, allowed)
					}
					from.B = sol.B
				}
			}
		}
	}
}

// smooth are partly smooth regularizers on R^12.
func smooth(t *testing.T, dev array.Device) map[string]prox.Prox {
	groups := [][]int{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}
	linf, err := prox.NewGroupLinf(dev, 12, 2, groups, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prox.Release(linf) })
	free := groupNorm(12, 2).at(t, dev, 2)
	t.Cleanup(func() { prox.Release(free) })
	four := groupNorm(4, -1).at(t, dev, 2)
	t.Cleanup(func() { prox.Release(four) })
	slope := sortedNorm(12).at(t, dev, 1)
	return map[string]prox.Prox{
		"group linf": linf, "a free group": free, "SLOPE": slope, "tv1d": clustered.NewTV1D(12, 2),
		"simplex": cones.NewSimplex(12, 1), "l1 ball": cones.NewL1Ball(12, 1),
		"linf ball": prox.NewLinfBall(12, 0.05), "l1": prox.NewL1(2),
		"nonnegative": prox.NonNegative(), "zero": prox.Zero(),
		"blocks": prox.NewSeparable(four, prox.Block{Prox: clustered.NewTV1D(4, 1),
			N: 4}, prox.Block{Prox: prox.NewL1(1), N: 4}),
	}
}

func TestNewtonAgreesWithFISTA(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		const d, p = 20, 12
		rng := rand.New(rand.NewPCG(3, 4))
		a, y := roomtest.Dense(t, dev, d, p, solvetest.Gaussian(rng, d*p)),
			roomtest.On(t, dev, solvetest.Gaussian(rng, d))
		for name, r := range smooth(t, dev) {
			var mu [2][]float64
			for i, solver := range []string{"newton", "fista"} {
				s := roomtest.NewSolver(t, solver, solve.Problem{A: a, R: r, Device: dev}, solve.Options{Tol: 1e-11})
				sol, err := s.Solve(t.Context(), y, solve.From{})
				if err != nil {
					t.Fatal(err)
				}
				if !sol.Converged {
					t.Errorf("%s by %s: not converged, optimality %g", name, solver, sol.Optimality)
				}
				mu[i] = sol.MuHat.ToHost()
				sol.Release()
			}
			if off := floats.Distance(mu[0], mu[1], 2); off > 1e-8 {
				t.Errorf("%s: distance %g from fista's", name, off)
			}
		}
	})
}

// TestNewtonSolvesWhatGradientStepsDoNot has columns that nearly coincide.
func TestNewtonSolvesWhatGradientStepsDoNot(t *testing.T) {
	dev := array.NewHost()
	const d, p = 40, 30
	rng := rand.New(rand.NewPCG(5, 6))
	x, y := roomtest.Designs(rng, d, p)["correlated"], solvetest.Gaussian(rng, d)
	a := roomtest.Dense(t, dev, d, p, x.RawMatrix().Data)
	for name, n := range map[string]norm{"group l2": groupNorm(p, 4), "SLOPE": sortedNorm(p)} {
		for _, solver := range []string{"newton", "fista"} {
			s := roomtest.NewSolver(t, solver, solve.Problem{A: a, R: n.at(t, dev, 1e-4), Device: dev},
				solve.Options{MaxIter: 2000})
			sol, err := s.Solve(t.Context(), roomtest.On(t, dev, y), solve.From{})
			if err != nil {
				t.Fatal(err)
			}
			if sol.Converged != (solver == "newton") {
				t.Errorf("%s by %s: converged is %t after %d iterations, optimality %g", name, solver, sol.Converged,
					sol.Iterations, sol.Optimality)
			}
			sol.Release()
		}
	}
}

// TestNewtonWithoutModels has a regularizer of which only the proximal operator is known, and an
// operator without columns: only gradient steps are left, or columns come from products.
func TestNewtonWithoutModels(t *testing.T) {
	dev := array.NewHost()
	a := linops.NewFunc(3, 2,
		func(dst, b []float64) { dst[0], dst[1], dst[2] = b[0]+b[1], b[1], 3*b[0] },
		func(dst, z []float64) { dst[0], dst[1] = z[0]+3*z[2], z[0]+z[1] })
	soft := func(dst, v []float64, t float64) error {
		for j, x := range v {
			dst[j] = math.Copysign(max(math.Abs(x)-t, 0), x)
		}
		return nil
	}
	var b [2][]float64
	for i, r := range []prox.Prox{prox.NewFunc(2, soft, nil, nil), prox.NewL1(1)} {
		s := roomtest.NewSolver(t, "newton", solve.Problem{A: a, R: r, Device: dev}, solve.Options{Tol: 1e-10})
		sol, err := s.Solve(t.Context(), roomtest.On(t, dev, []float64{1, 2, 3}), solve.From{})
		if err != nil {
			t.Fatal(err)
		}
		if !sol.Converged {
			t.Errorf("not converged, optimality %g", sol.Optimality)
		}
		b[i] = sol.B.ToHost()
		sol.Release()
	}
	if !floats.EqualApprox(b[0], b[1], 1e-8) {
		t.Errorf("%v without a model, %v with one", b[0], b[1])
	}
}
