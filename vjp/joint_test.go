package vjp_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// Robust PCA restricted to the tangent space and the sparse part's support has the Jacobian of
// robust PCA on all coordinates, and central differences agree.
func TestRobustPCAOnItsSpaces(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, shape := range []array.Shape{{Rows: 18, Cols: 14}, {Rows: 13, Cols: 20}} {
			for _, gamma := range []float64{2.5, 1e6} { // with a sparse part and without
				t.Run(fmt.Sprintf("%dx%d gamma %g", shape.Rows, shape.Cols, gamma), func(t *testing.T) {
					arraytest.NoLeak(t, dev)
					d := shape.Len()
					rng := rand.New(rand.NewPCG(uint64(shape.Rows), 3))
					var low mat.Dense
					low.Mul(mat.NewDense(shape.Rows, 2, solvetest.Gaussian(rng, 2*shape.Rows)),
						mat.NewDense(2, shape.Cols, solvetest.Gaussian(rng, 2*shape.Cols)))
					y := low.RawMatrix().Data
					floats.AddScaled(y, 0.5, solvetest.Gaussian(rng, d))
					for range d / 20 {
						y[rng.IntN(d)] += 10
					}
					a := linops.HStack(linops.Identity(d), linops.Identity(d))
					r := prox.NewSeparable(lowrank.NewNuclear(shape, 4), prox.Block{Prox: prox.NewL1(gamma), N: d})
					o := vjp.Options{Derivative: vjp.Implicit, Tol: 1e-11, MaxIter: 100000}
					spaces := newSolver(t, "fista", vjp.Problem{A: a, R: r, Device: dev}, o)
					got := solved(t, spaces, dev, y)
					defer got.Release()
					want := solved(t, newSolver(t, "fista", vjp.Problem{A: plain{a}, R: r, Device: dev}, o), dev, y)
					defer want.Release()
					if got.Linearization.ProbeBytes() >= want.Linearization.ProbeBytes() {
						t.Error("the linearization is not confined")
					}
					const k = 3
					probes, images, others := dev.Alloc(k, d), dev.Alloc(k, d), dev.Alloc(k, d)
					defer probes.Free()
					defer images.Free()
					defer others.Free()
					v := solvetest.Gaussian(rng, k*d)
					dev.Upload(probes, v)
					ctx := context.Background()
					if err := got.Linearization.VJP(ctx, images, probes); err != nil {
						t.Fatal(err)
					}
					if err := want.Linearization.VJP(ctx, others, probes); err != nil {
						t.Fatal(err)
					}
					size := floats.Norm(v, 2)
					if e := floats.Distance(images.ToHost(), others.ToHost(), 2); !(e <= 1e-7*size) {
						t.Errorf("images are off those on all coordinates by %.2g of %.2g", e, size)
					}
					const h = 1e-5
					moved := func(h float64) []float64 {
						z := append([]float64(nil), y...)
						floats.AddScaled(z, h, v[:d])
						sol := solved(t, spaces, dev, z)
						defer sol.Release()
						return sol.MuHat.ToHost()
					}
					difference := moved(h)
					floats.Sub(difference, moved(-h))
					floats.Scale(1/(2*h), difference)
					if e := floats.Distance(images.ToHost()[:d], difference, 2); !(e <= 1e-4*size) {
						t.Errorf("the image is off central differences by %.2g of %.2g", e, size)
					}
				})
			}
		}
	})
}
