package vjp_test

import (
	"errors"
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
	"surepipe/prox/cones"
	"surepipe/solve"
	"surepipe/vjp"
)

// The proximal operators of this file are written anew, as plainly as possible, for slices and a step.
type plainProx func(z []float64, step float64)

func toSimplex(z []float64, _ float64) {
	s := slices.Clone(z)
	slices.Sort(s)
	slices.Reverse(s)
	sum, theta := 0.0, 0.0
	for i, x := range s {
		sum += x
		if t := (sum - 1) / float64(i+1); x > t {
			theta = t
		}
	}
	for i := range z {
		z[i] = max(z[i]-theta, 0)
	}
}

func toCone(z []float64, _ float64) {
	norm := floats.Norm(z[1:], 2)
	switch s := z[0]; {
	case norm <= s:
	case norm <= -s:
		clear(z)
	default:
		e := (s + norm) / 2
		z[0] = e
		floats.Scale(e/norm, z[1:])
	}
}

func toBall(radius float64) plainProx {
	return func(z []float64, _ float64) {
		if norm := floats.Norm(z, 2); norm > radius {
			floats.Scale(radius/norm, z)
		}
	}
}

func toBox(lo, hi float64) plainProx {
	return func(z []float64, _ float64) {
		for i := range z {
			z[i] = min(max(z[i], lo), hi)
		}
	}
}

func toSemidefinite(z []float64, _ float64) {
	n := int(math.Sqrt(float64(len(z))))
	var eig mat.EigenSym
	sym := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			sym.SetSym(i, j, (z[i*n+j]+z[j*n+i])/2)
		}
	}
	eig.Factorize(sym, true)
	var v, out mat.Dense
	eig.VectorsTo(&v)
	values := eig.Values(nil)
	for i := range values {
		values[i] = max(values[i], 0)
	}
	out.Product(&v, mat.NewDiagDense(n, values), v.T())
	copy(z, out.RawMatrix().Data)
}

func soft(weight float64) plainProx {
	return func(z []float64, step float64) {
		for i := range z {
			z[i] = math.Copysign(max(math.Abs(z[i])-step*weight, 0), z[i])
		}
	}
}

func moved(by []float64, p plainProx) plainProx {
	return func(z []float64, step float64) {
		floats.Sub(z, by)
		p(z, step)
		floats.Add(z, by)
	}
}

// inTurn applies each to its part.
func inTurn(sizes []int, parts ...plainProx) plainProx {
	return func(z []float64, step float64) {
		at := 0
		for i, p := range parts {
			p(z[at:at+sizes[i]], step)
			at += sizes[i]
		}
	}
}

// constrainedCase is min 1/2 ||A b - y||^2 + r(K b) twice.
type constrainedCase struct {
	name    string
	a, k    *mat.Dense
	r       prox.Prox
	plain   plainProx
	y       []float64
	methods []string
}

// reference solves the problem by alternating directions on dense matrices, to rounding.
func (c *constrainedCase) reference(y []float64) []float64 {
	d, p := c.a.Dims()
	q, _ := c.k.Dims()
	rho := mat.Norm(c.a, 2) / mat.Norm(c.k, 2)
	rho *= rho
	var h, kk, inverse mat.Dense
	h.Mul(c.a.T(), c.a)
	kk.Mul(c.k.T(), c.k)
	kk.Scale(rho, &kk)
	h.Add(&h, &kk)
	if err := inverse.Inverse(&h); err != nil {
		panic(err)
	}
	aty := mat.NewVecDense(p, nil)
	aty.MulVec(c.a.T(), mat.NewVecDense(d, y))
	z, u, kb := make([]float64, q), make([]float64, q), mat.NewVecDense(q, nil)
	b, rhs, t := mat.NewVecDense(p, nil), mat.NewVecDense(p, nil), make([]float64, q)
	last := make([]float64, q)
	for range 100000 {
		floats.SubTo(t, z, u)
		rhs.MulVec(c.k.T(), mat.NewVecDense(q, t))
		rhs.AddScaledVec(aty, rho, rhs)
		b.MulVec(&inverse, rhs)
		kb.MulVec(c.k, b)
		copy(last, z)
		floats.AddTo(z, kb.RawVector().Data, u)
		c.plain(z, 1/rho)
		floats.Add(u, kb.RawVector().Data)
		floats.Sub(u, z)
		if floats.Distance(last, z, math.Inf(1)) < 1e-15 &&
			floats.Distance(kb.RawVector().Data, z, math.Inf(1)) < 1e-14 {
			break
		}
	}
	mu := mat.NewVecDense(d, nil)
	mu.MulVec(c.a, b)
	return mu.RawVector().Data
}

