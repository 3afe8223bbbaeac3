package vjp_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

func stopped(t *testing.T, s vjp.Solver, dev array.Device, y []float64) *vjp.Solution {
	t.Helper()
	b := dev.Alloc(1, len(y))
	defer b.Free()
	dev.Upload(b, y)
	sol, err := s.Solve(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	return sol
}

// The unrolled derivative is that of the iterate the solver stopped at, however
// far from converged.
func TestUnrolledDifferentiatesTheIterateItStoppedAt(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		if testing.Short() {
			t.Skip("thousands of solves on one goroutine")
		}
		for _, f := range fewFixtures(t, dev) {
			for _, name := range f.solvers {
				if name == "direct" {
					continue
				}
				for _, iterations := range []int{1, 2, 7} {
					s := newSolver(t, name, f.problem, vjp.Options{Tol: 1e-300, MaxIter: iterations,
						Derivative: vjp.Unrolled})
					sol := stopped(t, s, dev, f.y)
					d := len(f.y)
					j := jacobian(t, sol.Linearization, dev, d)
					sol.Release()
					const h = 1e-6
					for i := range d {
						y := append([]float64(nil), f.y...)
						y[i] = f.y[i] + h
						up := stopped(t, s, dev, y)
						y[i] = f.y[i] - h
						down := stopped(t, s, dev, y)
						a, b := up.MuHat.ToHost(), down.MuHat.ToHost()
						up.Release()
						down.Release()
						for k := range d {
							// VJP: row k of the measured matrix is (D mu_hat)* e_k.
							if e := math.Abs((a[k]-b[k])/(2*h) - j.At(k, i)); e > 1e-6 {
								t.Fatalf("%s/%s after %d iterations: entry (%d, %d) off by %g", f.name, name,
									iterations, k, i, e)
							}
						}
					}
				}
			}
		}
	})
}

// A tape that may hold a tenth of its size, or a single record, gives the same
// bits, stays within its budget, and leaks nothing.
func TestCheckpointedTapeGivesTheSameBits(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		iterations := 300
		if arraytest.Emulated(t, dev) {
			iterations = 30
		}
		for _, f := range fewFixtures(t, dev) {
			for _, name := range f.solvers {
				if name == "direct" {
					continue
				}
				o := vjp.Options{Tol: 1e-300, MaxIter: iterations, Derivative: vjp.Unrolled}
				full := stopped(t, newSolver(t, name, f.problem, o), dev, f.y)
				size := full.Linearization.Bytes()
				want := jacobian(t, full.Linearization, dev, len(f.y))
				full.Release()
				for _, budget := range []int64{size / 10, size / 40, 1} {
					if budget < 1 {
						continue
					}
					o.Memory = budget
					before := dev.Stats().Live
					sol := stopped(t, newSolver(t, name, f.problem, o), dev, f.y)
					state := int64(3 * 8 * sol.B.N()) // admm's: b, z and the multiplier
					if got := sol.Linearization.Bytes(); got > max(budget, 2*state) {
						t.Errorf("%s/%s: %d bytes held with a budget of %d", f.name, name, got, budget)
					}
					got := jacobian(t, sol.Linearization, dev, len(f.y))
					for i, v := range got.RawMatrix().Data {
						if v != want.RawMatrix().Data[i] {
							t.Fatalf("%s/%s with %d of %d bytes: value %d is %v, not %v", f.name, name, budget, size,
								i, v, want.RawMatrix().Data[i])
						}
					}
					sol.Release()
					if after := dev.Stats().Live; after != before {
						t.Errorf("%s/%s: %d batches leaked", f.name, name, after-before)
					}
				}
			}
		}
	})
}

// The bits of a VJP depend on the probe alone, not on its batch, from two probes
// up.
func TestVJPBitsDoNotDependOnTheBatch(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, f := range fewFixtures(t, dev) {
			for _, name := range f.solvers {
				for _, derivative := range derivatives(name) {
					sol := stopped(t, newSolver(t, name, f.problem, vjp.Options{Tol: 1e-8, Derivative: derivative}),
						dev, f.y)
					d := len(f.y)
					want := jacobian(t, sol.Linearization, dev, d)
					e, out := dev.Alloc(d, d), dev.Alloc(d, d)
					dev.Fill(e, 0)
					id := e.ToHost()
					for i := range d {
						id[i*d+i] = 1
					}
					dev.Upload(e, id)
					for _, batch := range []int{2, 3, 7} {
						for i := 0; i+batch <= d; i += batch {
							k := i + batch
							if err := sol.Linearization.VJP(context.Background(), out.Rows(i, k),
								e.Rows(i, k)); err != nil {
								t.Fatal(err)
							}
						}
						for i, v := range out.Rows(0, d/batch*batch).ToHost() {
							if v != want.RawMatrix().Data[i] {
								t.Fatalf("%s/%s in batches of %d: %v, not %v", f.name, name, batch, v,
									want.RawMatrix().Data[i])
							}
						}
					}
					e.Free()
					out.Free()
					sol.Release()
				}
			}
		}
	})
}

