package figure

import (
	"fmt"
	"math"
	"slices"
)

// Values beyond these are rejected: their squares would leave the range of a float64.
const (
	leastSize    = 1e-140
	greatestSize = 1e140
)

// check rejects numbers that cannot be drawn, and a length other than n, at least one. Optional ones may be nil.
func check(name string, values []float64, n int, optional bool) error {
	if n = max(n, 1); len(values) != n && (values != nil || !optional) {
		return fmt.Errorf("figure: %s has %d values, expected %d", name, len(values), n)
	}
	for i, v := range values {
		if size := math.Abs(v); v != 0 && !(size >= leastSize && size <= greatestSize) {
			return fmt.Errorf("figure: %s[%d] is %g, expected 0 or a magnitude from %g to %g", name, i, v, leastSize,
				greatestSize)
		}
	}
	return nil
}

// checkPositive is [check] for the places on a logarithmic axis.
func checkPositive(name string, values []float64, n int) error {
	for i, v := range values {
		if v <= 0 {
			return fmt.Errorf("figure: %s[%d] is %g, expected a positive number: its axis is logarithmic", name, i, v)
		}
	}
	return check(name, values, n, false)
}

// Minimizer is the index of the least value among those that converged, or of all
// values if none did (converged nil: all did); -1 if there are none.
func Minimizer(values []float64, converged []bool) int {
	all, best := !slices.Contains(converged, true), -1
	for i, v := range values {
		if (all || converged[i]) && (best < 0 || v < values[best]) {
			best = i
		}
	}
	return best
}
