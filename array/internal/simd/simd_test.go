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

// Every length, aligned or not, gives what the loops in Go give, and nothing beyond the
// end is touched.
func TestLoopsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 130 {
		const rows = 9
		offset, count := n%4, n%11
		y, b, z := random(rng, n+offset+1), random(rng, rows*n+1), random(rng, 20)
		entry, other := make([]int32, count), make([]int32, count)
		for u := range entry {
			entry[u], other[u] = rng.Int32N(20), rng.Int32N(rows)
		}
		got, want := append([]float64(nil), y...), append([]float64(nil), y...)
		AddRows(got[offset:offset+n], -1.5, z, entry, b, other, n)
		addRows(want[offset:offset+n], -1.5, z, entry, b, other, n)
		for i := range got {
			if e := math.Abs(got[i] - want[i]); !(e <= 1e-13) || (i < offset || i >= offset+n) && got[i] != y[i] {
				t.Fatalf("n = %d, %d rows: entry %d is %v, expected %v", n, count, i, got[i], want[i])
			}
		}
		if got, want := Dot(b[offset%2:][:n], y), dot(b[offset%2:][:n], y); !(math.Abs(got-want) <= 1e-12) {
			t.Fatalf("n = %d: dot %v, expected %v", n, got, want)
		}
	}
}

// A tenth of a matrix of 1000 columns by 80, a row.
func BenchmarkAddRows(b *testing.B) {
	const rows, r, count = 1000, 80, 100
	rng := rand.New(rand.NewPCG(1, 2))
	y, x, z := make([]float64, r), random(rng, rows*r), random(rng, count)
	entry, other := make([]int32, count), make([]int32, count)
	for u := range entry {
		entry[u], other[u] = int32(u), int32(rows*u/count)
	}
	b.SetBytes(8 * r * count)
	for b.Loop() {
		AddRows(y, 1, z, entry, x, other, r)
	}
}

func BenchmarkDot(b *testing.B) {
	y, x := make([]float64, 80), make([]float64, 80)
	b.SetBytes(2 * 8 * 80)
	for b.Loop() {
		Dot(x, y)
	}
}
