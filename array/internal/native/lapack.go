//go:build !static && !android && !ios && (linux || darwin || windows) && (amd64 || arm64 || loong64 || riscv64)

package native

import (
	"math"
	"unsafe"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/lapack"

	"surepipe/array/internal/reflectors"
)

// The smallest problems that go to the library, in min(m, n) or n; below, gonum
// is as fast.
const (
	minOrderSVD      = 24
	minOrderEigen    = 32
	minOrderCholesky = 24
)

// implLAPACK is gonum's LAPACK with the factorizations that gain from it taken from a library.
type implLAPACK struct {
	reflectors.Implementation
	lib *lapackRoutines
}

func finite(a []float64, rows, cols, ld int) bool {
	for i := range rows {
		for _, x := range a[i*ld : i*ld+cols] {
			if x-x != 0 {
				return false
			}
		}
	}
	return true
}

func validJob(j lapack.SVDJob) bool {
	return j == lapack.SVDAll || j == lapack.SVDStore || j == lapack.SVDNone
}

// svdVectors reports whether u and vt have room for the singular vectors asked for.
func svdVectors(jobU, jobVT lapack.SVDJob, m, n int, u []float64, ldu int, vt []float64, ldvt int) bool {
	short := min(m, n)
	okU, okVT := ldu >= 1 && ldu <= math.MaxInt32, ldvt >= 1 && ldvt <= math.MaxInt32
	switch jobU {
	case lapack.SVDAll:
		okU = holds(u, m, m, ldu)
	case lapack.SVDStore:
		okU = holds(u, m, short, ldu)
	}
	switch jobVT {
	case lapack.SVDAll:
		okVT = holds(vt, n, n, ldvt)
	case lapack.SVDStore:
		okVT = holds(vt, short, n, ldvt)
	}
	return okU && okVT
}

// Dgesvd computes the singular value decomposition A = U S V'. It uses divide and conquer where the
// same vectors are wanted on both sides, and the QR iteration otherwise or where divide and conquer
// fails. It returns false for a matrix with NaN or an infinity.
func (l implLAPACK) Dgesvd(jobU, jobVT lapack.SVDJob, m, n int, a []float64, lda int, s, u []float64, ldu int,
	vt []float64, ldvt int, work []float64, lwork int) (ok bool) {
	short := min(m, n)
	minWork := max(3*short+max(m, n), 5*short)
	if short < minOrderSVD || lwork < minWork || len(work) < lwork || !validJob(jobU) || !validJob(jobVT) ||
		!holds(a, m, n, lda) || len(s) < short || !svdVectors(jobU, jobVT, m, n, u, ldu, vt, ldvt) {
		return l.Implementation.Dgesvd(jobU, jobVT, m, n, a, lda, s, u, ldu, vt, ldvt, work, lwork)
	}
	if !finite(a, m, n, lda) {
		return false
	}
	if jobU == jobVT {
		// Work on a copy: a failure leaves the matrix in an unusable state.
		b := make([]float64, m*n)
		for i := range m {
			copy(b[i*n:(i+1)*n], a[i*lda:i*lda+n])
		}
		if l.gesdd(jobU, m, n, b, s, u, ldu, vt, ldvt) {
			return true
		}
	}
	return l.gesvd(jobU, jobVT, m, n, a, lda, s, u, ldu, vt, ldvt)
}

// withWork calls a routine to ask for the size of its workspace, and then with that.
func withWork(call func(work []float64, lwork int) (ok bool)) (ok bool) {
	size := make([]float64, 1)
	if !call(size, -1) {
		return false
	}
	work := make([]float64, int(size[0]))
	return call(work, len(work))
}

func (l implLAPACK) gesdd(job lapack.SVDJob, m, n int, a, s, u []float64, ldu int, vt []float64, ldvt int) bool {
	iwork := make([]int64, 8*min(m, n))
	return withWork(func(work []float64, lwork int) bool {
		return to(l.lib.dgesdd).char(byte(job)).int(n, m).matrix(a, n).values(s).matrix(vt, ldvt).matrix(u, ldu).
			matrix(work, lwork).at(unsafe.Pointer(&iwork[0])).ok()
	})
}

