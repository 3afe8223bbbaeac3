package lowrank

import (
	"math"
	"slices"
	"testing"
)

// Rounding may bring values at the threshold out of order; the active ones still come first,
// above it, and the others are not.
func TestSplitAt(t *testing.T) {
	up, down := math.Nextafter(2, 3), math.Nextafter(2, 1)
	for _, c := range []struct{ s, want []float64 }{
		{[]float64{5, 3, 1, 0}, []float64{5, 3, 1, 0}},
		{[]float64{5, down, up, 1}, []float64{5, up, 2, 1}},
		{[]float64{5, 2, up, 1}, []float64{5, up, 2, 1}},
		{[]float64{2, 2}, []float64{2, 2}},
		{[]float64{3, 4}, []float64{3, 4}},
		{[]float64{1, 1.5}, []float64{1, 1.5}},
		{nil, nil},
	} {
		got := slices.Clone(c.s)
		if splitAt(got, 2); !slices.Equal(got, c.want) {
			t.Errorf("%v split at 2 gives %v, expected %v", c.s, got, c.want)
		}
	}
	// What a fault leaves counts as inactive.
	lost := []float64{math.NaN(), math.NaN()}
	if splitAt(lost, 2); lost[0] > 2 || lost[1] > 2 {
		t.Errorf("NaN split at 2 gives %v", lost)
	}
}