// differences is the Jacobian of the reference by central differences.
func (c *constrainedCase) differences() *mat.Dense {
	const h = 1e-5
	d := len(c.y)
	j := mat.NewDense(d, d, nil)
	for i := range d {
		up, down := slices.Clone(c.y), slices.Clone(c.y)
		up[i] += h
		down[i] -= h
		column := floats.SubTo(make([]float64, d), c.reference(up), c.reference(down))
		floats.Scale(1/(2*h), column)
		j.SetCol(i, column)
	}
	return j
}

func randomMatrix(rng *rand.Rand, m, n int) *mat.Dense {
	x := mat.NewDense(m, n, nil)
	x.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, x)
	return x
}

func unitMatrix(n int) *mat.Dense {
	x := mat.NewDense(n, n, nil)
	for i := range n {
		x.Set(i, i, 1)
	}
	return x
}

func stacked(parts ...*mat.Dense) *mat.Dense {
	var all mat.Dense
	for i, p := range parts {
		if i == 0 {
			all.CloneFrom(p)
			continue
		}
		var next mat.Dense
		next.Stack(&all, p)
		all.CloneFrom(&next)
	}
	return &all
}

func must(p prox.Prox, err error) prox.Prox {
	if err != nil {
		panic(err)
	}
	return p
}

// dense is a matrix as an operator, until the test ends.
func dense(t *testing.T, dev array.Device, x *mat.Dense) linops.Operator {
	t.Helper()
	a := linops.NewDense(dev, x)
	t.Cleanup(a.Release)
	return a
}

// differencesMatrix takes differences of neighbours.
func differencesMatrix(n int) *mat.Dense {
	x := mat.NewDense(n-1, n, nil)
	for i := range n - 1 {
		x.Set(i, i, -1)
		x.Set(i, i+1, 1)
	}
	return x
}