func (l implLAPACK) gesvd(jobU, jobVT lapack.SVDJob, m, n int, a []float64, lda int, s, u []float64, ldu int,
	vt []float64, ldvt int) bool {
	return withWork(func(work []float64, lwork int) bool {
		return to(l.lib.dgesvd).char(byte(jobVT), byte(jobU)).int(n, m).matrix(a, lda).values(s).matrix(vt, ldvt).
			matrix(u, ldu).matrix(work, lwork).ok()
	})
}

// Dsyev computes the eigenvalues, ascending, and eigenvectors of a symmetric matrix, by divide and
// conquer or, if that fails, by gonum's QR iteration. It returns false for a matrix with NaN or an
// infinity. It takes no memory where work is as long as a query says.
func (l implLAPACK) Dsyev(jobz lapack.EVJob, uplo blas.Uplo, n int, a []float64, lda int, w, work []float64,
	lwork int) (ok bool) {
	if lwork == -1 && n >= minOrderEigen && len(work) > 0 {
		work[0] = float64(eigenWork(n))
		return true
	}
	if n < minOrderEigen || lwork < max(1, 3*n-1) || len(work) < lwork || !validUplo(uplo) ||
		(jobz != lapack.EVNone && jobz != lapack.EVCompute) || !holds(a, n, n, lda) || len(w) < n {
		return l.Implementation.Dsyev(jobz, uplo, n, a, lda, w, work, lwork)
	}
	own := work[:lwork]
	if lwork < eigenWork(n) {
		own = make([]float64, eigenWork(n))
	}
	// To the column-major library an upper triangle is the lower one of the same matrix.
	b, own := own[:n*n], own[n*n:]
	for i := range n {
		lo, hi := i, n
		if uplo == blas.Lower {
			lo, hi = 0, i+1
		}
		copy(b[i*n+lo:i*n+hi], a[i*lda+lo:i*lda+hi])
		for j := lo; j < hi; j++ {
			if v := b[i*n+j]; v-v != 0 {
				return false
			}
		}
	}
	integers := eigenIntegers(n)
	iwork, own := own[:integers], own[integers:]
	if !to(l.lib.dsyevd).char(byte(jobz), flipUplo(uplo)).int(n).matrix(b, n).values(w).matrix(own, len(own)).
		at(unsafe.Pointer(&iwork[0])).int(integers).ok() {
		return l.Implementation.Dsyev(jobz, uplo, n, a, lda, w, make([]float64, lwork), lwork)
	}
	if jobz == lapack.EVCompute {
		for i := range n {
			row := a[i*lda : i*lda+n]
			for j := range row {
				row[j] = b[j*n+i]
			}
		}
	}
	return true
}

// eigenWork is the length of Dsyev's workspace: a copy of the matrix, dsyevd's integers, of 64 bits at most, and its
// own.
func eigenWork(n int) int { return n*n + eigenIntegers(n) + 1 + 6*n + 2*n*n }

func eigenIntegers(n int) int { return 3 + 5*n }

// Dpotrf computes the Cholesky factorization A = U' U or L L'.
func (l implLAPACK) Dpotrf(ul blas.Uplo, n int, a []float64, lda int) (ok bool) {
	if n < minOrderCholesky || !validUplo(ul) || !holds(a, n, n, lda) {
		return l.Implementation.Dpotrf(ul, n, a, lda)
	}
	return to(l.lib.dpotrf).char(flipUplo(ul)).int(n).matrix(a, lda).ok()
}

// Dpotri computes the inverse of A from its Cholesky factorization.
func (l implLAPACK) Dpotri(ul blas.Uplo, n int, a []float64, lda int) (ok bool) {
	if n < minOrderCholesky || !validUplo(ul) || !holds(a, n, n, lda) {
		return l.Implementation.Dpotri(ul, n, a, lda)
	}
	return to(l.lib.dpotri).char(flipUplo(ul)).int(n).matrix(a, lda).ok()
}
