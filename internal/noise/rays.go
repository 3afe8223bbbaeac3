package noise

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/internal/lists"
)

// leftError is about the relative error of the variance of what is left.
const leftError = 0.1

// Left is what a linear smoother with the matrix H leaves of an image: (I - H) y up to a constant, and of Probes with
// independent entries of variance 1 the same, where Fit is H y. Where H y follows the signal, squares of Y have sigma2
// times the mean of those of the probes, whatever the leverages are.
type Left struct {
	Y, Fit        []float64
	Probes        [][]float64
	Rows, Columns int
}

// Range is that of the variance of the noise, to which what is left of the signal only adds.
func (l Left) Range() Range {
	squares := func(x []float64) float64 { return floats.Dot(x, x) }
	variance := squares(l.Y) / stat.Mean(lists.Map(l.Probes, squares), nil)
	return Range{variance, variance, leftError}
}

// Uneven compares the standard deviations of the noise in blocks of 8 x 8 pixels, by their brightness in the fit and
// by place.
func (l Left) Uneven() Uneven {
	var deviations, bright []float64
	var of []int
	for r := 0; r+blockSide <= l.Rows; r += blockSide {
		for c := 0; c+blockSide <= l.Columns; c += blockSide {
			y, probes, fit := 0.0, 0.0, 0.0
			for i := r; i < r+blockSide; i++ {
				for j := c; j < c+blockSide; j++ {
					at := i*l.Columns + j
					y, fit = y+l.Y[at]*l.Y[at], fit+l.Fit[at]/(blockSide*blockSide)
					for _, p := range l.Probes {
						probes += p[at] * p[at] / float64(len(l.Probes))
					}
				}
			}
			if probes > 0 {
				deviations, bright = append(deviations, math.Sqrt(y/probes)), append(bright, fit)
				of = append(of, r*fewPlaces/l.Rows*fewPlaces+c*fewPlaces/l.Columns)
			}
		}
	}
	var byBrightness Grouping
	byBrightness.Fifths(ByBrightness, bright)
	groupings := []Grouping{byBrightness, ByPlaces(ByPlace, of, fewPlaces*fewPlaces)}
	u := UnevenSpreads(deviations, len(groupings), slices.Values(groupings))
	if !u.Sure() || u.Greatest <= unevenRatio*u.Least {
		return Uneven{}
	}
	return u
}
