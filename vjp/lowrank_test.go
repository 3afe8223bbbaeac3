package vjp_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/vjp"
)

// completion is a noisy sample of a matrix of rank 4.
func completion(t *testing.T, dev array.Device, shape array.Shape, d int) (*linops.Selection, []float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(shape.Rows), uint64(d)))
	const rank = 4
	left, right := mat.NewDense(shape.Rows, rank, gaussian(rng, shape.Rows*rank)), mat.NewDense(rank, shape.Cols, gaussian(rng, rank*shape.Cols))
	var truth mat.Dense
	truth.Mul(left, right)
	idx := rng.Perm(shape.Len())[:d]
	a, err := linops.NewSelection(dev, shape.Len(), idx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Release)
	y := make([]float64, d)
	for i, j := range idx {
		y[i] = truth.RawMatrix().Data[j] + 0.3*rng.NormFloat64()
	}
	return a, y
}

type completionCase struct {
	name   string
	solver string
	shape  array.Shape
	d      int
	lambda float64 // or, negative, minus the multiple of the largest useful one
	offset float64 // of all entries
}

func (c completionCase) weight(t *testing.T, dev array.Device, a linops.Operator, y []float64) float64 {
	t.Helper()
	if c.lambda > 0 {
		return c.lambda
	}
	z, v := dev.Alloc(1, c.d), dev.Alloc(1, c.shape.Len())
	defer z.Free()
	defer v.Free()
	dev.Upload(z, y)
	a.Adjoint(v, z)
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(c.shape.Rows, c.shape.Cols, v.ToHost()), mat.SVDNone) {
		t.Fatal("no singular values")
	}
	return -c.lambda * svd.Values(nil)[0]
}

// on is the case itself, or one of half the size where the card is emulated; a whole matrix
// takes few steps at any size.
func (c completionCase) on(t *testing.T, dev array.Device) completionCase {
	t.Helper()
	if arraytest.Emulated(t, dev) && c.d < c.shape.Len() {
		c.shape = array.Shape{Rows: c.shape.Rows / 2, Cols: c.shape.Cols / 2}
		c.d = max(c.d/4, min(c.d, 5))
		if c.lambda > 0 {
			c.lambda /= 2
		}
	}
	return c
}

var completionCases = []completionCase{
	{"tall", "fista", array.Shape{Rows: 170, Cols: 130}, 6000, 6, 0},
	{"wide", "fista", array.Shape{Rows: 128, Cols: 190}, 6000, 6, 0},
	{"ista", "ista", array.Shape{Rows: 150, Cols: 130}, 9000, 12, 0},
	{"rank grows and shrinks", "fista", array.Shape{Rows: 150, Cols: 150}, 8000, 4, 0},
	{"high rank", "fista", array.Shape{Rows: 90, Cols: 80}, 3000, 1, 0},
	{"near the largest lambda", "fista", array.Shape{Rows: 150, Cols: 130}, 5000, -0.999, 0},
	{"beyond it", "fista", array.Shape{Rows: 150, Cols: 130}, 5000, -1.01, 0},
	{"all entries", "fista", array.Shape{Rows: 150, Cols: 130}, 150 * 130, 9, 0},
	{"five entries", "fista", array.Shape{Rows: 150, Cols: 130}, 5, 0.1, 0},
	{"one large value", "fista", array.Shape{Rows: 80, Cols: 70}, 3000, 8, 300},
}

