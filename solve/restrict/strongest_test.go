package restrict

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// The strongest are the first of a stable sort, whatever values are equal, infinite or not positive.
func TestStrongestAreTheFirstOfASort(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		values := make([]float64, rng.IntN(30))
		var want []int
		for j := range values {
			if values[j] = float64(rng.IntN(6) - 1); rng.IntN(5) == 0 {
				values[j] = 1 / float64(rng.IntN(2))
			}
			if values[j] > 0 {
				want = append(want, j)
			}
		}
		limit := rng.IntN(12)
		slices.SortStableFunc(want, func(i, j int) int { return cmp.Compare(values[j], values[i]) })
		want = want[:min(limit, len(want))]
		slices.Sort(want)
		if got := Strongest(values, limit); !slices.Equal(got, want) {
			t.Fatalf("the strongest %d of %v are %v, expected %v", limit, values, got, want)
		}
	}
}
