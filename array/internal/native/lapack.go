//go:build !static && ((linux && !android && (amd64 || arm64 || loong64 || riscv64)) || (darwin && !ios && (amd64 || arm64)) || (windows && (amd64 || arm64)))

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

// implLAPACK is gonum's LAPACK with the factorizations that gain from it taken
// from a library. gonum's own QR and LQ, which call the library's BLAS, measured
// as fast as the library's for all shapes from 80 x 8 to 20000 x 34.
type implLAPACK struct {
	reflectors.Implementation
	lib *lapackRoutines
}

// status is the library's info argument, whose integers may have 32 bits.
func (v *args) status() int { return int(int32(v.info)) }

// finite reports whether every value of a matrix is a finite number.
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

// validJob reports whether a job is one that the library does here.
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

// unused stands for an array that a routine does not use.
var unused [1]float64

func orUnused(x []float64) []float64 {
	if len(x) == 0 {
		return unused[:]
	}
	return x
}

func (l implLAPACK) gesdd(job lapack.SVDJob, m, n int, a, s, u []float64, ldu int, vt []float64, ldvt int) bool {
	v := argsPool.Get().(*args)
	defer argsPool.Put(v)
	u, vt = orUnused(u), orUnused(vt)
	iwork := make([]int64, 8*min(m, n))
	v.trans = byte(job)
	v.m, v.n, v.lda, v.ldb, v.ldc = int64(n), int64(m), int64(n), int64(ldvt), int64(ldu)
	v.lwork = -1
	work := v.alphaSlice()
	for range 2 {
		v.info = 0
		v.call(l.lib.dgesdd, 1,
			unsafe.Pointer(&v.trans),
			unsafe.Pointer(&v.m), unsafe.Pointer(&v.n),
			unsafe.Pointer(&a[0]), unsafe.Pointer(&v.lda),
			unsafe.Pointer(&s[0]),
			unsafe.Pointer(&vt[0]), unsafe.Pointer(&v.ldb),
			unsafe.Pointer(&u[0]), unsafe.Pointer(&v.ldc),
			unsafe.Pointer(&work[0]), unsafe.Pointer(&v.lwork),
			unsafe.Pointer(&iwork[0]), unsafe.Pointer(&v.info))
		if v.status() != 0 {
			return false
		}
		if v.lwork == -1 {
			v.lwork = int64(work[0])
			work = make([]float64, v.lwork)
		}
	}
	return true
}

// alphaSlice is room for the answer to a workspace query.
func (v *args) alphaSlice() []float64 { return unsafe.Slice(&v.alpha, 1) }

func (l implLAPACK) gesvd(jobU, jobVT lapack.SVDJob, m, n int, a []float64, lda int, s, u []float64, ldu int,
	vt []float64, ldvt int) bool {
	v := argsPool.Get().(*args)
	defer argsPool.Put(v)
	u, vt = orUnused(u), orUnused(vt)
	v.trans, v.transB = byte(jobVT), byte(jobU)
	v.m, v.n, v.lda, v.ldb, v.ldc = int64(n), int64(m), int64(lda), int64(ldvt), int64(ldu)
	v.lwork = -1
	work := v.alphaSlice()
	for range 2 {
		v.info = 0
		v.call(l.lib.dgesvd, 2,
			unsafe.Pointer(&v.trans), unsafe.Pointer(&v.transB),
			unsafe.Pointer(&v.m), unsafe.Pointer(&v.n),
			unsafe.Pointer(&a[0]), unsafe.Pointer(&v.lda),
			unsafe.Pointer(&s[0]),
			unsafe.Pointer(&vt[0]), unsafe.Pointer(&v.ldb),
			unsafe.Pointer(&u[0]), unsafe.Pointer(&v.ldc),
			unsafe.Pointer(&work[0]), unsafe.Pointer(&v.lwork),
			unsafe.Pointer(&v.info))
		if v.status() != 0 {
			return false
		}
		if v.lwork == -1 {
			v.lwork = int64(work[0])
			work = make([]float64, v.lwork)
		}
	}
	return true
}

