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

func TestNumbersOfLists(t *testing.T) {
	if none, some := lists.Product(nil), lists.Product([]int{2, 3, 5}); none != 1 || some != 30 {
		t.Errorf("the products are %d and %d, want 1 and 30", none, some)
	}
	if none, some := lists.MaxAbs(nil), lists.MaxAbs([]float64{1, -3, 2}); none != 0 || some != 3 {
		t.Errorf("the largest are %g and %g, want 0 and 3", none, some)
	}
	if v := lists.MaxAbs([]float64{1, math.NaN(), 2}); !math.IsNaN(v) {
		t.Errorf("the largest with a NaN is %g", v)
	}
	x := make([]int, 2, 4)
	if within, beyond := lists.Resize(x, 4), lists.Resize(x, 5); &within[0] != &x[0] || len(within) != 4 ||
		len(beyond) != 5 || &beyond[0] == &x[0] {
		t.Error("memory is not used again where it is large enough, and only there")
	}
}
