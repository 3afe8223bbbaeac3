package simd

import (
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

// Every length, aligned or not, gives what the loop in Go gives, nothing beyond the end is touched,
// and the bits of an entry are the same in a row of another length.
func TestSumsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 100 {
		for _, count := range []int{0, 1, 2, 3, 4, 5, 11} {
			for _, stride := range []int{0, 1, n + 3} {
				offset := n % 4
				q, x := random(rng, count), random(rng, max(count-1, 0)*stride+n+offset)
				for _, add := range []bool{false, true} {
					y := random(rng, n+offset+1)
					got, want := append([]float64(nil), y...), append([]float64(nil), y...)
					Sum(got[offset:offset+n], q, x[offset:], stride, add)
					sum(want[offset:offset+n], q, x[offset:], stride, add)
					for i := range got {
						if got[i] != want[i] || (i < offset || i >= offset+n) && got[i] != y[i] {
							t.Fatalf("n = %d, %d rows %d apart: entry %d is %v, expected %v", n, count, stride, i,
								got[i], want[i])
						}
					}
					if n > 0 {
						one := []float64{y[offset+n-1]}
						Sum(one, q, x[offset+n-1:], stride, add)
						if one[0] != got[offset+n-1] {
							t.Fatalf("n = %d, %d rows: the last entry alone is %v, in its row %v", n, count, one[0],
								got[offset+n-1])
						}
					}
				}
			}
		}
	}
}

func TestMissingRowsPanic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	Sum(make([]float64, 4), make([]float64, 3), make([]float64, 11), 4, false)
}
