package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

func random(rng *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}

// Every length, aligned or not, gives what the loop in Go gives.
func TestDotAgrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 130 {
		offset := n % 4
		x, y := random(rng, n+offset), random(rng, n+offset+1)
		if got, want := Dot(x[offset:], y), dot(x[offset:], y); !(math.Abs(got-want) <= 1e-12) {
			t.Fatalf("n = %d: dot %v, expected %v", n, got, want)
		}
	}
}

// A tenth of a matrix of 1000 columns by 80, a row, for a vector and for 12.
func benchmark(b *testing.B, do func(w, r int, x, y, z []float64, other []int32)) {
	const rows, r, count = 1000, 80, 100
	rng := rand.New(rand.NewPCG(1, 2))
	for _, w := range []int{1, 12} {
		x, y, z := random(rng, w*r), random(rng, rows*r), random(rng, w*count)
		other := make([]int32, count)
		for u := range other {
			other[u] = int32(rows * u / count)
		}
		b.Run(map[int]string{1: "vector", 12: "tile"}[w], func(b *testing.B) {
			b.SetBytes(int64(8 * r * count * w))
			for b.Loop() {
				do(w, r, x, y, z, other)
			}
		})
	}
}

func BenchmarkProducts(b *testing.B) {
	benchmark(b, func(w, r int, x, y, z []float64, other []int32) {
		Products(z, len(other), x, r, w, y, other, r)
	})
}

func BenchmarkSums(b *testing.B) {
	benchmark(b, func(w, r int, x, y, z []float64, other []int32) {
		Sums(x, r, w, 1e-3, z, len(other), y, other, r)
	})
}

func BenchmarkDot(b *testing.B) {
	y, x := make([]float64, 80), make([]float64, 80)
	b.SetBytes(2 * 8 * 80)
	for b.Loop() {
		Dot(x, y)
	}
}
