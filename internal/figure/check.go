package figure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Values beyond these are rejected: their squares would leave the range of a float64.
const (
	leastSize    = 1e-140
	greatestSize = 1e140
)

// sign says which numbers are allowed.
type sign int

const (
	anySign sign = iota
	notNegative
	positive
)

// checkSeries rejects values that cannot be drawn, and a length other than n (negative: any but 0).
func checkSeries(name string, values []float64, n int, allowed sign) error {
	if n < 0 && len(values) == 0 {
		return fmt.Errorf("figure: %s is empty, expected at least one value", name)
	}
	if n >= 0 && len(values) != n {
		return fmt.Errorf("figure: %s has %d values, expected %d", name, len(values), n)
	}
	for i, v := range values {
		if err := checkValue(v); err != nil {
			return fmt.Errorf("figure: %s[%d] %w", name, i, err)
		}
		if v < 0 && allowed == notNegative {
			return fmt.Errorf("figure: %s[%d] is %g, expected zero or a positive number", name, i, v)
		}
		if v <= 0 && allowed == positive {
			return fmt.Errorf("figure: %s[%d] is %g, expected a positive number: its axis is logarithmic", name, i, v)
		}
	}
	return nil
}

// checkOptional is checkSeries for values that may be missing, which is nil.
func checkOptional(name string, values []float64, n int, allowed sign) error {
	if values == nil {
		return nil
	}
	return checkSeries(name, values, n, allowed)
}

func checkValue(v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("is %v, expected a finite number", v)
	}
	if size := math.Abs(v); size > greatestSize || size < leastSize && v != 0 {
		return fmt.Errorf("is %g, expected 0 or a magnitude from %g to %g", v, leastSize, greatestSize)
	}
	return nil
}

// ascending is the order of the values.
func ascending(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(values[i], values[j]) })
	return order
}

// pick is the values in the given order, nil if there are none.
func pick[T any](values []T, order []int) []T {
	if values == nil {
		return nil
	}
	picked := make([]T, len(order))
	for i, j := range order {
		picked[i] = values[j]
	}
	return picked
}

// Minimizer is the index of the least value among those that converged, or of all
// values if none did (converged nil: all did); -1 if there are none.
func Minimizer(values []float64, converged []bool) int {
	none := converged == nil || !slices.Contains(converged, true)
	best := -1
	for i, v := range values {
		if (none || converged[i]) && (best < 0 || v < values[best]) {
			best = i
		}
	}
	return best
}
