package vjp_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/solvetest"
	"surepipe/space"
	"surepipe/vjp"
)

// counted counts what is read of an operator that can restrict itself.
type counted struct {
	linops.Operator
	products, restricts int
}

func (c *counted) Forward(dst, b array.Batch) {
	c.products++
	c.Operator.Forward(dst, b)
}

func (c *counted) Adjoint(dst, z array.Batch) {
	c.products++
	c.Operator.Adjoint(dst, z)
}

func (c *counted) Structure() linops.Structure {
	s := linops.StructureOf(c.Operator)
	on := s.On
	s.On = func(dev array.Device, t space.Space) linops.Restricted {
		if len(t.Form().Set) > 0 { // not counted: a call to learn whether it can
			c.restricts++
		}
		return on(dev, t)
	}
	return s
}

// sparseFixture is a problem whose solution is sparse and, up to rounding, what
// the same problem gives without working sets.
type sparseFixture struct {
	name string
	a    linops.Operator
	r    prox.Prox
	y    []float64
}

func sparseFixtures(t *testing.T, dev array.Device) []sparseFixture {
	rng := rand.New(rand.NewPCG(3, 5))
	const d, p = 120, 600
	must := func(r prox.Prox, err error) prox.Prox {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var groups [][]int
	for g := range p / 4 {
		groups = append(groups, []int{g, g + 150, g + 300, g + 450})
	}
	weights := make([]float64, p)
	for j := range weights {
		weights[j] = 0.5 + rng.Float64()
	}
	weights[7], weights[11] = 0, math.Inf(1)
	dense := func() *linops.Dense { return linops.NewDense(dev, mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))) }
	sparse := func() *linops.CSR {
		var indptr, indices []int
		var values []float64
		indptr = append(indptr, 0)
		for range d {
			for j := range p {
				if rng.Float64() < 0.2 {
					indices, values = append(indices, j), append(values, rng.NormFloat64())
				}
			}
			indptr = append(indptr, len(indices))
		}
		a, err := linops.NewCSR(dev, d, p, indptr, indices, values)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	group := must(prox.NewGroupL2(dev, p, 25, groups, nil))
	half, err := linops.NewCSR(dev, d, 1, make([]int, d+1), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	stack := linops.HStack(dense(), half, linops.Scale(0.5, sparse()), linops.Compose(linops.Identity(d), dense()))
	fs := []sparseFixture{
		{"lasso", dense(), prox.NewL1(15), nil},
		{"lasso, csr", sparse(), prox.NewL1(7), nil},
		{"lasso, stack", stack, prox.NewL1(16), nil},
		{"lasso, two stories", linops.VStack(dense(), sparse()), prox.NewL1(18), nil},
		{"weighted lasso", dense(), must(prox.NewWeightedL1(dev, 15, weights)), nil},
		{"elastic net", dense(), prox.NewElasticNet(12, 3), nil},
		{"group lasso", dense(), group, nil},
		{"group lasso, scaled", dense(), prox.NewScaled(1.5, group), nil},
		{"nonnegative", dense(), prox.NonNegative(), nil},
		{"lambda near its maximum", dense(), prox.NewL1(80), nil},
		{"lambda above its maximum", dense(), prox.NewL1(1e4), nil},
		{"lambda small", dense(), prox.NewL1(1e-2), nil},
		{"no penalty", dense(), prox.NewL1(0), nil},
	}
	for i := range fs {
		n, _ := fs[i].a.Dims()
		fs[i].y = scaled(3, solvetest.Gaussian(rng, n))
	}
	linf := must(prox.NewGroupLinf(dev, p, 60, groups, nil))
	return append(fs, sparseFixture{"group linf", dense(), linf, scaled(3, solvetest.Gaussian(rng, d))})
}

// Working sets give the same solution, divergence and images of the Jacobian as the solver that
// iterates on all coordinates.
func TestWorkingSetsChangeNothingButRounding(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		fs := sparseFixtures(t, dev)
		if arraytest.Emulated(t, dev) {
			t.Logf("%s is emulated: %s only", dev.Name(), fs[0].name)
			fs = fs[:1]
		}
		for _, f := range fs {
			for _, name := range []string{"ista", "fista"} {
				if name == "ista" && (f.name != "lasso" || arraytest.Emulated(t, dev)) {
					continue
				}
				t.Run(f.name+" "+name, func(t *testing.T) {
					d, _ := f.a.Dims()
					o := vjp.Options{Tol: 1e-10, MaxIter: 200000, Derivative: vjp.Implicit}
					want := solved(t, newSolver(t, name, vjp.Problem{A: plain{f.a}, R: f.r, Device: dev}, o), dev, f.y)
					defer want.Release()
					got := solved(t, newSolver(t, name, vjp.Problem{A: f.a, R: f.r, Device: dev}, o), dev, f.y)
					defer got.Release()
					near(t, "mu_hat", got.MuHat.ToHost(), want.MuHat.ToHost(), 1e-7)
					if f.name == "lambda small" || f.name == "no penalty" || f.name == "nonnegative" {
						// The Jacobian is a projection on nearly all of R^d, the solution far
						// from unique: its trace is all that is compared.
						g, w := mat.Trace(jacobian(t, got.Linearization, dev, d)),
							mat.Trace(jacobian(t, want.Linearization, dev, d))
						if math.Abs(g-w) > 1e-5*float64(d) {
							t.Errorf("divergence %v, want %v", g, w)
						}
						return
					}
					near(t, "Jacobian", jacobian(t, got.Linearization, dev, d).RawMatrix().Data,
						jacobian(t, want.Linearization, dev, d).RawMatrix().Data, 1e-5)
				})
			}
		}
	})
}

