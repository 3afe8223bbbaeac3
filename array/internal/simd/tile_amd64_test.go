package simd

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Tiles of any number of vectors give the same bits.
func TestTilesAgree(t *testing.T) {
	if !fast {
		t.Skip("no AVX2")
	}
	rng := rand.New(rand.NewPCG(3, 2))
	for trial := range 150 {
		r, w, n, rows := 1+rng.IntN(300), 1+rng.IntN(14), 1+rng.IntN(20), 1+rng.IntN(12)
		stride := r + rng.IntN(3)
		x, y, z := random(rng, w*stride), random(rng, rows*r), random(rng, w*n)
		other := make([]int32, n)
		for u := range other {
			other[u] = rng.Int32N(int32(rows))
		}
		run := func(step int) (out, c []float64) {
			out, c = make([]float64, w*n), slices.Clone(x)
			for s := 0; s < w; s += step {
				some := min(step, w-s)
				Products(out[s*n:], n, x[s*stride:], stride, some, y, other, r)
				Sums(c[s*stride:], stride, some, -1.5, z[s*n:], n, y, other, r)
			}
			return out, c
		}
		dots, adds := run(w)
		some, c := run(1)
		if !slices.Equal(some, dots) || !slices.Equal(c, adds) {
			t.Fatalf("trial %d: %d rows of %d for %d vectors differ", trial, n, r, w)
		}
	}
}