// Factored iterations give the estimate, the divergence and the Jacobian's images of the
// solver that computes every singular value, in about as many iterations, and their
// optimality is what it says.
func TestFactoredIterationsChangeNothingButRounding(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		vjp.FactorAll(t)
		for _, c := range completionCases {
			t.Run(c.name, func(t *testing.T) {
				c := c.on(t, dev)
				arraytest.NoLeak(t, dev)
				a, y := completion(t, dev, c.shape, c.d)
				floats.AddConst(c.offset, y)
				r := prox.NewScaled(2, prox.NewNuclear(c.shape, c.weight(t, dev, a, y)/2))
				o := vjp.Options{Derivative: vjp.Implicit}
				got := solved(t, newSolver(t, c.solver, vjp.Problem{A: a, R: r, Device: dev}, o), dev, y)
				defer got.Release()
				checkOptimality(t, dev, a, r, y, got)
				if got.Optimality > vjp.DefaultTol {
					t.Errorf("converged with optimality %v, to %v", got.Optimality, vjp.DefaultTol)
				}

				o.Tol = 1e-10 // for what is compared
				tight := solved(t, newSolver(t, c.solver, vjp.Problem{A: a, R: r, Device: dev}, o), dev, y)
				defer tight.Release()
				want := solved(t, newSolver(t, c.solver, vjp.Problem{A: plain{a}, R: r, Device: dev}, o), dev, y)
				defer want.Release()
				size := floats.Norm(y, 2) // the tolerance is relative to y
				if e := floats.Distance(tight.MuHat.ToHost(), want.MuHat.ToHost(), 2); !(e <= 1e-9*size) {
					t.Errorf("mu_hat is off by %.3g, y of size %.3g", e, size)
				}
				if e := floats.Distance(tight.B.ToHost(), want.B.ToHost(), 2); !(e <= 1e-8*size) {
					t.Errorf("b is off by %.3g, y of size %.3g", e, size)
				}
				if tight.Iterations > 2*want.Iterations+10 {
					t.Errorf("%d iterations, %d with all singular values", tight.Iterations, want.Iterations)
				}
				probes, images := dev.Alloc(3, c.d), dev.Alloc(3, c.d)
				defer probes.Free()
				defer images.Free()
				dev.Upload(probes, gaussian(rand.New(rand.NewPCG(1, 2)), 3*c.d))
				image := func(s *vjp.Solution) []float64 {
					if err := s.Linearization.VJP(context.Background(), images, probes); err != nil {
						t.Fatal(err)
					}
					return images.ToHost()
				}
				near(t, "the Jacobian's images", image(tight), image(want), 1e-6)
			})
		}
	})
}

// checkOptimality compares the optimality with a lower bound of the distance of 0 from
// the subdifferential that it bounds: the length of a proximal gradient step of length
// 1.
func checkOptimality(t *testing.T, dev array.Device, a linops.Operator, r prox.Prox, y []float64, sol *vjp.Solution) {
	t.Helper()
	d, p := a.Dims()
	v, z := dev.Alloc(1, p), dev.Alloc(1, d)
	defer v.Free()
	defer z.Free()
	dev.Upload(z, y)
	a.Adjoint(v, z)
	scale := math.Sqrt(dotOf(dev, v))
	dev.Lin(z, 1, z, -1, sol.MuHat)
	a.Adjoint(v, z)
	dev.Lin(v, 1, sol.B, 1, v)
	if err := r.Eval(v, v, 1); err != nil {
		t.Fatal(err)
	}
	dev.Lin(v, 1, v, -1, sol.B)
	if least := math.Sqrt(dotOf(dev, v)) / scale; least > sol.Optimality+1e-12 {
		t.Errorf("optimality %.3g, but a proximal gradient step has length %.3g", sol.Optimality, least)
	}
}

func dotOf(dev array.Device, x array.Batch) float64 {
	var out [1]float64
	dev.Dot(out[:], x, x)
	return out[0]
}

// Out of iterations the optimality is a bound all the same, and the solution is
// differentiated as asked.
func TestFactoredIterationsStopWhereTold(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		vjp.FactorAll(t)
		arraytest.NoLeak(t, dev)
		c := completionCases[0].on(t, dev)
		a, y := completion(t, dev, c.shape, c.d)
		r := prox.NewNuclear(c.shape, c.lambda)
		for _, n := range []int{1, 2, 20} {
			for kind, want := range map[vjp.Derivative]string{vjp.Auto: "unrolled", vjp.Implicit: "implicit", vjp.None: ""} {
				s := newSolver(t, "fista", vjp.Problem{A: a, R: r, Device: dev}, vjp.Options{MaxIter: n, Derivative: kind})
				sol := stopped(t, s, dev, y)
				got := ""
				if sol.Linearization != nil {
					got = sol.Linearization.Kind()
				}
				if sol.Converged || sol.Iterations != n || got != want {
					t.Errorf("%+v and derivative %q after %d iterations at most, want %q", sol.Convergence, got, n, want)
				}
				checkOptimality(t, dev, a, r, y, sol)
				sol.Release()
			}
		}
		s := newSolver(t, "fista", vjp.Problem{A: a, R: r, Device: dev}, vjp.Options{})
		on := dev.Alloc(1, len(y))
		defer on.Free()
		dev.Upload(on, y)
		for n := range 12 {
			sol, err := s.Solve(&cancelAfter{Context: context.Background(), n: 5 * n}, on)
			if err == nil {
				sol.Release()
			}
		}
	})
}
