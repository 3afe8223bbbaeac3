package noise

import (
	"math"
	"slices"

	"surepipe/internal/lists"
	"surepipe/internal/parallel"
)

const (
	// leastSerial and leastMemory are the numbers of values of a sequence from which correlations of neighbours below
	// and above 0 are looked for: a signal that bends or jumps within a few values looks like the latter.
	leastSerial, leastMemory = 50, 200
	// serialError is sqrt(n) times the standard error of the logarithm of [Serial]'s ratio on white noise, by
	// simulation, and serialErrors the errors from which it is told.
	serialError, serialErrors = 2.4, 4
	// mostGrowth is the largest growth of the variance from two places to four over that from one to two. It is below
	// 2 for autoregressive noise, and 16 for a signal with a curvature.
	mostGrowth = 2.5
)

// Serial compares the variances of second differences of a sequence over h places,
//
//	v_h = var(y_{i-h} - 2 y_i + y_{i+h})/6,
//
// by those within three standard deviations, which jumps do not matter for. White noise has the same at every h, noise
// with correlations rho_h has (6 - 8 rho_h + 2 rho_2h)/6 times its variance. It returns v_2/v_1 where that says that
// neighbours share noise, above 1, or that their noise is of opposite sign, below 1; else 0. A signal that bends within
// a few values has v_2 above v_1 too, but then v_4 is larger by far. Missing values are NaN, and n is that of the
// differences over one place, and two.
func Serial(y []float64) (ratio float64) {
	var bends [2]float64
	var known [2]int
	parallel.For(2, func(i int) { bends[i], known[i] = ofBends(y, i+1) })
	one, two, n := bends[0], bends[1], known[0]+2
	if n < leastSerial || !(one > 0 && two > 0) {
		return 0
	}
	ratio = two / one
	errors := math.Log(ratio) * math.Sqrt(float64(n)) / serialError
	if n >= leastMemory && errors > serialErrors {
		if four, _ := ofBends(y, 4); four-two < mostGrowth*(two-one) {
			return ratio
		}
	}
	if errors < -serialErrors {
		return ratio
	}
	return 0
}

// ofBends is the variance of the n second differences over h places that are known, over that of their coefficients.
func ofBends(y []float64, h int) (variance float64, n int) {
	d := lists.Make(max(len(y)-2*h, 0), func(i int) float64 { return math.Abs(y[i]-2*y[i+h]+y[i+2*h]) / math.Sqrt(6) })
	if d = slices.DeleteFunc(d, math.IsNaN); len(d) == 0 {
		return 0, 0
	}
	low, high := lists.Smallest(d, (len(d)-1)/2), lists.Smallest(d, len(d)/2)
	sigma := truncated(d, cutOff, (low+(high-low)/2)/madNormal)
	return sigma * sigma, len(d)
}
