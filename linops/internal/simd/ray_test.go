package simd

import (
	"math/rand/v2"
	"testing"
)

// Every ray gives the bits of the loop in Go, whatever lines it begins and ends in.
func TestRaysAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const lines, width = 40, 23
	plane, eight := random(rng, lines*width), random(rng, lines*width*Lanes)
	for range 2000 {
		r := Ray{From: rng.IntN(lines), Width: width}
		r.To = r.From + rng.IntN(lines-r.From+1)
		last := max(r.To-1, r.From)
		a, b := rng.Float64()*(width-1.001), rng.Float64()*(width-1.001)
		if last > r.From {
			r.Slope = (b - a) / float64(last-r.From)
		}
		r.At = a - r.Slope*float64(r.From)
		inside := func(line int) bool {
			x := r.At + float64(r.Slope*float64(line))
			return x >= 0 && x < width-1
		}
		if !inside(r.From) || !inside(last) {
			continue
		}
		var sums [8]float64
		r.gather(&sums, plane, r.From)
		if got, want := Gather(plane, r), total(&sums); got != want {
			t.Fatalf("%+v: gathers %v, want %v", r, got, want)
		}
		got, want := append([]float64(nil), plane...), append([]float64(nil), plane...)
		Spread(got, r, 1.3)
		r.spread(want, 1.3, r.From)
		equal(t, r, got, want)

		values := [Lanes]float64(random(rng, Lanes))
		one, two := values, values
		GatherLanes(&one, eight, r)
		r.gatherLanes(&two, eight)
		equal(t, r, one[:], two[:])
		got, want = append([]float64(nil), eight...), append([]float64(nil), eight...)
		SpreadLanes(&values, got, r)
		r.spreadLanes(&values, want)
		equal(t, r, got, want)
	}
}

func equal(t *testing.T, r Ray, got, want []float64) {
	t.Helper()
	for i, v := range got {
		if v != want[i] {
			t.Fatalf("%+v: value %d is %v, want %v", r, i, v, want[i])
		}
	}
}

func TestRaysBesideTheImagePanic(t *testing.T) {
	plane := make([]float64, 3*5)
	for name, r := range map[string]Ray{
		"left": {At: -0.1, To: 3, Width: 5}, "right": {At: 4, To: 3, Width: 5},
		"at the end": {At: 1, Slope: 2, To: 3, Width: 5}, "below": {To: 4, Width: 5},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			Gather(plane, r)
		}()
	}
}
