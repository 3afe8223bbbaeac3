package stages

import (
	"math"
	"slices"
	"testing"

	"surepipe/hutch"
	"surepipe/internal/lists"
)

// The mean over a systematic sample of what a place changes over what it may change, times what all may change, is what
// all change, wherever that is.
func TestSampledPlacesTellTheSum(t *testing.T) {
	const d, n = 10000, 40
	has := lists.Make(d, func(i int) float64 { return math.Pow(float64(i+1), -0.7) })
	for name, share := range map[string]func(i int) float64{
		"equal":       func(int) float64 { return 0.3 },
		"first":       func(i int) float64 { return 1 / (1 + 0.001*float64(i)) },
		"last":        func(i int) float64 { return float64(i) / d },
		"every other": func(i int) float64 { return float64(i % 2) },
	} {
		places, all, sampled := lists.Upto(d), 0.0, 0.0
		for i, v := range has {
			all += v * share(i)
		}
		count := spread(places, has, n)
		left := 0.0
		for _, v := range has {
			left += v
		}
		for _, i := range places[:count] {
			sampled += share(i) / float64(count) * left
		}
		if count < n-2 || count > n || math.Abs(sampled-all) > 0.25*all {
			t.Errorf("%s: a sample of %d tells %.3g, expected about %.3g of %d", name, count, sampled, all, n)
		}
		if slices.Sort(places); !slices.Equal(places, lists.Upto(d)) {
			t.Errorf("%s: places were lost", name)
		}
	}
}

// The last of the places that are affordable are a sample of those that are left, unless these are all.
func TestTheLastPlacesAreASample(t *testing.T) {
	for _, c := range []struct {
		places, n, affordable, count int
		last                         bool
	}{
		{1000, fewFirst, 500, fewFirst, false},
		{1000, hutch.DefaultBatch, 500, hutch.DefaultBatch, false},
		{1000, hutch.DefaultBatch, hutch.DefaultBatch + 5, 5, false},
		{1000, hutch.DefaultBatch, 20, 20, true},
		{15, hutch.DefaultBatch, 20, 15, false},
		{1000, fewFirst, 20, fewFirst, false},
	} {
		has := slices.Repeat([]float64{1}, c.places)
		if count, last := next(lists.Upto(c.places), has, c.n, c.affordable); count != c.count || last != c.last {
			t.Errorf("of %d places, %d at a time, %d affordable: %d (last %v), expected %d (%v)", c.places, c.n,
				c.affordable, count, last, c.count, c.last)
		}
	}
}
