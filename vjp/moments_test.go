package vjp_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// The moments of probes of a tall robust PCA are those of their images, and those of a probe do not
// depend on the others.
func TestMomentsAreThoseOfTheImages(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		ctx := context.Background()
		shape := array.Shape{Rows: 1100, Cols: 66} // two panels of places
		if arraytest.Emulated(t, dev) {
			shape.Rows = 280
		}
		d := shape.Len()
		rng := rand.New(rand.NewPCG(3, 5))
		values := solvetest.LowRankMatrix(rng, shape, 2*math.Sqrt(float64(d)), 0.5)
		for i := range values {
			if i%30 == 0 {
				values[i] += 12 * rng.NormFloat64()
			}
		}
		y := dev.Alloc(1, d)
		defer y.Free()
		dev.Upload(y, values)
		id := linops.Identity(d)
		p := vjp.Problem{A: linops.HStack(id, id), Device: dev, R: prox.NewSeparable(
			prox.Block{Prox: lowrank.NewNuclear(shape, 32), N: d}, prox.Block{Prox: prox.NewL1(1.5), N: d})}
		s, err := vjp.NewSolver(ctx, "fista", p, vjp.Options{Compact: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		sol, err := s.Solve(ctx, y)
		if err != nil {
			t.Fatal(err)
		}
		defer sol.Release()
		if sol.Implied == nil {
			t.Fatal("the solution is not implied")
		}
		l := sol.Linearization
		m := l.Moments()
		if m.Compute == nil || m.Bytes <= 0 || m.Bytes >= l.ProbeBytes() {
			t.Fatalf("moments of %d bytes a probe, images of %d", m.Bytes, l.ProbeBytes())
		}
		const k = 4
		signs := func(first, k int) hutch.Signs {
			return hutch.Signs{K: k, Dim: d, Draw: func(dst array.Batch, from int) {
				hutch.RademacherPart(dst, 1, 0,
					first, from)
			}}
		}
		quad, norm2, left := make([]float64, k), make([]float64, k), make([]float64, k)
		if err := m.Compute(ctx, dev, signs(0, k), 1e-4, quad, norm2, left); err != nil {
			t.Fatal(err)
		}
		w, image := dev.Alloc(k, d), dev.Alloc(k, d)
		defer w.Free()
		defer image.Free()
		hutch.Rademacher(w, 1, 0, 0)
		forms := hutch.Accuracy{Need: hutch.Forms, Share: 1e-4}
		if err := l.Apply(ctx, image, w, forms, make([]float64, k)); err != nil {
			t.Fatal(err)
		}
		wantQuad, wantNorm2 := make([]float64, k), make([]float64, k)
		dev.Dot(wantQuad, w, image)
		dev.Dot(wantNorm2, image, image)
		for i := range k {
			if math.Abs(quad[i]-wantQuad[i]) > 1e-9*wantQuad[i] || math.Abs(norm2[i]-wantNorm2[i]) > 1e-7*wantNorm2[i] {
				t.Errorf("probe %d: moments %g and %g, of its image %g and %g", i, quad[i], norm2[i], wantQuad[i],
					wantNorm2[i])
			}
			if limit := 1e-4 * math.Sqrt(float64(d)/2); !(left[i] >= 0 && left[i] <= limit) {
				t.Errorf("probe %d: a bound of %g, asked for %g", i, left[i], limit)
			}
		}
		two := make([]float64, 6)
		if err := m.Compute(ctx, dev, signs(2, 2), 1e-4, two[:2], two[2:4], two[4:]); err != nil {
			t.Fatal(err)
		}
		if two[0] != quad[2] || two[1] != quad[3] || two[2] != norm2[2] || two[5] != left[3] {
			t.Error("the moments of a probe depend on the others")
		}
		stopped, stop := context.WithCancel(ctx)
		stop()
		if err := m.Compute(stopped, dev, signs(0, 2), 1e-4, two[:2], two[2:4], two[4:]); err != context.Canceled {
			t.Errorf("a cancelled context: %v", err)
		}
	})
}
