package vjp_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/prox/lowrank"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// With one factor eliminated solutions, images and bounds of forms are those of the solver that
// computes every singular value, on tall, wide and square matrices, with effects of rows, of columns and of both.
func TestReducedSystemsChangeNothingButRounding(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		vjp.FactorAll(t)
		solvetest.ReduceAll(t)
		for _, c := range []struct {
			shape      array.Shape
			rows, cols bool
		}{
			{shape: array.Shape{Rows: 60, Cols: 40}}, {shape: array.Shape{Rows: 40, Cols: 60}},
			{shape: array.Shape{Rows: 45, Cols: 45}},
			{shape: array.Shape{Rows: 60, Cols: 40}, rows: true, cols: true},
			{shape: array.Shape{Rows: 40, Cols: 60}, rows: true},
			{shape: array.Shape{Rows: 45, Cols: 45}, cols: true},
		} {
			t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
				arraytest.NoLeak(t, dev)
				const d = 500
				picks, y := solvetest.Completion(t, dev, c.shape, d)
				var a linops.Operator = picks
				if c.rows || c.cols {
					e, err := additive.NewEffects(dev, c.shape, picks.Indices(), c.rows, c.cols, nil)
					if err != nil {
						t.Fatal(err)
					}
					defer e.Release()
					a = additive.WithoutEffects(picks, e)
					of := dev.Put(y, 1, d)
					defer of.Free()
					e.Remove(of)
					y = of.ToHost()
				}
				r := lowrank.NewNuclear(c.shape, 3)
				o := vjp.Options{Derivative: vjp.Implicit, Tol: 1e-10}
				got := solved(t, newSolver(t, "fista", vjp.Problem{A: a, R: r, Device: dev}, o), dev, y)
				defer got.Release()
				want := solved(t, newSolver(t, "fista", vjp.Problem{A: plain{a}, R: r, Device: dev}, o), dev, y)
				defer want.Release()
				size := floats.Norm(y, 2)
				if e := floats.Distance(got.B.ToHost(), want.B.ToHost(), 2); !(e <= 1e-7*size) {
					t.Errorf("b is off by %.3g, y of size %.3g", e, size)
				}
				probes, images := dev.Alloc(3, d), dev.Alloc(3, d)
				defer probes.Free()
				defer images.Free()
				dev.Upload(probes, solvetest.Gaussian(rand.New(rand.NewPCG(1, 2)), 3*d))
				t.Logf("%d iterations, %d with all", got.Iterations, want.Iterations)
				image := func(s *vjp.Solution) []float64 {
					if err := s.Linearization.VJP(t.Context(), images, probes); err != nil {
						t.Fatal(err)
					}
					return images.ToHost()
				}
				near(t, "the Jacobian's images", image(got), image(want), 1e-6)
				checkBounds(t, dev, vjp.Problem{A: a, R: r, Device: dev}, y)
			})
		}
	})
}
