package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Tiles of every shape are sums of products, and nothing beside them is touched.
func TestTilesAreProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	for r := range 170 {
		const rows = 9
		w, n := r%15, (3*r)%11
		stride := r + r%2
		x, y, z := random(rng, w*stride+1), random(rng, rows*r+1), random(rng, w*n+1)
		other := make([]int32, n)
		for u := range other {
			other[u] = rng.Int32N(rows)
		}
		out, c := random(rng, w*n+1), slices.Clone(x)
		end := out[w*n]
		Products(out, n, x, stride, w, y, other, r)
		Sums(c, stride, w, -1.5, z, n, y, other, r)
		for s := range w {
			for u, j := range other {
				if want := dot(x[s*stride:][:r], y[int(j)*r:]); math.Abs(out[s*n+u]-want) > 1e-12 {
					t.Fatalf("r = %d: product %d, %d is %v, expected %v", r, s, u, out[s*n+u], want)
				}
			}
		}
		for i, got := range c {
			want, s, l := x[i], 0, i
			if stride > 0 {
				s, l = i/stride, i%stride
			}
			if s < w && l < r {
				for u, j := range other {
					want -= 1.5 * z[s*n+u] * y[int(j)*r+l]
				}
			}
			if math.Abs(got-want) > 1e-12 {
				t.Fatalf("r = %d: value %d of vector %d is %v, expected %v", r, l, s, got, want)
			}
		}
		if out[w*n] != end {
			t.Fatalf("r = %d: the value after the products has changed", r)
		}
	}
}
