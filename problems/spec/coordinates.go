package spec

import (
	"fmt"
	"math"
	"slices"
)

// Coordinates are numbers for each coefficient of a regression, nil where none are given.
type Coordinates struct {
	// Factors multiply the penalty of each; one of 0 has none. Lower and Upper are bounds, which enclose 0, in the units
	// of the columns; they may be infinite.
	Factors, Lower, Upper []float64
}

// Check rejects factors and bounds that do not fit p coefficients.
func (c Coordinates) Check(p int) error {
	for _, l := range []struct {
		name, expected string
		list           []float64
		bad            func(v float64) bool
	}{
		{"factors", "finite numbers of at least 0", c.Factors,
			func(v float64) bool { return !(v >= 0) || math.IsInf(v, 0) }},
		{"lower", "numbers of at most 0", c.Lower, func(v float64) bool { return !(v <= 0) }},
		{"upper", "numbers of at least 0", c.Upper, func(v float64) bool { return !(v >= 0) }},
	} {
		if l.list != nil && len(l.list) != p {
			return fmt.Errorf("array %q has %d values, expected %d, one for each coefficient", l.name, len(l.list), p)
		}
		if j := slices.IndexFunc(l.list, l.bad); j >= 0 {
			return fmt.Errorf("array %q holds %g at [%d], expected %s", l.name, l.list[j], j, l.expected)
		}
	}
	return nil
}
