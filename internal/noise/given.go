package noise

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// Range is what data say of the variance of their noise: it is Least or more, and Most or less, 0 and +Inf where they
// do not say so, up to the relative standard error. The zero Range says nothing.
type Range struct{ Least, Most, RelStdErr float64 }

const (
	// A variance is contradicted that is less than Least over timesOff, or more than timesOff times Most, and
	// rangeErrors standard errors off: texture raises Least a little, and outliers count in what is given.
	timesOff, rangeErrors = 2, 4
	// fewErrors are those of the cube root of Most: it is about normal also where degrees of freedom are few, and its
	// logarithm then has a long tail below (Wilson and Hilferty 1931).
	fewErrors = 3.2
)

// TooSmall and TooLarge report whether sigma2, of a relative standard error that is 0 where it was given, cannot be the
// variance.
func (r Range) TooSmall(sigma2, relStdErr float64) bool {
	return r.RelStdErr > 0 && math.Log(r.Least/sigma2) > max(math.Log(timesOff), rangeErrors*r.relative(relStdErr))
}

func (r Range) TooLarge(sigma2, relStdErr float64) bool {
	relative := r.relative(relStdErr)
	return r.RelStdErr > 0 && timesOff*r.Most < sigma2 &&
		math.Cbrt(r.Most/sigma2) < 1-relative*relative/9-fewErrors*relative/3
}

func (r Range) relative(relStdErr float64) float64 { return math.Hypot(r.RelStdErr, relStdErr) }

// RangeOfSquares is that of squares whose mean, over the share of the degrees of freedom that are left, estimates the
// variance.
func RangeOfSquares(squares []float64, left float64) Range {
	n := float64(len(squares))
	variance := floats.Sum(squares) / n
	// Squares of normal values have twice the square of their mean for a variance, and those of others more.
	spread := math.Sqrt(max(stat.Variance(squares, nil)/(variance*variance), 2) / (n * left))
	return Range{variance / left, variance / left, spread}
}