// Dsyev computes the eigenvalues, ascending, and eigenvectors of a symmetric matrix, by divide and
// conquer or, if that fails, by gonum's QR iteration. It returns false for a matrix with NaN or an
// infinity.
func (l implLAPACK) Dsyev(jobz lapack.EVJob, uplo blas.Uplo, n int, a []float64, lda int, w, work []float64,
	lwork int) (ok bool) {
	if n < minOrderEigen || lwork < max(1, 3*n-1) || len(work) < lwork || !validUplo(uplo) ||
		(jobz != lapack.EVNone && jobz != lapack.EVCompute) || !holds(a, n, n, lda) || len(w) < n {
		return l.Implementation.Dsyev(jobz, uplo, n, a, lda, w, work, lwork)
	}
	// To the column-major library an upper triangle is the lower one of the same matrix.
	b := make([]float64, n*n)
	for i := range n {
		lo, hi := i, n
		if uplo == blas.Lower {
			lo, hi = 0, i+1
		}
		copy(b[i*n+lo:i*n+hi], a[i*lda+lo:i*lda+hi])
	}
	if !finite(b, n, n, n) {
		return false
	}
	if !l.syevd(jobz, uplo, n, b, w) {
		return l.Implementation.Dsyev(jobz, uplo, n, a, lda, w, work, lwork)
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

func (l implLAPACK) syevd(jobz lapack.EVJob, uplo blas.Uplo, n int, a, w []float64) bool {
	v := argsPool.Get().(*args)
	defer argsPool.Put(v)
	v.trans, v.uplo = byte(jobz), flipUplo(uplo)
	v.n, v.lda, v.lwork, v.liwork = int64(n), int64(n), -1, -1
	work, iwork := v.alphaSlice(), []int64{0}
	for range 2 {
		v.info = 0
		v.call(l.lib.dsyevd, 2,
			unsafe.Pointer(&v.trans), unsafe.Pointer(&v.uplo),
			unsafe.Pointer(&v.n),
			unsafe.Pointer(&a[0]), unsafe.Pointer(&v.lda),
			unsafe.Pointer(&w[0]),
			unsafe.Pointer(&work[0]), unsafe.Pointer(&v.lwork),
			unsafe.Pointer(&iwork[0]), unsafe.Pointer(&v.liwork),
			unsafe.Pointer(&v.info))
		if v.status() != 0 {
			return false
		}
		if v.lwork == -1 {
			v.lwork, v.liwork = int64(work[0]), iwork[0]
			work, iwork = make([]float64, v.lwork), make([]int64, v.liwork)
		}
	}
	return true
}

// Dpotrf computes the Cholesky factorization A = U' U or L L'.
func (l implLAPACK) Dpotrf(ul blas.Uplo, n int, a []float64, lda int) (ok bool) {
	if n < minOrderCholesky || !validUplo(ul) || !holds(a, n, n, lda) {
		return l.Implementation.Dpotrf(ul, n, a, lda)
	}
	return callCholesky(l.lib.dpotrf, ul, n, a, lda)
}

// Dpotri computes the inverse of A from its Cholesky factorization.
func (l implLAPACK) Dpotri(ul blas.Uplo, n int, a []float64, lda int) (ok bool) {
	if n < minOrderCholesky || !validUplo(ul) || !holds(a, n, n, lda) {
		return l.Implementation.Dpotri(ul, n, a, lda)
	}
	return callCholesky(l.lib.dpotri, ul, n, a, lda)
}

func callCholesky(routine uintptr, ul blas.Uplo, n int, a []float64, lda int) bool {
	v := argsPool.Get().(*args)
	defer argsPool.Put(v)
	v.uplo, v.n, v.lda, v.info = flipUplo(ul), int64(n), int64(lda), 0
	v.call(routine, 1,
		unsafe.Pointer(&v.uplo), unsafe.Pointer(&v.n),
		unsafe.Pointer(&a[0]), unsafe.Pointer(&v.lda),
		unsafe.Pointer(&v.info))
	return v.status() == 0
}
