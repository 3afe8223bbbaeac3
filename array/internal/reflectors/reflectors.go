// Package reflectors mends the QR factorization of gonum's LAPACK.
//
// Dlarft of gonum v0.17.0 joins reflectors to a block. It leaves out rows in which all of them are 0,
// but takes the last row of the second reflector for that of the first two: the counter from 0 is
// compared with that of the Fortran from 1. Where the first one reaches further down, as happens where
// a matrix has many zeros (indicators of categories, a diagonal penalty below A), Q is not orthogonal:
// of 500 x 200 matrices with five entries a row it was off by up to 0.3.
package reflectors

import (
	"math"

	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/gonum"
)

// Implementation is gonum's LAPACK, for factorizations of matrices without zeros: a zero counts as
// tiny times the largest entry. Then no row is left out. No digit of a result changes.
type Implementation struct{ gonum.Implementation }

// tiny is far below rounding errors, and its square is no subnormal number.
const tiny = 0x1p-400

// withoutZeros replaces the zeros of a matrix.
func withoutZeros(m, n int, a []float64, lda int) {
	if len(a) < (m-1)*lda+n || lda < n {
		return // refused by what follows
	}
	most := 0.0
	for i := range m {
		for _, v := range a[i*lda:][:n] {
			most = math.Max(most, math.Abs(v))
		}
	}
	if !(most > 0) || math.IsInf(most, 1) {
		return
	}
	for i := range m {
		for j, v := range a[i*lda:][:n] {
			if v == 0 {
				a[i*lda+j] = tiny * most
			}
		}
	}
}

// Dgeqrf computes A = Q R.
func (l Implementation) Dgeqrf(m, n int, a []float64, lda int, tau, work []float64, lwork int) {
	if lwork != -1 {
		withoutZeros(m, n, a, lda)
	}
	l.Implementation.Dgeqrf(m, n, a, lda, tau, work, lwork)
}

// Dgeqp3 computes A P = Q R.
func (l Implementation) Dgeqp3(m, n int, a []float64, lda int, jpvt []int, tau, work []float64, lwork int) {
	if lwork != -1 {
		withoutZeros(m, n, a, lda)
	}
	l.Implementation.Dgeqp3(m, n, a, lda, jpvt, tau, work, lwork)
}

// Dgesvd computes A = U S V*.
func (l Implementation) Dgesvd(
	jobU, jobVT lapack.SVDJob, m, n int, a []float64, lda int, s, u []float64, ldu int, vt []float64, ldvt int,
	work []float64, lwork int,
) (ok bool) {
	if lwork != -1 {
		withoutZeros(m, n, a, lda)
	}
	return l.Implementation.Dgesvd(jobU, jobVT, m, n, a, lda, s, u, ldu, vt, ldvt, work, lwork)
}
