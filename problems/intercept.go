package problems

import (
	"fmt"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// smallSparse is the number of entries up to which a sparse matrix is centered in a dense copy.
const smallSparse = 1 << 16

// Intercepts returns the intercept b0 of the fit mu_hat = b0 1 + A b, where A has the original
// columns: one number, or one for each column of y, of classes with mean 0; nil where the problem has
// none. b is that of the problem as it is solved, before [Problem.Coefficients]. muHat is a sample's
// whole estimate, with the mean added, as package pipeline returns it.
func (p *Problem) Intercepts(muHat, b []float64) (b0 []float64) {
	if p.means == nil || p.centered {
		return nil
	}
	if p.constant == 0 && len(muHat) != p.D || len(b) != p.P+p.extra() {
		panic(fmt.Sprintf("problems: mu_hat has %d and b %d values, expected %d and %d", len(muHat), len(b), p.D,
			p.P+p.extra()))
	}
	if p.constant == 0 {
		return []float64{stat.Mean(muHat, nil) - floats.Dot(p.means, p.Coefficients(b))}
	}
	b0 = make([]float64, p.each())
	copy(b0, b[p.constant:])
	for j, c := range p.Coefficients(b) {
		b0[j%len(b0)] -= p.means[j/len(b0)] * c
	}
	if p.classes {
		centeredOutcomes(b0)
	}
	return b0
}

// Intercept is the intercept of a y with one column; ok is false where there is none.
func (p *Problem) Intercept(muHat, b []float64) (b0 float64, ok bool) {
	all := p.Intercepts(muHat, b)
	if len(all) != 1 {
		return 0, false
	}
	return all[0], true
}

// Shift is what A b with the original columns is to be shifted by to be mu_hat, where they are centered though the loss
// has no intercept; ok is false elsewhere.
func (p *Problem) Shift(b []float64) (shift float64, ok bool) {
	if !p.centered {
		return 0, false
	}
	return -floats.Dot(p.means, p.Coefficients(b)), true
}
