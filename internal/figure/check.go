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

// kind says which numbers are allowed.
type kind int

const (
	anySign     kind = 0
	notNegative kind = 1 << iota
	positive
	increasing // and positive
	optional   // nil is none
)

// checkSeries rejects values that cannot be drawn, and a length other than n (negative: any but 0).
func checkSeries(name string, values []float64, n int, allowed kind) error {
	switch {
	case values == nil && allowed&optional != 0:
		return nil
	case n < 0 && len(values) == 0:
		return fmt.Errorf("figure: %s is empty, expected at least one value", name)
	case n >= 0 && len(values) != n:
		return fmt.Errorf("figure: %s has %d values, expected %d", name, len(values), n)
	}
	for i, v := range values {
		expected, size := "", math.Abs(v)
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			expected = "a finite number"
		case size > greatestSize || size < leastSize && v != 0:
			expected = fmt.Sprintf("0 or a magnitude from %g to %g", leastSize, greatestSize)
		case allowed&notNegative != 0 && v < 0:
			expected = "zero or a positive number"
		case allowed&(positive|increasing) != 0 && v <= 0:
			expected = "a positive number: its axis is logarithmic"
		case allowed&increasing != 0 && i > 0 && v < values[i-1]:
			expected = fmt.Sprintf("at least the %g before it", values[i-1])
		default:
			continue
		}
		return fmt.Errorf("figure: %s[%d] is %g, expected %s", name, i, v, expected)
	}
	return nil
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
