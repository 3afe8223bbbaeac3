// Package numerics has factorizations of dense matrices, with their errors, above gonum's. Its rooms have what Newton's
// method needs ([surepipe/internal/numerics/steps]).
package numerics

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Symmetrized is (A + A*)/2 of a row-major n x n matrix.
func Symmetrized(a []float64, n int) *mat.SymDense {
	s := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			s.SetSym(i, j, (a[i*n+j]+a[j*n+i])/2)
		}
	}
	return s
}

// Complement is tr(I - P) and tr (I - P)^2 of a row-major n x n matrix P, or of its transpose.
func Complement(p []float64, n int) (trace, square float64) {
	trace, square = float64(n), float64(n)
	for i := range n {
		trace -= p[i*n+i]
		square -= 2*p[i*n+i] - p[i*n+i]*p[i*n+i]
		for j := range i {
			square += 2 * p[i*n+j] * p[j*n+i]
		}
	}
	return trace, square
}

func ColumnLengths(a *mat.Dense) []float64 {
	m, n := a.Dims()
	out := make([]float64, n)
	for i := range m {
		for j, v := range a.RawRowView(i) {
			out[j] = math.Hypot(out[j], v)
		}
	}
	return out
}

func finite(a mat.Matrix) error {
	if norm := mat.Norm(a, 1); math.IsNaN(norm) || math.IsInf(norm, 0) {
		m, n := a.Dims()
		return fmt.Errorf("a %d x %d matrix holds a NaN or an infinity", m, n)
	}
	return nil
}

// Eigen is A = V diag(values) V* for a symmetric A, with the values in increasing order and a column of V each.
// The error is that of values that are not finite, or do not converge.
func Eigen(a *mat.SymDense) (values []float64, v *mat.Dense, err error) {
	if err := finite(a); err != nil {
		return nil, nil, err
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(a, true) {
		return nil, nil, fmt.Errorf("the eigenvalues of a %d x %d matrix did not converge", a.SymmetricDim(),
			a.SymmetricDim())
	}
	v = new(mat.Dense)
	eigen.VectorsTo(v)
	return eigen.Values(nil), v, nil
}

// SVD is X = U diag(sigma) V* for an m x n matrix, with min(m, n) values in decreasing order and a column of U and of
// V each. The error is that of values that are not finite, or do not converge.
func SVD(x *mat.Dense) (u *mat.Dense, sigma []float64, v *mat.Dense, err error) {
	if err := finite(x); err != nil {
		return nil, nil, nil, err
	}
	var svd mat.SVD
	if !svd.Factorize(x, mat.SVDThin) {
		m, n := x.Dims()
		return nil, nil, nil, fmt.Errorf("the singular values of a %d x %d matrix did not converge", m, n)
	}
	u, v = new(mat.Dense), new(mat.Dense)
	svd.UTo(u)
	svd.VTo(v)
	return u, svd.Values(nil), v, nil
}

// SingularValues are those of X, in decreasing order. The error is that of [SVD].
func SingularValues(x *mat.Dense) ([]float64, error) {
	if err := finite(x); err != nil {
		return nil, err
	}
	var svd mat.SVD
	if !svd.Factorize(x, mat.SVDNone) {
		m, n := x.Dims()
		return nil, fmt.Errorf("the singular values of a %d x %d matrix did not converge", m, n)
	}
	return svd.Values(nil), nil
}

// Invert replaces a symmetric positive definite A by its inverse, and returns A's condition number; where it is not
// positive definite, or has no finite inverse, it returns +Inf and an A of no meaning.
func Invert(a *mat.SymDense) (condition float64) {
	var root mat.Cholesky
	if !root.Factorize(a) {
		return math.Inf(1)
	}
	if err := root.InverseTo(a); err != nil && math.IsInf(root.Cond(), 1) {
		return math.Inf(1)
	}
	return root.Cond()
}
