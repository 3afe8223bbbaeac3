package loss

import (
	"math"

	"surepipe/internal/numerics/elementary"
)

// poisson is f(z; y) = e^z - y z.
type poisson struct{}

// Poisson returns the negative log-likelihood of a Poisson regression with log link,
//
//	l(z; y) = sum_i w_i (exp z_i - y_i z_i),   E y_i = exp z_i,
//
// without terms of y alone, with weights w of the observations, nil for ones. y_i >= 0 is a count,
// or the mean of w_i counts. Its second derivative has no bound: Lipschitz is +Inf, and so is the
// value beyond z = 709, where exp z overflows. It is an error if a weight is negative or not finite,
// or if all are 0.
func Poisson(w []float64) (*Pointwise, error) { return New(poisson{}, w) }

func (poisson) Likelihood() bool   { return true }
func (poisson) Name() string       { return "poisson" }
func (poisson) Lipschitz() float64 { return math.Inf(1) }
func (poisson) Unit() float64      { return 1 }

func (poisson) Check(y float64) string {
	if y >= 0 && !math.IsInf(y, 1) {
		return ""
	}
	return "the Poisson loss expects counts, finite numbers of at least 0"
}

func (poisson) Value(z, y float64) float64     { return math.Exp(z) - y*z }
func (poisson) Slope(z, y float64) float64     { return math.Exp(z) - y }
func (poisson) Curvature(z, _ float64) float64 { return math.Exp(z) }

func (poisson) each(value, slope, curve, z, y []float64) {
	e := scratchOf(curve, slope, value)
	elementary.Exp(e, z)
	for i := range value {
		value[i] = e[i] - y[i]*z[i]
	}
	for i := range slope {
		slope[i] = e[i] - y[i]
	}
}

func (poisson) Mean(z float64) float64 { return math.Exp(z) }

// Constant is w log y!.
func (poisson) Constant(w, y float64) float64 {
	v, _ := math.Lgamma(y + 1)
	return w * v
}

func (poisson) Least(y float64) float64 {
	if y == 0 {
		return 0
	}
	return y - y*math.Log(y)
}

// Gap is the relative entropy of Poisson variables with the means y + u and e^z.
func (poisson) Gap(u, off, z, y float64) float64 {
	p := math.Exp(z)
	if math.IsInf(p, 1) {
		return p
	}
	return relativeEntropy(y+u, p, z, off)
}

// gaps sets gap to those at u.
func (poisson) gaps(gap, u, z, y []float64) {
	elementary.Exp(gap, z)
	for i, p := range gap {
		if !math.IsInf(p, 1) {
			gap[i] = relativeEntropy(y[i]+u[i], p, z[i], u[i]-(p-y[i]))
		}
	}
}
