// Package spd scales symmetric positive definite matrices by powers of two.
package spd

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// EvenDiagonal scales the rows and columns of a symmetric matrix by powers of two, so that its
// diagonal is between 1/2 and 2, and returns these.
func EvenDiagonal(a *mat.SymDense) []float64 {
	s := make([]float64, a.SymmetricDim())
	for i := range s {
		s[i] = Unit(math.Sqrt(a.At(i, i)))
	}
	ScaleSym(a, s)
	return s
}

// ScaleSym multiplies rows and columns by s.
func ScaleSym(a *mat.SymDense, s []float64) {
	for i, u := range s {
		for j := i; j < len(s); j++ {
			a.SetSym(i, j, u*a.At(i, j)*s[j])
		}
	}
}

// LargestCondition is that of a system whose solution has some correct digits. Beyond it
// ShiftOfDiagonal is added to a diagonal of about 1.
const (
	LargestCondition = 1e15
	ShiftOfDiagonal  = 1e-12
)

// Unit is the power of two that brings a length near 1; 1 for lengths that are 0 or out of range.
func Unit(length float64) float64 {
	if !(length > 0) || math.IsInf(length, 1) {
		return 1
	}
	f, e := math.Frexp(length)
	if f < math.Sqrt2/2 {
		e--
	}
	return math.Ldexp(1, -e)
}
