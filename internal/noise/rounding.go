package noise

import (
	"math"
	"slices"
)

// RoundingStep is the number of which all differences of the values are multiples, if at least half of the values
// occur more than once; else 0.
func RoundingStep(values []float64) float64 {
	const first, mostDistinct = 4096, 0.9
	if n := min(first, len(values)); n == first && float64(len(levels(values[:n]))) > mostDistinct*first {
		return 0
	}
	levels := levels(values)
	if 2*len(levels) > len(values) || len(levels) < 2 {
		return 0
	}
	step := math.Inf(1)
	for i, v := range levels[1:] {
		step = math.Min(step, v-levels[i])
	}
	const exact = 0.05 // of a step: values may be of single precision
	for _, v := range levels[1:] {
		k := math.Round((v - levels[0]) / step)
		if !(math.Abs((v-levels[0])/step-k) < exact) {
			return 0
		}
		step = (v - levels[0]) / k // the longer the distance, the more exact
	}
	return step
}

// levels are the different values, from the least on.
func levels(values []float64) []float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// RoundingVariance is the variance that rounding to multiples of a step adds to noise that is not much smaller than the
// step (Sheppard 1898).
func RoundingVariance(step float64) float64 { return step * step / 12 }