func constrainedCases(dev array.Device) []constrainedCase {
	rng := rand.New(rand.NewPCG(20, 26))
	signal := func(a *mat.Dense, b []float64, sigma float64) []float64 {
		d, p := a.Dims()
		y := mat.NewVecDense(d, nil)
		y.MulVec(a, mat.NewVecDense(p, b))
		for i := range d {
			y.SetVec(i, y.AtVec(i)+sigma*rng.NormFloat64())
		}
		return y.RawVector().Data
	}
	inf := math.Inf(1)
	block := func(n int, r prox.Prox) prox.Prox { return prox.Block{Prox: r, N: n} }
	box := func(n int, lo, hi float64) prox.Prox {
		return must(prox.NewBox(dev, slices.Repeat([]float64{lo}, n), slices.Repeat([]float64{hi}, n)))
	}
	var all []constrainedCase
	add := func(name string, a, k *mat.Dense, y []float64, r prox.Prox, plain plainProx, methods ...string) {
		all = append(all, constrainedCase{name, a, k, r, plain, y, methods})
	}

	a := randomMatrix(rng, 10, 6)
	add("least squares on the simplex", a, unitMatrix(6), signal(a, []float64{0.5, 0.3, 0.2, 0, 0, 0}, 0.5),
		cones.NewSimplex(6, 1), toSimplex, "admm", "fista", "newton")

	blur := mat.NewDense(9, 9, nil)
	for i := range 9 {
		for j := range 9 {
			blur.Set(i, j, math.Exp(-math.Pow(float64(i-j), 2)))
		}
	}
	add("nonnegative least squares with total variation", blur, stacked(unitMatrix(9), differencesMatrix(9)),
		signal(blur, []float64{0, 0, 0, 2, 2, 2, 1, 0, 0}, 0.3), prox.NewSeparable(block(9, prox.NonNegative()),
			block(8, prox.NewL1(0.2))),
		inTurn([]int{9, 8}, toBox(0, inf), soft(0.2)), "admm")

	a = randomMatrix(rng, 10, 5)
	shift := []float64{-1.5, 0.2, -0.3, 0.1}
	add("regression with a second-order cone", a, randomMatrix(rng, 4, 5), signal(a, []float64{1, -2, 0.5, 1, 3}, 0.5),
		must(prox.NewShifted(dev, must(cones.NewSecondOrderCones(4, [][]int{{0, 1, 2, 3}})), shift)),
		moved(shift, toCone), "admm")

	a = randomMatrix(rng, 14, 9)
	add("semidefinite estimate", a, unitMatrix(9), signal(a, []float64{2, 1, 0, 1, 1, 0, 0, 0, 0}, 0.7),
		cones.NewSemidefinite(3), toSemidefinite, "admm", "fista", "newton")

	a = randomMatrix(rng, 9, 6)
	add("cones on b", a, unitMatrix(6), signal(a, []float64{1, -2, 0.5, 1, 0.1, 0.2}, 0.5),
		must(cones.NewSecondOrderCones(6, [][]int{{0, 1, 2}, {3, 4, 5}})), inTurn([]int{3, 3}, toCone, toCone),
		"admm", "fista", "newton")
	add("ball on b", a, unitMatrix(6), signal(a, []float64{1, -2, 0.5, 1, 0.1, 0.2}, 0.5), cones.NewL2Ball(6, 1.5),
		toBall(1.5), "admm", "fista", "newton")

	a = randomMatrix(rng, 8, 5)
	add("ball", a, randomMatrix(rng, 3, 5), signal(a, []float64{1, 2, -1, 0, 1}, 0.5), cones.NewL2Ball(3, 1.5),
		toBall(1.5), "admm")

	// The dual of a support vector machine with an intercept: 0 <= alpha <= C, <labels, alpha> = 0.
	a = randomMatrix(rng, 7, 8)
	labels := mat.NewDense(1, 8, []float64{1, -1, 1, 1, -1, -1, 1, -1})
	add("dual of a support vector machine", a, stacked(unitMatrix(8), labels),
		signal(a, []float64{0, 1, 1, 0, 0.5, 0.5, 1, 0}, 0.5),
		prox.NewSeparable(box(8, 0, 1), box(1, 0, 0)), inTurn([]int{8, 1}, toBox(0, 1), toBox(0, 0)), "admm")

	a = randomMatrix(rng, 9, 5)
	add("polyhedron", a, randomMatrix(rng, 7, 5), signal(a, []float64{2, 1, -1, 0, 1}, 0.5), box(7, -inf, 0.5),
		toBox(-inf, 0.5), "admm")

	// y = A b + o: outliers o with an l1 norm, which is Huber's loss, and sum b = 1.
	wide := mat.NewDense(8, 12, nil)
	wide.Slice(0, 8, 0, 4).(*mat.Dense).Copy(randomMatrix(rng, 8, 4))
	wide.Slice(0, 8, 4, 12).(*mat.Dense).Copy(unitMatrix(8))
	outliers, total := mat.NewDense(8, 12, nil), mat.NewDense(1, 12, []float64{1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0})
	outliers.Slice(0, 8, 4, 12).(*mat.Dense).Copy(unitMatrix(8))
	add("robust regression with an equality", wide, stacked(outliers, total),
		signal(wide, []float64{1, -1, 2, 0, 0, 5, 0, 0, -4, 0, 0, 0}, 0.4),
		prox.NewSeparable(block(8, prox.NewL1(0.5)), box(1, 1, 1)), inTurn([]int{8, 1}, soft(0.5), toBox(1, 1)),
		"admm")

	add("isotonic regression", unitMatrix(9), differencesMatrix(9),
		signal(unitMatrix(9), []float64{0, 0, 1, 1, 1, 2, 2, 3, 3}, 0.7), prox.NonNegative(), toBox(0, inf), "admm",
		"dual")
	return all
}

// Divergences under constraints are those of central differences of an independent solver on dense
// matrices, by every method and derivative.
func TestConstrainedDerivativesAgainstDifferences(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		derivatives := []vjp.Derivative{vjp.Implicit, vjp.Unrolled}
		if arraytest.Emulated(t, dev) {
			derivatives = derivatives[:1] // the tape of thousands of iterations is slow there
		}
		for _, c := range constrainedCases(dev) {
			want, mu := c.differences(), c.reference(c.y)
			for _, method := range c.methods {
				for _, derivative := range derivatives {
					t.Run(fmt.Sprintf("%s/%s/%s", c.name, method, derivative), func(t *testing.T) {
						arraytest.NoLeak(t, dev)
						a, k := dense(t, dev, c.a), dense(t, dev, c.k)
						if method == "dual" {
							a = linops.Identity(len(c.y))
						}
						problem := vjp.Problem{A: a, K: k, R: c.r, Device: dev}
						if method == "fista" || method == "newton" {
							problem.K = nil // which is the identity
						}
						s := newSolver(t, method, problem,
							vjp.Options{Tol: 1e-11, MaxIter: 20000, Derivative: derivative})
						got := solved(t, s, dev, c.y)
						defer got.Release()
						j := jacobian(t, got.Linearization, dev, len(c.y))
						j.Sub(j, want)
						off := floats.Distance(got.MuHat.ToHost(), mu, 2)
						t.Logf("%d iterations, optimality %.1e, error %.1e (off by %.1e), divergence %.8f, "+
							"margin %.2g, %v", got.Iterations, got.Optimality, got.Error, off, mat.Trace(want),
							got.Linearization.Closed().SpaceMargin, got.Choices[len(got.Choices)-2:])
						if bound := got.Error; !got.Converged || !math.IsNaN(bound) && off > bound+1e-9 || off > 1e-6 {
							t.Errorf("converged %t, mu_hat is %g off, bound %g", got.Converged, off, got.Error)
						}
						if e := mat.Norm(j, 2); e > 1e-6 {
							t.Errorf("the Jacobian is %g off central differences", e)
						}
					})
				}
			}
			prox.Release(c.r)
		}
	})
}

