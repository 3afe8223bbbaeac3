package solve

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// evenDiagonal scales the rows and columns of a symmetric matrix by powers of two, so that its
// diagonal is between 1/2 and 2, and returns these.
func evenDiagonal(a *mat.SymDense) []float64 {
	s := make([]float64, a.SymmetricDim())
	for i := range s {
		s[i] = unit(math.Sqrt(a.At(i, i)))
	}
	scaleSym(a, s)
	return s
}

// scaleSym multiplies rows and columns by s.
func scaleSym(a *mat.SymDense, s []float64) {
	for i, u := range s {
		for j := i; j < len(s); j++ {
			a.SetSym(i, j, u*a.At(i, j)*s[j])
		}
	}
}

// largestCondition is that of a system whose solution has some correct digits. Beyond it
// shiftOfDiagonal is added to a diagonal of about 1.
const (
	largestCondition = 1e15
	shiftOfDiagonal  = 1e-12
)

// unit is the power of two that brings a length near 1; 1 for lengths that are 0 or out of range.
func unit(length float64) float64 {
	if !(length > 0) || math.IsInf(length, 1) {
		return 1
	}
	f, e := math.Frexp(length)
	if f < math.Sqrt2/2 {
		e--
	}
	return math.Ldexp(1, -e)
}
