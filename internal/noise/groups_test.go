package noise

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"surepipe/internal/lists"
)

// Fifths are those of a sort, whatever the values.
func TestFifthsAreThoseOfASort(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 1))
	for name, draw := range map[string]func() float64{
		"normal":   r.NormFloat64,
		"few":      func() float64 { return math.Floor(4 * r.Float64()) },
		"one":      func() float64 { return 3 },
		"outliers": func() float64 { return math.Exp(40 * r.NormFloat64()) },
		"wide":     func() float64 { return math.Copysign(math.MaxFloat64, r.NormFloat64()) },
	} {
		for _, n := range []int{1, 3, 7, 500} {
			values := lists.Make(n, func(int) float64 { return draw() })
			var g Grouping
			g.Fifths("", []float64{1, 2, 3})
			g.Fifths("", values)
			sorted := slices.Sorted(slices.Values(values))
			var ends []int
			for first := 0; first < n; first = ends[len(ends)-1] {
				next := max(first+1, (len(ends)+1)*n/fifths)
				for next < n && sorted[next] == sorted[next-1] {
					next++
				}
				ends = append(ends, next)
			}
			for i, v := range values {
				at, _ := slices.BinarySearch(sorted, v)
				want := 0
				for ends[want] <= at {
					want++
				}
				if g.Of[i] != want || len(g.At) != len(ends) {
					t.Fatalf("%s, %d values: %g is in group %d of %d, expected %d of %d", name, n, v, g.Of[i], len(g.At),
						want, len(ends))
				}
			}
		}
	}
}
