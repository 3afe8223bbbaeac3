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

// The derivative of robust PCA on the tangent space of L alone is that of the iterations on both
// parts, is symmetric, and agrees with central differences of the solution.
func TestRobustPCAWithoutTheSparsePart(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		ctx := context.Background()
		shape := array.Shape{Rows: 270, Cols: 66}
		d := shape.Len()
		rng := rand.New(rand.NewPCG(7, 8))
		values := solvetest.LowRankMatrix(rng, shape, 2*math.Sqrt(float64(d)), 0.5)
		for i := range values {
			if i%40 == 0 {
				values[i] += 12 * rng.NormFloat64()
			}
		}
		id := linops.Identity(d)
		p := vjp.Problem{A: linops.HStack(id, id), Device: dev, R: prox.NewSeparable(
			prox.Block{Prox: lowrank.NewNuclear(shape, 16), N: d}, prox.Block{Prox: prox.NewL1(1.5), N: d})}
		bare := p
		bare.A = linops.WithStructure(p.A, linops.Structure{Norm2: linops.Known(2)})
		o := vjp.Options{Tol: 1e-11, Sigma2: 0.25}
		s, err := vjp.NewSolver(ctx, "fista", p, o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		other, err := vjp.NewSolver(ctx, "fista", bare, o)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Release()
		y := dev.Alloc(1, d)
		defer y.Free()
		at := func(s vjp.Solver, step float64, z []float64) *vjp.Solution {
			t.Helper()
			moved := append([]float64(nil), values...)
			floats.AddScaled(moved, step, z)
			dev.Upload(y, moved)
			sol, err := s.Solve(ctx, y)
			if err != nil || !sol.Converged {
				t.Fatalf("%v", err)
			}
			return sol
		}
		z := solvetest.Gaussian(rng, 2*d)
		first, second := z[:d], z[d:]
		probes, got, want := dev.Alloc(2, d), dev.Alloc(2, d), dev.Alloc(2, d)
		for _, b := range []array.Batch{probes, got, want} {
			defer b.Free()
		}
		dev.Upload(probes, z)
		sol, ref := at(s, 0, first), at(other, 0, first)
		defer sol.Release()
		defer ref.Release()
		if err := sol.Linearization.VJP(ctx, got, probes); err != nil {
			t.Fatal(err)
		}
		if err := ref.Linearization.VJP(ctx, want, probes); err != nil {
			t.Fatal(err)
		}
		a, b := got.ToHost(), want.ToHost()
		if e := floats.Distance(a, b, 2); !(e <= 1e-5*floats.Norm(b, 2)) {
			t.Errorf("the derivatives differ by %g of %g", e, floats.Norm(b, 2))
		}
		if u, v := floats.Dot(a[:d], second), floats.Dot(a[d:], first); !(math.Abs(u-v) <= 1e-5*floats.Norm(z, 2)) {
			t.Errorf("<D z1, z2> = %v, <z1, D z2> = %v", u, v)
		}
		const h = 1e-5
		up, down := at(s, h, first), at(s, -h, first)
		defer up.Release()
		defer down.Release()
		difference := up.MuHat.ToHost()
		floats.Sub(difference, down.MuHat.ToHost())
		floats.Scale(1/(2*h), difference)
		if e := floats.Distance(a[:d], difference, 2); !(e <= 1e-3*floats.Norm(difference, 2)) {
			t.Errorf("the derivative differs from central differences by %g of %g", e, floats.Norm(difference, 2))
		}
	})
}