func near(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	diff, size := 0.0, 0.0
	for i, w := range want {
		diff += (got[i] - w) * (got[i] - w)
		size += w * w
	}
	if !(math.Sqrt(diff) <= tol*math.Max(math.Sqrt(size), 1e-12)) {
		t.Errorf("%s is off by %.3g, of size %.3g", what, math.Sqrt(diff), math.Sqrt(size))
	}
}

// A LASSO reads its matrix a handful of times.
func TestWorkingSetsReadTheMatrixAHandfulOfTimes(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		f := sparseFixtures(t, dev)[0]
		a := &counted{Operator: f.a}
		sol := solved(t, newSolver(t, "fista", vjp.Problem{A: a, R: f.r, Device: dev}, vjp.Options{}), dev, f.y)
		defer sol.Release()
		if n := a.products + a.restricts; n > 12 {
			t.Errorf("%d products with A and %d restrictions in %d iterations, expected 12 at most", a.products,
				a.restricts, sol.Iterations)
		}
		if sol.Iterations < 20 {
			t.Errorf("%d iterations: too easy a problem to tell", sol.Iterations)
		}
	})
}

// From a solution one product with A suffices, for the gradient there, also where a column without a penalty
// is orthogonal to all others.
func TestAWarmWorkingSetReadsTheMatrixOnce(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		f := sparseFixtures(t, dev)[0]
		d, p := f.a.Dims()
		x := linops.ToDense(dev, f.a)
		for j := range p {
			mean := mat.Sum(x.ColView(j)) / float64(d)
			for i := range d {
				x.Set(i, j, x.At(i, j)-mean)
			}
		}
		ones := mat.NewDense(d, 1, slices.Repeat([]float64{1}, d))
		withOnes := mat.NewDense(d, p+1, nil)
		withOnes.Augment(x, ones)
		weights := slices.Repeat([]float64{1}, p+1)
		weights[p] = 0
		r, err := prox.NewWeightedL1(dev, 15, weights)
		if err != nil {
			t.Fatal(err)
		}
		a := &counted{Operator: linops.NewDense(dev, withOnes)}
		s := newSolver(t, "fista", vjp.Problem{A: a, R: r, Device: dev}, vjp.Options{})
		cold := solved(t, s, dev, f.y)
		defer cold.Release()
		a.products = 0
		y := dev.Put(f.y, 1, d)
		defer y.Free()
		warm, err := s.SolveFrom(t.Context(), y, vjp.From{B: cold.B})
		if err != nil {
			t.Fatal(err)
		}
		defer warm.Release()
		if a.products > 1 {
			t.Errorf("%d products with A, expected 1", a.products)
		}
	})
}

// Out of iterations, in whatever round, the result says so and is differentiated
// as asked; cancelled, nothing is left behind.
func TestWorkingSetsStopWhereTold(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		fs := sparseFixtures(t, dev)
		for _, f := range []sparseFixture{fs[0], fs[6], fs[11]} {
			t.Run(f.name, func(t *testing.T) { stopWhereTold(t, dev, f) })
		}
	})
}

func stopWhereTold(t *testing.T, dev array.Device, f sparseFixture) {
	arraytest.NoLeak(t, dev)
	for _, n := range []int{1, 5, 20} {
		for kind, want := range map[vjp.Derivative]string{vjp.Auto: "unrolled", vjp.Implicit: "implicit",
			vjp.None: ""} {
			s := newSolver(t, "fista", vjp.Problem{A: f.a, R: f.r, Device: dev},
				vjp.Options{MaxIter: n, Derivative: kind})
			sol := stopped(t, s, dev, f.y)
			if sol.Converged || sol.Iterations > n+1 {
				t.Errorf("%s: %+v after %d iterations at most", f.name, sol.Convergence, n)
			}
			got := ""
			if sol.Linearization != nil {
				got = sol.Linearization.Kind()
			}
			if kind != vjp.Implicit && got != want {
				t.Errorf("%s: derivative %q, want %q", f.name, got, want)
			}
			sol.Release()
		}
	}
	s := newSolver(t, "fista", vjp.Problem{A: f.a, R: f.r, Device: dev}, vjp.Options{})
	y := dev.Alloc(1, len(f.y))
	dev.Upload(y, f.y)
	for n := range 40 {
		sol, err := s.Solve(&cancelAfter{Context: context.Background(), n: n}, y)
		if err == nil {
			sol.Release()
		}
	}
	y.Free()
}
