package lists_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"surepipe/internal/lists"
)

func TestTheSmallestAreThoseOfASort(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 400; n += 7 {
		for _, different := range []int{1, 3, n} {
			values := lists.Make(n, func(int) float64 { return float64(rng.IntN(different)) })
			values[rng.IntN(n)] = math.Inf(1)
			sorted := slices.Sorted(slices.Values(values))
			for k := range n {
				if got := lists.Smallest(slices.Clone(values), k); got != sorted[k] {
					t.Fatalf("%d of %v is %g, want %g", k, values, got, sorted[k])
				}
			}
		}
	}
}
