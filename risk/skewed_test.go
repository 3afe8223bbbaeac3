package risk

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

func TestBarsOfFewDegreesReachTheQuantile(t *testing.T) {
	for n := 1.0; n <= manyDF; n *= 1.1 {
		bar := (n/distuv.ChiSquared{K: n}.Quantile(0.0455) - 1) / 2
		if got := math.Sqrt(beyondNormal(n) + 2/n); math.Abs(got/bar-1) > 1e-5 {
			t.Errorf("%g degrees: %g, expected %g", n, got, bar)
		}
	}
}
