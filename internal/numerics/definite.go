package numerics

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/lists"
)

// EvenDiagonal scales the rows and columns of a symmetric matrix by powers of two, so that its
// diagonal is between 1/2 and 2, and returns these.
func EvenDiagonal(a *mat.SymDense) []float64 {
	s := lists.Make(a.SymmetricDim(), func(i int) float64 { return Unit(math.Sqrt(a.At(i, i))) })
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

// largestCondition is that of a system whose solution has some correct digits.
const largestCondition = 1e15

// ShiftOfDiagonal is added to a diagonal of about 1 where the condition is larger.
const ShiftOfDiagonal = 1e-12

// ShiftedCholesky factorizes a symmetric positive semidefinite matrix with a diagonal of about 1. It adds
// ShiftOfDiagonal to the diagonal where the matrix has no inverse with correct digits, and says so. The error is that
// of values that are not finite.
func ShiftedCholesky(a *mat.SymDense) (root *mat.Cholesky, shifted bool, err error) {
	root = new(mat.Cholesky)
	if root.Factorize(a) && root.Cond() <= largestCondition {
		return root, false, nil
	}
	n := a.SymmetricDim()
	for j := range n {
		a.SetSym(j, j, a.At(j, j)+ShiftOfDiagonal)
	}
	if !root.Factorize(a) {
		return nil, true, fmt.Errorf("a %d x %d matrix is not finite, or not positive semidefinite", n, n)
	}
	return root, true, nil
}

// RidgedCholesky factorizes a symmetric matrix with ones on its diagonal, which assemble writes into the upper triangle
// of a with a ridge added to the diagonal. The ridge is 0, or where a squared pivot is then at most cut the first of
// least, 32 least, 32^2 least, ... with which none is. It returns the ridge, and false where one as large as the
// diagonal does not suffice.
func RidgedCholesky(a blas64.Symmetric, least, cut float64, assemble func(ridge float64)) (ridge float64, ok bool) {
	for ; ridge < 1; ridge = max(32*ridge, least) {
		assemble(ridge)
		if _, ok := rootOf(a, cut); ok {
			return ridge, true
		}
	}
	return ridge, false
}

// FactorSmall replaces a symmetric n x n matrix, row-major, by the upper triangular R with R*R = it, and reports
// whether it is positive definite. It serves where a call of LAPACK takes longer than the operations.
func FactorSmall(h []float64, n int) bool {
	for i := range n {
		row := h[i*n:][:n]
		for k := range i {
			above := h[k*n:][:n]
			for j := i; j < len(row); j++ {
				row[j] -= above[i] * above[j]
			}
			row[k] = 0
		}
		if !(row[i] > 0) {
			return false
		}
		root := math.Sqrt(row[i])
		for j := i; j < len(row); j++ {
			row[j] /= root
		}
	}
	return true
}

// SolveSmall replaces x by R^{-1} x, of an upper triangular R of [FactorSmall], and SolveSmallAdjoint by R*^{-1} x.
func SolveSmall(r, x []float64) {
	n := len(x)
	for i := n - 1; i >= 0; i-- {
		row := r[i*n:][:n]
		for j := i + 1; j < len(row); j++ {
			x[i] -= row[j] * x[j]
		}
		x[i] /= row[i]
	}
}

func SolveSmallAdjoint(r, x []float64) {
	n := len(x)
	for i := range n {
		row := r[i*n:][:n]
		x[i] /= row[i]
		for j := i + 1; j < len(row); j++ {
			x[j] -= row[j] * x[i]
		}
	}
}

// OverRoot is 1/sqrt(v), and 0 where that is not finite.
func OverRoot(v float64) float64 {
	if r := 1 / math.Sqrt(v); !math.IsInf(r, 0) && !math.IsNaN(r) {
		return r
	}
	return 0
}

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

// Sign is -1, 0 or 1.
func Sign(a float64) float64 {
	switch {
	case a > 0:
		return 1
	case a < 0:
		return -1
	}
	return 0
}
