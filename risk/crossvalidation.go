package risk

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// CrossValidation is the mean error of predicting observations from fits without them, with its standard error: that of
// a mean over Units independent units, single observations or those that are left out together.
type CrossValidation struct {
	Mean, StdErr float64
	Units        int
	// Fold is the least number of observations that were left out together.
	Fold int
}

// OverUnits is the mean of the errors of d observations, given by their sums over units: the mean over the units of
// their sums times Units/d, by which the sums are replaced.
func OverUnits(sums []float64, d int) CrossValidation {
	n := float64(len(sums))
	for u := range sums {
		sums[u] *= n / float64(d)
	}
	mean, deviation := stat.MeanStdDev(sums, nil)
	return CrossValidation{Mean: mean, StdErr: deviation / math.Sqrt(n), Units: len(sums)}
}

func (c *CrossValidation) estimated() (value, stdErr float64) {
	if c == nil {
		return math.NaN(), math.NaN()
	}
	return c.Mean, c.StdErr
}
