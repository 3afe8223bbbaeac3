package hutch_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
)

// A part of a probe is that part of the vector, wherever it begins and ends.
func TestPartsOfProbes(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const k, d = 3, 40_000
		whole := dev.Alloc(k, d)
		defer whole.Free()
		hutch.Rademacher(whole, 7, 2, 5)
		for _, part := range [][2]int{{0, d}, {0, 1}, {63, 64}, {64, 65}, {1, 20_000}, {130, 131}, {191, 17_000},
			{16_384, 32_768}, {39_999, d}} {
			from, to := part[0], part[1]
			got := dev.Alloc(k, to-from)
			hutch.RademacherPart(got, 7, 2, 5, from)
			if !slices.Equal(got.ToHost(), whole.Cols(from, to).ToHost()) {
				t.Errorf("entries %d to %d differ", from, to-1)
			}
			got.Free()
		}
	})
}

// For M = diag(s)^2 an estimate from moments is that from the images, however the probes are
// grouped; M is asked for no image.
func TestMomentsReplaceImages(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		const d, queries, part = 500, 10, 77
		scale := dev.Alloc(1, d)
		defer scale.Free()
		host := make([]float64, d)
		for i := range host {
			host[i] = math.Sin(float64(i))
		}
		dev.Upload(scale, host)
		images := func(_ context.Context, dst, v array.Batch, _ []float64) error {
			dev.Mul(dst, v, scale)
			dev.Mul(dst, dst, scale)
			return nil
		}
		// B* x is a vector of sums over parts of 50 entries.
		moments := func(_ context.Context, dev array.Device, x hutch.Signs, share float64, quad, norm2,
			left []float64) error {
			if x.K < 2 || x.Dim != d || share != hutch.DefaultShare {
				t.Errorf("%d probes of length %d with a share of %g", x.K, x.Dim, share)
			}
			z, mz := dev.Alloc(x.K, part), dev.Alloc(x.K, part)
			defer z.Free()
			defer mz.Free()
			for from := 0; from < d; from += part {
				n := min(part, d-from)
				z, mz := z.Cols(0, n), mz.Cols(0, n)
				x.Draw(z, from)
				dev.Mul(mz, z, scale.Cols(from, from+n))
				dev.Mul(mz, mz, scale.Cols(from, from+n))
				sums := make([]float64, x.K)
				dev.Dot(sums, z, mz)
				for i, v := range sums {
					quad[i] += v
				}
				dev.Dot(sums, mz, mz)
				for i, v := range sums {
					norm2[i] += v
					left[i] = 0.25
				}
			}
			return nil
		}
		plan, err := hutch.NewPlan(hutch.Hutchinson, queries, d)
		if err != nil {
			t.Fatal(err)
		}
		o := hutch.Options{Seed: 3, Sample: 4}
		want, err := hutch.Trace(context.Background(), dev, plan, hutch.Exactly(images), o)
		if err != nil {
			t.Fatal(err)
		}
		m := hutch.Exactly(func(context.Context, array.Batch, array.Batch, []float64) error {
			t.Error("an image is asked for")
			return nil
		})
		m.Moments.Compute = moments
		for _, batch := range []int{1, 3, queries} {
			o.Batch = batch
			got, err := hutch.Trace(context.Background(), dev, plan, m, o)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(got.Trace-want.Trace) > 1e-11*want.Trace ||
				math.Abs(got.StdErr-want.StdErr) > 1e-11*want.StdErr ||
				math.Abs(got.Frobenius2-want.Frobenius2) > 1e-11*want.Frobenius2 {
				t.Errorf("batches of %d: %+v by moments, %+v by images", batch, got, want)
			}
			if got.Truncation != 0.25 || got.Queries != queries {
				t.Errorf("batches of %d: truncation %g, %d queries", batch, got.Truncation, got.Queries)
			}
		}
		// A plan with a basis has images.
		plan, err = hutch.NewPlan(hutch.HutchPP, 9, d)
		if err != nil {
			t.Fatal(err)
		}
		if plan.ByMoments(hutch.Residual, m.Moments) {
			t.Error("probes that are projected off a basis are used by moments")
		}
	})
}
