package hutch_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/hutch"
)

// Vectors that another run has queried count with the same bits, the diagonal included; a number that
// is not a vector's is refused.
func TestTakenProbesAreThoseOfOneRun(t *testing.T) {
	dev := array.NewHost()
	const d, queries = 31, 25
	images := func(_ context.Context, dst, v array.Batch, _ []float64) error {
		half := dev.Alloc(1, d)
		defer half.Free()
		dev.Fill(half, 0.5)
		dev.Mul(dst, v, half)
		return dev.Err()
	}
	for _, name := range []string{hutch.Hutchinson, hutch.Exact} {
		plan, err := hutch.NewPlan(name, queries, d)
		if err != nil || !plan.Divisible() {
			t.Fatal(err)
		}
		taken := map[int]hutch.Probe{}
		o := hutch.Options{Seed: 2, Diagonal: true, Taken: func(first int, probes []hutch.Probe) error {
			for i, p := range probes {
				taken[first+i] = p
			}
			return nil
		}}
		whole := hutch.NewRun(dev, plan, hutch.Matrix{Images: images}, o)
		merged := hutch.NewRun(dev, plan, hutch.Matrix{Images: images}, hutch.Options{Seed: 2, Diagonal: true})
		for _, r := range []*hutch.Run{whole, merged} {
			defer r.Free()
			if err := r.EndSketch(); err != nil {
				t.Fatal(err)
			}
		}
		n := whole.Count(plan.Phase())
		if err := whole.Do(context.Background(), plan.Phase(), 0, n); err != nil {
			t.Fatal(err)
		}
		if err := merged.Do(context.Background(), plan.Phase(), 3, 2); err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{-1, n} {
			if err := merged.Take(i, taken[0]); err == nil || !strings.Contains(err.Error(), "of") {
				t.Errorf("vector %d: %v", i, err)
			}
		}
		if err := merged.Take(0, hutch.Probe{Samples: []float64{1}}); err == nil ||
			!strings.Contains(err.Error(), "1 samples of the diagonal, expected 31") {
			t.Error(err)
		}
		for i := range n {
			if merged.Known(i) != (i == 3 || i == 4) {
				t.Errorf("vector %d is known: %v", i, merged.Known(i))
			} else if merged.Known(i) {
				continue
			}
			if err := merged.Take(i, taken[i]); err != nil {
				t.Fatal(err)
			}
		}
		want, err := whole.Estimate()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := merged.Estimate(); err != nil || got != want {
			t.Errorf("%s: %+v, %v, expected %+v", name, got, err, want)
		}
		if a, b := whole.Diagonal(), merged.Diagonal(); !slices.Equal(a, b) {
			t.Errorf("%s: diagonal %v, expected %v", name, b, a)
		}
		if name == hutch.Exact {
			continue
		}
		square := func(_ int, h float64) float64 { return h * h }
		a, err := whole.Leverages().Mean(square)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := merged.Leverages().Mean(square); err != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("leverages %+v, %v, expected %+v", b, err, a)
		}
	}
}
