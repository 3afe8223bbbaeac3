package loss

import (
	"math"
)

// Scalar is a convex loss of one's own, sum_i w_i f(z_i; y_i) with weights w of the observations, nil for ones:
// value returns f(z; y), and derivatives its slope and its curvature by z. The rest is computed: the conjugate, and
// with it the duality gap, from a root of the slope.
func Scalar(name string, value func(z, y float64) float64,
	derivatives func(z, y float64) (slope, curvature float64), w []float64) (*Pointwise, error) {
	return New(scalar{name, value, derivatives}, w)
}

// scalar is a function by its value and derivatives alone.
type scalar struct {
	name        string
	value       func(z, y float64) float64
	derivatives func(z, y float64) (slope, curvature float64)
}

func (s scalar) Name() string { return s.name }

// Check accepts every y at which the loss is finite somewhere near.
func (s scalar) Check(y float64) string {
	if v := s.value(0, y); math.IsNaN(v) || math.IsInf(v, 0) {
		return "the loss is not finite at z = 0"
	}
	return ""
}

func (s scalar) Value(z, y float64) float64 { return s.value(z, y) }

func (s scalar) Slope(z, y float64) float64 {
	slope, _ := s.derivatives(z, y)
	return slope
}

func (s scalar) Curvature(z, y float64) float64 {
	_, curvature := s.derivatives(z, y)
	return curvature
}

func (s scalar) Lipschitz() float64 { return math.Inf(1) }

// Least is f where its slope is 0, or far out where it is nowhere.
func (s scalar) Least(y float64) float64 { return s.value(s.at(0, y), y) }

// Gap is the sup over z' of u z' - f(z'; y), minus u z - f(z; y): at the root z' of f' = u.
func (s scalar) Gap(u, _, z, y float64) float64 {
	top := s.at(u, y)
	return math.Max(s.value(z, y)-s.value(top, y)-u*(z-top), 0)
}

// at is z with slope u, by bisection in a bracket that doubles from 1.
func (s scalar) at(u, y float64) float64 {
	low, high := -1.0, 1.0
	const far = 1 << 40
	for s.Slope(low, y) > u && low > -far {
		low *= 2
	}
	for s.Slope(high, y) < u && high < far {
		high *= 2
	}
	for range 200 {
		middle := low + (high-low)/2
		if middle == low || middle == high {
			break
		}
		if s.Slope(middle, y) < u {
			low = middle
		} else {
			high = middle
		}
	}
	return low + (high-low)/2
}

// Mean takes z for the expectation of y.
func (s scalar) Mean(z float64) float64 { return z }

func (s scalar) Likelihood() bool              { return false }
func (s scalar) Constant(_, _ float64) float64 { return 0 }

func (s scalar) Unit() float64 { return 0 }