// The saddle point system has the same Jacobian, for flat and for curved sets and for norms.
func TestSaddlePointDerivativesAgainstDifferences(t *testing.T) {
	defer vjp.BySaddlePoint()()
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, c := range constrainedCases(dev) {
			want := c.differences()
			t.Run(c.name, func(t *testing.T) {
				arraytest.NoLeak(t, dev)
				a := dense(t, dev, c.a)
				// Mixed once more, so that no structure is known of K.
				k := linops.Compose(dense(t, dev, c.k), linops.NewFunc(c.k.RawMatrix().Cols, c.k.RawMatrix().Cols,
					copyTo, copyTo))
				s := newSolver(t, "admm", vjp.Problem{A: a, K: k, R: c.r, Device: dev},
					vjp.Options{Tol: 1e-11, MaxIter: 20000, Derivative: vjp.Implicit})
				got := solved(t, s, dev, c.y)
				defer got.Release()
				j := jacobian(t, got.Linearization, dev, len(c.y))
				j.Sub(j, want)
				if e := mat.Norm(j, 2); e > 1e-6 {
					t.Errorf("the Jacobian is %g off central differences", e)
				}
				inner := got.Linearization.Inner()
				t.Logf("off by %.1e in %d steps, %v", mat.Norm(j, 2), inner.Steps, got.Choices[len(got.Choices)-1])
				if inner.Failed > 0 || inner.Steps == 0 {
					t.Errorf("%+v", inner)
				}
			})
			prox.Release(c.r)
		}
	})
}

func copyTo(dst, x []float64) { copy(dst, x) }

// Constraints that contradict each other are an error that says so.
func TestInfeasibleConstraintsAreSaidSo(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(3, 3))
		a := dense(t, dev, randomMatrix(rng, 6, 3))
		y := []float64{1, 2, 3, 4, 5, 6}
		box := func(lo, hi []float64) prox.Prox { return must(prox.NewBox(dev, lo, hi)) }
		inf := math.Inf(1)
		row := mat.NewDense(2, 3, []float64{1, 1, 1, 2, 2, 2})
		for _, c := range []struct {
			name string
			k    *mat.Dense
			r    prox.Prox
		}{
			{"equalities", row, box([]float64{1, 3}, []float64{1, 3})},
			{"inequalities", row, box([]float64{2, -inf}, []float64{inf, 3})},
			{"simplex and sum", stacked(unitMatrix(3), mat.NewDense(1, 3, []float64{1, 1, 1})),
				prox.NewSeparable(cones.NewSimplex(3, 1), box([]float64{2}, []float64{2}))},
			{"nonnegative and sum, beside a norm",
				stacked(unitMatrix(3), unitMatrix(3), mat.NewDense(1, 3, []float64{1, 1, 1})),
				prox.NewSeparable(prox.Block{Prox: prox.NewL1(1), N: 3}, prox.Block{Prox: prox.NonNegative(), N: 3},
					box([]float64{-1}, []float64{-1}))},
			{"ball and a bound", stacked(unitMatrix(3), mat.NewDense(1, 3, []float64{1, 0, 0})),
				prox.NewSeparable(cones.NewL2Ball(3, 1), box([]float64{2}, []float64{inf}))},
			{"cone and a bound", stacked(unitMatrix(3), mat.NewDense(1, 3, []float64{1, 0, 0})),
				prox.NewSeparable(must(cones.NewSecondOrderCones(3, [][]int{{0, 1, 2}})),
					box([]float64{-1}, []float64{-1}))},
		} {
			k := dense(t, dev, c.k)
			s := newSolver(t, "admm", vjp.Problem{A: a, K: k, R: c.r, Device: dev}, vjp.Options{MaxIter: 5000})
			on := dev.Alloc(1, len(y))
			dev.Upload(on, y)
			sol, err := s.Solve(t.Context(), on)
			infeasible := new(solve.InfeasibleError)
			if !errors.As(err, &infeasible) {
				t.Errorf("%s: error %v", c.name, err)
			} else {
				t.Log(c.name, err)
			}
			if sol != nil {
				t.Errorf("%+v", sol.Convergence)
				sol.Release()
			}
			on.Free()
			prox.Release(c.r)
		}
	})
}