// cancelAfter is a context whose Err is non-nil after n calls.
type cancelAfter struct {
	context.Context
	n int
}

func (c *cancelAfter) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

func TestCancelledSolveAndSweepLeakNothing(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, f := range fewFixtures(t, dev) {
			for _, name := range f.solvers {
				if name == "direct" {
					continue
				}
				s := newSolver(t, name, f.problem, vjp.Options{Tol: 1e-10, Memory: 4096, Derivative: vjp.Unrolled})
				sol := stopped(t, s, dev, f.y)
				before := dev.Stats().Live
				y, v := dev.Alloc(1, len(f.y)), dev.Alloc(3, len(f.y))
				out := dev.Alloc(3, len(f.y))
				dev.Upload(y, f.y)
				dev.Fill(v, 1)
				for _, n := range []int{0, 1, 5, 12} {
					cancelled, err := s.Solve(&cancelAfter{context.Background(), n}, y)
					if err == nil {
						cancelled.Release()
					}
					if n < sol.Iterations && !errors.Is(err, context.Canceled) {
						t.Errorf("%s/%s: solve cancelled at look %d: %v", f.name, name, n, err)
					}
					if err := sol.Linearization.VJP(&cancelAfter{context.Background(), n}, out,
						v); n < sol.Iterations && !errors.Is(err, context.Canceled) {
						t.Errorf("%s/%s: sweep cancelled at look %d: %v", f.name, name, n, err)
					}
				}
				for _, b := range []array.Batch{y, v, out} {
					b.Free()
				}
				if after := dev.Stats().Live; after != before {
					t.Errorf("%s/%s: %d batches leaked", f.name, name, after-before)
				}
				sol.Release()
			}
		}
	})
}

func TestNaNInYIsAnError(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, f := range fewFixtures(t, dev) {
			for _, name := range f.solvers {
				s := newSolver(t, name, f.problem, vjp.Options{})
				y := dev.Alloc(1, len(f.y))
				for _, bad := range []float64{math.NaN(), math.Inf(1)} {
					values := append([]float64(nil), f.y...)
					values[1] = bad
					dev.Upload(y, values)
					if sol, err := s.Solve(context.Background(), y); err == nil {
						sol.Release()
						t.Errorf("%s/%s: no error for y with %g", f.name, name, bad)
					}
				}
				y.Free()
			}
		}
	})
}

// plain hides everything but the two directions of an operator.
type plain struct{ linops.Operator }

// A sweep confined to active coordinates gives what the full sweep gives.
func TestActiveCoordinatesChangeNothingButRounding(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(5, 6))
		const d, p = 60, 700
		x := linops.NewDense(dev, mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)))
		defer x.Release()
		y := scaled(3, solvetest.Gaussian(rng, d))
		for _, derivative := range []vjp.Derivative{vjp.Unrolled, vjp.Implicit} {
			lambdas := []float64{2, 20, 40}
			if arraytest.Emulated(t, dev) {
				t.Logf("%s is emulated: the sparsest solution only", dev.Name())
				lambdas = lambdas[2:]
			}
			for _, lambda := range lambdas {
				name := "fista"
				var jacobians [2]*mat.Dense
				for i, a := range []linops.Operator{x, plain{x}} {
					before := dev.Stats().Live
					s := newSolver(t, name, vjp.Problem{A: a, R: prox.NewL1(lambda), Device: dev},
						vjp.Options{Tol: 1e-9, MaxIter: 300, Derivative: derivative})
					sol := stopped(t, s, dev, y)
					jacobians[i] = jacobian(t, sol.Linearization, dev, d)
					sol.Release()
					if after := dev.Stats().Live; after != before {
						t.Errorf("%s: %d batches leaked", name, after-before)
					}
				}
				var diff mat.Dense
				diff.Sub(jacobians[0], jacobians[1])
				if e := mat.Norm(&diff, math.Inf(1)); e > 1e-6 || derivative == vjp.Unrolled && e > 1e-11 {
					t.Errorf("%s, lambda %g: Jacobians differ by %g", derivative, lambda, e)
				}
			}
		}
	})
}
