package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Every length, aligned or not, gives what the loops in Go give, and nothing beyond the
// end is touched.
func TestLoopsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	for n := range 70 {
		for offset := range 4 {
			y, x := random(n+offset+1), [4][]float64{}
			for i := range x {
				x[i] = random(n + offset + 1)[offset:]
			}
			a := [4]float64{1.5, -2, 0.25, 3}
			got, want := append([]float64(nil), y...), append([]float64(nil), y...)
			Axpy4(got[offset:offset+n], x[0], x[1], x[2], x[3], &a)
			axpy4(want[offset:offset+n], x[0], x[1], x[2], x[3], &a)
			Axpy(got[offset:offset+n], x[2], -0.75)
			axpy(want[offset:offset+n], x[2], -0.75)
			for i := range got {
				if e := math.Abs(got[i] - want[i]); !(e <= 1e-14) || (i < offset || i >= offset+n) && got[i] != y[i] {
					t.Fatalf("n = %d, offset %d: entry %d is %v, expected %v", n, offset, i, got[i], want[i])
				}
			}
			if got, want := Dot(x[0][:n], x[1]), dot(x[0][:n], x[1]); !(math.Abs(got-want) <= 1e-13) {
				t.Fatalf("n = %d: dot %v, expected %v", n, got, want)
			}
		}
	}
}

// A row of a matrix of rank 80.
func BenchmarkAxpy4(b *testing.B) {
	y, x := make([]float64, 80), make([]float64, 4*80)
	a := [4]float64{1, 2, 3, 4}
	b.SetBytes(5 * 8 * 80)
	for b.Loop() {
		Axpy4(y, x, x[80:], x[160:], x[240:], &a)
	}
}

func BenchmarkDot(b *testing.B) {
	y, x := make([]float64, 80), make([]float64, 80)
	b.SetBytes(2 * 8 * 80)
	for b.Loop() {
		Dot(x, y)
	}
}
