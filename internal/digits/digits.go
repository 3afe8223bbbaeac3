// Package digits writes numbers with as many digits as their errors leave them.
package digits

import (
	"math"
	"strconv"
)

// mostPlain is the size from which a number is written with an exponent, as values with six digits are.
const mostPlain = 1e6

// Error is a standard error with two significant digits, in plain notation below 1e6: 0.031, 2.4, 22000.
func Error(x float64) string {
	text := strconv.FormatFloat(x, 'g', 2, 64)
	rounded, err := strconv.ParseFloat(text, 64)
	if size := math.Abs(rounded); err != nil || size < 1 || size >= mostPlain {
		return text
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// PlusMinus is a value with six significant digits and its standard error: "66400.1 ± 22000".
func PlusMinus(value, stdErr float64) string {
	return strconv.FormatFloat(value, 'g', 6, 64) + " ± " + Error(stdErr)
}
