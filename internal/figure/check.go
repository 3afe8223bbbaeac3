package figure

import (
	"fmt"
	"math"
)

// Values beyond these are rejected: their squares would leave the range of a float64.
const (
	leastSize    = 1e-140
	greatestSize = 1e140
)

// checkSeries rejects values that cannot be drawn, and a length other than n
// (negative: any but 0).
func checkSeries(name string, values []float64, n int) error {
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
	}
	return nil
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

// checkSign rejects negative values, and zero where positive values are required.
func checkSign(name string, values []float64, positive bool) error {
	for i, v := range values {
		if v < 0 && !positive {
			return fmt.Errorf("figure: %s[%d] is %g, expected zero or a positive number", name, i, v)
		}
		if v <= 0 && positive {
			return fmt.Errorf("figure: %s[%d] is %g, expected a positive number: its axis is logarithmic", name, i, v)
		}
	}
	return nil
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
