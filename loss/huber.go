package loss

import (
	"fmt"
	"math"
)

// huber is f(z; y) = h(z - y), quadratic up to delta and linear beyond it.
type huber struct{ delta float64 }

// Huber returns the loss of Huber (1964),
//
//	l(z; y) = sum_i w_i h(z_i - y_i),   h(r) = r^2/2 for |r| <= delta, else delta (|r| - delta/2),
//
// with weights w of the observations, nil for ones. Observations with |r| > delta, the outliers,
// pull with a constant force and have no curvature. delta is in units of y: 1.345 standard
// deviations of the noise have 95% of the efficiency of the squared loss where the noise is normal
// (Holland and Welsch 1977). It is an error if delta is not positive and finite, if a weight is
// negative or not finite, or if all are 0.
func Huber(delta float64, w []float64) (*Pointwise, error) {
	if !(delta > 0) || math.IsInf(delta, 1) {
		return nil, fmt.Errorf("loss: Huber's delta is %g, expected a positive finite number in units of y", delta)
	}
	return New(huber{delta}, w)
}

func (huber) Constant(_, _ float64) float64 { return 0 }
func (huber) Likelihood() bool              { return false }
func (huber) Name() string                  { return "huber" }
func (huber) Lipschitz() float64            { return 1 }
func (h huber) Unit() float64               { return h.delta }

func (huber) Check(y float64) string {
	if math.IsNaN(y) || math.IsInf(y, 0) {
		return "the Huber loss expects finite numbers"
	}
	return ""
}

func (h huber) Value(z, y float64) float64 {
	r := math.Abs(z - y)
	if r <= h.delta {
		return r * r / 2
	}
	return h.delta * (r - h.delta/2)
}

func (h huber) Slope(z, y float64) float64 { return math.Max(-h.delta, math.Min(z-y, h.delta)) }

func (h huber) Curvature(z, y float64) float64 {
	if math.Abs(z-y) <= h.delta {
		return 1
	}
	return 0
}

func (huber) Least(float64) float64  { return 0 }
func (huber) Mean(z float64) float64 { return z }

func (h huber) Gap(u, off, z, y float64) float64 {
	r := math.Abs(z - y)
	s := u
	if z < y {
		s = -u
	}
	if math.Abs(s) > h.delta*(1+8*0x1p-52) {
		return math.Inf(1)
	}
	if r <= h.delta {
		return off * off / 2
	}
	return (h.delta - s) * (r - (h.delta+s)/2)
}
