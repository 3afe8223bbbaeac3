package problems

import (
	"fmt"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// smallSparse is the number of entries up to which a sparse matrix is centered in a dense copy.
const smallSparse = 1 << 16

// Intercept returns the intercept b0 of the fit mu_hat = b0 1 + A b, where A has the original
// columns; ok is false where the problem has no intercept. b is that of the problem as it is
// solved, before [Problem.Coefficients]. muHat is a sample's whole estimate, with
// the mean added, as package pipeline returns it.
func (p *Problem) Intercept(muHat, b []float64) (b0 float64, ok bool) {
	if p.means == nil || p.centered {
		return 0, false
	}
	if p.constant == 0 && len(muHat) != p.D || len(b) != p.P+p.extra() {
		panic(fmt.Sprintf("problems: mu_hat has %d and b %d values, expected %d and %d", len(muHat), len(b), p.D,
			p.P+p.extra()))
	}
	if p.constant > 0 {
		return b[p.constant] - floats.Dot(p.means, p.Coefficients(b)), true
	}
	return stat.Mean(muHat, nil) - floats.Dot(p.means, p.Coefficients(b)), true
}

// Shift is what A b with the original columns is to be shifted by to be mu_hat, where they are centered though the loss
// has no intercept; ok is false elsewhere.
func (p *Problem) Shift(b []float64) (shift float64, ok bool) {
	if !p.centered {
		return 0, false
	}
	return -floats.Dot(p.means, p.Coefficients(b)), true
}
