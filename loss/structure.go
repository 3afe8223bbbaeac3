package loss

import (
	"math"

	"surepipe/array"
)

// Structure is what is known about a loss l(z; y) beyond [Loss], most often sum_i l_i(z_i; y_i). The zero
// value says nothing and is true of every loss. A function is nil where it is not known, safe for
// concurrent use, and panics on shapes that do not fit.
type Structure struct {
	// Name is the loss's name, that of its [Kind] for those of the table; "" for none.
	Name string
	// Check reports an entry of y at which the loss is not defined.
	Check func(y []float64) error
	// At returns l_i(z; y), the loss of observation i.
	At func(i int, z, y float64) float64
	// Least returns min_z l(z; y). Twice l(z; y) minus that is the deviance of z, ||z - y||^2 for
	// the squared loss.
	Least func(y array.Batch) float64
	// Gap returns l(z; y) + l*(u; y) - <u, z>, where l* is the convex conjugate of l by z: it is 0
	// or more, 0 at u = l'(z; y), and +Inf where l* is.
	Gap func(u, z, y array.Batch) float64
	// Together sets slope to l'(z; y) and curve to l^(2)(z; y), and returns l(z; y), in less work than apart; nil where
	// it would not be less.
	Together func(slope, curve, z, y array.Batch) float64
	// Likelihood says that l is a negative log-likelihood, but for terms of y alone.
	Likelihood bool
	// Constant returns the terms of y alone that l leaves out of minus the logarithm of the likelihood; nil where there
	// are none.
	Constant func(y array.Batch) float64
	// Mean sets dst_i to the expectation of y_i at z_i, on the host: z_i itself for a loss of z - y.
	// dst may be z.
	Mean func(dst, z []float64)
	// Unit is a change of z_i that changes the curvature of l_i by about its own size; 0 where it is
	// not known, or no change does.
	Unit float64
	// Coupled is the loss where its second derivative is not diagonal, and Joint where its observations do not stand
	// alone; else nil.
	Coupled Coupled
	Joint   Joint
	// Chained says that Coupled.Root and its products take operations in proportion to the length of z.
	Chained bool
	// Each is the number of consecutive entries of z and y that belong to one observation, 0 for one. Parts sets each
	// dst_i to the loss of the observation to which entry i belongs, on the host. dst may be z. It is nil where the
	// loss is quadratic or its observations do not stand alone; where Each is not 0 it is known for others.
	Each  int
	Parts func(dst, z, y []float64)
	// Pick is the loss of the observations at some places.
	Pick func(rows []int) (Structured, error)
	// Size is the number of observations as Schwarz's criterion counts them, nil for that of y.
	Size func(y []float64) int
}

// Several reports that observations have several entries each, which stand together: no entry tells alone what its
// observation loses.
func (s Structure) Several() bool { return s.Each > 1 }

// leastMove is the least curvature of an observation in [Structure.Whiten], over its slope by unit.
const leastMove = 1e-8

// Whiten returns the curvatures of the observations, as the weights w of the squared loss that l is
// near a point, from their slopes l'_i and curvatures l^(2)_i there. An observation with a slope but
// next to no curvature, less than 1e-8 of its slope by unit, such as an outlier under the Huber
// loss, is flat: it is given that much, too little for it to have a part in anything, and enough for
// diagonals of the derivative, which are proportional to w_i, to be known for it too.
func (s Structure) Whiten(slope, curvature []float64) (w []float64, flat []bool) {
	w, flat = make([]float64, len(slope)), make([]bool, len(slope))
	unit := s.Unit
	if unit == 0 {
		unit = 1
	}
	for i, c := range curvature {
		w[i] = c
		if least := leastMove * math.Abs(slope[i]) / unit; c < least {
			w[i], flat[i] = least, true
		}
	}
	return w, flat
}

// Structured is a Loss that knows its structure.
type Structured interface {
	Loss
	// Structure returns the structure. It must not allocate.
	Structure() Structure
}

// StructureOf returns the structure of l, that of the squared loss for nil.
func StructureOf(l Loss) Structure {
	if l == nil {
		l = squared
	}
	if known, ok := l.(Structured); ok {
		return known.Structure()
	}
	return Structure{}
}

// Quadratic reports whether l is the squared loss, perhaps with weights; nil is.
func Quadratic(l Loss) bool {
	if l == nil {
		return true
	}
	_, quadratic := l.Weights()
	return quadratic
}

// Weighing returns the weights w of a quadratic loss on the host, nil for ones and for other losses.
func Weighing(l Loss) []float64 {
	if l == nil {
		return nil
	}
	w, quadratic := l.Weights()
	if !quadratic || w.IsZero() {
		return nil
	}
	return w.ToHost()
}

// Roots returns W^{1/2} and W^{-1/2} for W = diag(w), with 0 in both where w is 0.
func Roots(w []float64) (root, inverse []float64) {
	root, inverse = make([]float64, len(w)), make([]float64, len(w))
	for i, v := range w {
		if v > 0 {
			root[i] = math.Sqrt(v)
			inverse[i] = 1 / root[i]
		}
	}
	return root, inverse
}
