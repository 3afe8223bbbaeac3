package loss

import (
	"gonum.org/v1/gonum/floats"

	"surepipe/array"
)

// Coupled is a loss whose second derivative is not diagonal. Its Curvature is the diagonal of a matrix above the second
// derivative, l^(2) <= diag(curvature). Either its observations do not stand alone, and it is [Joint]; or they have
// several entries of z each, and their losses are [Structure].Parts.
type Coupled interface {
	Loss
	// Product sets dst to l^(2)(z; y) v. dst may be v.
	Product(dst, v, z, y array.Batch)
	// Root returns R, d x d, with R*R = l^(2)(z; y). Where observations stand alone it has a block for each.
	Root(z, y array.Batch) (Root, error)
}

// Joint is a loss whose observations do not stand alone: it has no loss of a single observation. z and y on the host
// have length d.
type Joint interface {
	Coupled
	// Share returns l(z; y) - l_i(z; y), with the loss l_i without observation i, and SlopeWithout sets dst to the
	// derivative of l_i by z, of l where i is -1.
	Share(i int, z, y []float64) float64
	SlopeWithout(i int, dst, z, y []float64)
	// Parts sets dst to the parts of l(z; y) that belong to single observations. They add up to it. dst may be z.
	Parts(dst, z, y []float64)
}

// Root is a square matrix R of order d, on the host. dst may be v. The inverses are for v in the range of R, and of
// R*: they return one of the solutions, which differ by a vector to which l^(2) does not react. It is safe for
// concurrent use.
type Root interface {
	// Forward sets dst = R v, and Adjoint dst = R* v.
	Forward(dst, v []float64)
	Adjoint(dst, v []float64)
	// Columns replaces the d x n matrix x, row by row, by R x.
	Columns(x []float64, n int)
	// Inverse sets dst to an x with R x = v, and InverseAdjoint to one with R* x = v.
	Inverse(dst, v []float64)
	InverseAdjoint(dst, v []float64)
	// Square returns what computes the blocks of R*R, row-major, one after the other; nil where R has no equal blocks.
	Square() func() []float64
}

// LeftOut are the losses of predicting observations that a fit to the others leaves out, at its linear predictor z of
// all observations, by those of all and of the ones that were kept, whose loss there is kept:
//
//	l(z; y) - l_kept(z; y)
//
// is shared among those that are left out by their parts of l(z; y), with the slopes by which they pull at the others.
func LeftOut(l Joint, out []int, kept float64, z, y []float64) []float64 {
	parts, slope := make([]float64, len(z)), make([]float64, len(z))
	l.Parts(parts, z, y)
	l.SlopeWithout(-1, slope, z, y)
	rest := floats.Sum(parts) - kept
	some := make([]float64, len(out))
	for k, i := range out {
		some[k] = parts[i] + slope[i]
		rest -= some[k]
	}
	for k := range some {
		some[k] += rest / float64(len(out))
	}
	return some
}
