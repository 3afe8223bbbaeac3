package vjp_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// Factored iterations give the estimate, the divergence and the Jacobian's images of the
// solver that computes every singular value, in about as many iterations, and their
// optimality is what it says.
func TestFactoredIterationsChangeNothingButRounding(t *testing.T) { checkFactored(t) }

// The same with conjugate gradients for the derivative.
func TestFactoredIterationsWithIteratedDerivatives(t *testing.T) {
	solvetest.IterateAll(t)
	checkFactored(t)
}

// The same with the derivative of the prox, where much is seen.
func TestFactoredIterationsWithTheDerivativeOfTheProx(t *testing.T) {
	solvetest.Decompose(t)
	checkFactored(t)
}

func checkFactored(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		vjp.FactorAll(t)
		for i, c := range solvetest.CompletionCases {
			if arraytest.Emulated(t, dev) && i%2 == 1 {
				continue
			}
			t.Run(c.Name, func(t *testing.T) {
				c := c.On(t, dev)
				arraytest.NoLeak(t, dev)
				a, y := solvetest.Completion(t, dev, c.Shape, c.D)
				floats.AddConst(c.Offset, y)
				r := prox.NewScaled(2, lowrank.NewNuclear(c.Shape, c.Weight(t, dev, a, y)/2))
				o := vjp.Options{Derivative: vjp.Implicit}
				got := solved(t, newSolver(t, c.Solver, vjp.Problem{A: a, R: r, Device: dev}, o), dev, y)
				defer got.Release()
				checkOptimality(t, dev, a, r, y, got)
				if got.Optimality > vjp.DefaultTol {
					t.Errorf("converged with optimality %v, to %v", got.Optimality, vjp.DefaultTol)
				}

				o.Tol = 1e-10 // for what is compared
				tight := solved(t, newSolver(t, c.Solver, vjp.Problem{A: a, R: r, Device: dev}, o), dev, y)
				defer tight.Release()
				want := solved(t, newSolver(t, c.Solver, vjp.Problem{A: plain{a}, R: r, Device: dev}, o), dev, y)
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
				probes, images := dev.Alloc(3, c.D), dev.Alloc(3, c.D)
				defer probes.Free()
				defer images.Free()
				dev.Upload(probes, solvetest.Gaussian(rand.New(rand.NewPCG(1, 2)), 3*c.D))
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
		c := solvetest.CompletionCases[0].On(t, dev)
		a, y := solvetest.Completion(t, dev, c.Shape, c.D)
		r := lowrank.NewNuclear(c.Shape, c.Lambda)
		for _, n := range []int{1, 2, 10} {
			for kind, want := range map[vjp.Derivative]string{vjp.Auto: "unrolled", vjp.Implicit: "implicit",
				vjp.None: ""} {
				s := newSolver(t, "fista", vjp.Problem{A: a, R: r, Device: dev},
					vjp.Options{MaxIter: n, Derivative: kind})
				sol := stopped(t, s, dev, y)
				got := ""
				if sol.Linearization != nil {
					got = sol.Linearization.Kind()
				}
				if sol.Converged || sol.Iterations != n || got != want {
					t.Errorf("%+v and derivative %q after %d iterations at most, want %q", sol.Convergence, got, n,
						want)
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
