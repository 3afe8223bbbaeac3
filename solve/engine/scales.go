package engine

import (
	"math"

	"surepipe/array"
)

// Scales are those by which a solve is measured. A subgradient e of the objective at b is
// small where ||e|| is small compared with
//
//	||A|| max(sigma sqrt(d), floor),
//
// the size of A* z for errors z of mu_hat that matter. Without sigma the larger of ||y - A b|| and
// ||y||/100 stands in for sigma sqrt(d). floor = 64 eps (||y|| + ||A|| ||b||) / Tol keeps the
// scale above the rounding errors of A b and of b.
type Scales struct {
	// Norm is ||A||, Y is ||y||, Noise is sigma sqrt(d) or 0 where sigma is not known.
	Norm, Y, Noise float64
	// Tol is the tolerance of the solve.
	Tol float64

	free *freeColumns // of the one problem that is measured; nil where nothing is kept
}

// NewScales are those of a solve at y, with an upper bound of ||A||^2.
func NewScales(y array.Batch, norm2 float64, o Options) Scales {
	return Scales{Norm: math.Sqrt(norm2), Y: Norm(y), Noise: math.Sqrt(o.Sigma2 * float64(y.N())), Tol: o.Tol}
}

const (
	// Roundings is the number of units in the last place of y and A b that a solve need not
	// resolve.
	Roundings = 64

	// Epsilon is the distance of 1 from the next number.
	Epsilon = 0x1p-52

	// The bound of mu_hat's error that a converged solve may have, as a share of the size of errors
	// that matter, is the smaller of largestShare and shareOfTol sqrt(Tol): a duality gap is about
	// as large as the subgradient, and bounds the square of the error.
	largestShare = 1e-2
	shareOfTol   = 100
	// Without sigma an interpolating solution, whose residual vanishes, may be off by shareOfY of
	// y; leastResidual of y is the smallest residual to measure by.
	shareOfY      = 1e-6
	leastResidual = 1e-2
)

// Matters is the size of errors of mu_hat that matter, for a residual of norm z.
func (s Scales) Matters(z float64) float64 {
	if s.Noise > 0 {
		return s.Noise
	}
	return z
}

// Size is the same, but at least leastResidual of y, and at least the size of rounding errors at a
// b of the given norm.
func (s Scales) Size(z, b float64) float64 {
	if s.Noise == 0 {
		z = max(z, leastResidual*s.Y)
	}
	return max(s.Matters(z), Roundings*Epsilon/s.Tol*(s.Y+s.Norm*b))
}

// ByColumn is the size for subgradients that are divided by the lengths of the columns.
func (s Scales) ByColumn(z float64) float64 {
	return max(s.Matters(z), Roundings*Epsilon*s.Y/s.Tol)
}

// Scale is the size with which the norm of a subgradient is compared, at a residual of norm z and a
// b of the given norm.
func (s Scales) Scale(z, b float64) float64 { return s.Norm * s.Size(z, b) }

// First is the scale while no residual is known.
func (s Scales) First() float64 { return s.Scale(s.Y, 0) }

// Allowed is the largest bound of mu_hat's error that a converged solve may have. It is not raised
// for rounding errors, except those of y itself.
func (s Scales) Allowed(z float64) float64 {
	least := Roundings * Epsilon * s.Y
	if s.Noise == 0 {
		least = shareOfY * s.Y
	}
	return max(min(largestShare, shareOfTol*math.Sqrt(s.Tol))*s.Matters(z), least)
}

// ErrorOf is sqrt(2 gap) for a duality gap that is no smaller than its rounding error; NaN where
// the gap is not finite.
func (s Scales) ErrorOf(gap, z, b float64) float64 {
	if math.IsNaN(gap) || math.IsInf(gap, 0) {
		return math.NaN()
	}
	return math.Sqrt(2 * math.Max(gap, 8*Epsilon*z*s.Norm*b))
}
