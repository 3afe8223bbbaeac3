//go:build !static && !android && !ios && (linux || darwin || windows) && (amd64 || arm64 || loong64 || riscv64)

package native

import (
	"math"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// The smallest problems that go to the library, in multiplications: below these sizes gonum is as fast.
const (
	minMulGemm = 1 << 8
	minMulGemv = 1 << 12
	minMulTri  = 1 << 8
)

// args are the arguments of one call, in order, while the library reads them. They are pooled: a call allocates
// nothing.
type args struct {
	routine uintptr
	chars   [4]byte
	ints    [10]int64
	floats  [2]float64
	// nChars, nInts and nFloats are how many of these there are, and n is the number of arguments.
	nChars, nInts, nFloats, n int
	// SyscallN takes a slice of words; a slice made at the call would escape.
	pointers [maxArgs]unsafe.Pointer
	words    [maxArgs]uintptr
}

// maxArgs is room for the longest argument list, dgesvd's 14 and 2.
const maxArgs = 16

var argsPool = sync.Pool{New: func() any { return new(args) }}

// to begins a call of a routine.
func to(routine uintptr) *args {
	v := argsPool.Get().(*args)
	v.routine, v.nChars, v.nInts, v.nFloats, v.n = routine, 0, 0, 0, 0
	return v
}

func (v *args) at(p unsafe.Pointer) *args {
	v.pointers[v.n] = p
	v.n++
	return v
}

func (v *args) char(cs ...byte) *args {
	for _, c := range cs {
		v.chars[v.nChars] = c
		v.at(unsafe.Pointer(&v.chars[v.nChars]))
		v.nChars++
	}
	return v
}

func (v *args) int(ns ...int) *args {
	for _, n := range ns {
		v.ints[v.nInts] = int64(n)
		v.at(unsafe.Pointer(&v.ints[v.nInts]))
		v.nInts++
	}
	return v
}

func (v *args) float(x float64) *args {
	v.floats[v.nFloats] = x
	v.nFloats++
	return v.at(unsafe.Pointer(&v.floats[v.nFloats-1]))
}

// values is an array, or one that the routine does not use where x is empty.
func (v *args) values(x []float64) *args {
	if len(x) == 0 {
		return v.at(unsafe.Pointer(&unused))
	}
	return v.at(unsafe.Pointer(&x[0]))
}

var unused float64

// matrix is an array and its leading dimension, or a vector and its increment.
func (v *args) matrix(x []float64, ld int) *args { return v.values(x).int(ld) }

func (v *args) call() {
	v.run()
	argsPool.Put(v)
}

// run calls the routine. After the arguments it gets the lengths of the characters, which Fortran compilers append to
// the argument list. The addresses are kept as pointers during the call, so that what they point to is on the heap and
// stays there.
func (v *args) run() {
	for i, p := range v.pointers[:v.n] {
		v.words[i] = uintptr(p)
	}
	for i := range v.nChars {
		v.words[v.n+i] = 1
	}
	purego.SyscallN(v.routine, v.words[:v.n+v.nChars]...)
	clear(v.pointers[:v.n])
}

// ok calls a routine of LAPACK, whose last argument is info, and reports whether that is 0. The library's integers
// may have 32 bits.
func (v *args) ok() bool {
	v.int(0)
	v.run()
	info := int32(v.ints[v.nInts-1])
	argsPool.Put(v)
	return info == 0
}

// implBLAS is gonum's BLAS, with the routines that are faster in a library taken from there.
type implBLAS struct {
	gonum.Implementation
	lib *blasRoutines
}

// holds reports whether x holds a row-major matrix of the given size, not
// empty, that the library's integers can describe.
func holds(x []float64, rows, cols, ld int) bool {
	return rows > 0 && cols > 0 && ld >= cols && rows <= math.MaxInt32 && ld <= math.MaxInt32 &&
		len(x) >= (rows-1)*ld+cols
}

// atLeast reports whether m n k reaches a bound, without overflow.
func atLeast(bound float64, m, n, k int) bool {
	return float64(m)*float64(n)*float64(k) >= bound
}

func isTrans(t blas.Transpose) bool { return t == blas.Trans || t == blas.ConjTrans }

func validTrans(t blas.Transpose) bool { return t == blas.NoTrans || isTrans(t) }

func validUplo(u blas.Uplo) bool { return u == blas.Upper || u == blas.Lower }

func validSide(s blas.Side) bool { return s == blas.Left || s == blas.Right }

func validDiag(d blas.Diag) bool { return d == blas.Unit || d == blas.NonUnit }

func flipTrans(t blas.Transpose) byte {
	if isTrans(t) {
		return byte(blas.NoTrans)
	}
	return byte(blas.Trans)
}

func flipUplo(u blas.Uplo) byte {
	if u == blas.Upper {
		return byte(blas.Lower)
	}
	return byte(blas.Upper)
}

func flipSide(s blas.Side) byte {
	if s == blas.Left {
		return byte(blas.Right)
	}
	return byte(blas.Left)
}

func swapIf(trans bool, rows, cols int) (int, int) {
	if trans {
		return cols, rows
	}
	return rows, cols
}

// Dgemm computes C = alpha op(A) op(B) + beta C, as C' = op(B)' op(A)'.
func (b implBLAS) Dgemm(tA, tB blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, bb []float64,
	ldb int, beta float64, c []float64, ldc int) {
	rowsA, colsA := swapIf(isTrans(tA), m, k)
	rowsB, colsB := swapIf(isTrans(tB), k, n)
	if !atLeast(minMulGemm, m, n, k) || !validTrans(tA) || !validTrans(tB) ||
		!holds(a, rowsA, colsA, lda) || !holds(bb, rowsB, colsB, ldb) || !holds(c, m, n, ldc) {
		b.Implementation.Dgemm(tA, tB, m, n, k, alpha, a, lda, bb, ldb, beta, c, ldc)
		return
	}
	b.lib.gemm(tA, tB, m, n, k, alpha, a, lda, bb, ldb, beta, c, ldc)
}

func (r *blasRoutines) gemm(tA, tB blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, b []float64,
	ldb int, beta float64, c []float64, ldc int) {
	to(r.dgemm).char(byte(tB), byte(tA)).int(n, m, k).float(alpha).matrix(b, ldb).matrix(a, lda).float(beta).
		matrix(c, ldc).call()
}

// Dgemv computes y = alpha op(A) x + beta y.
func (b implBLAS) Dgemv(tA blas.Transpose, m, n int, alpha float64, a []float64, lda int, x []float64, incX int,
	beta float64, y []float64, incY int) {
	lenY, lenX := swapIf(isTrans(tA), m, n)
	if !atLeast(minMulGemv, m, n, 1) || !validTrans(tA) || !holds(a, m, n, lda) || n > math.MaxInt32 ||
		incX <= 0 || incY <= 0 || !holds(x, lenX, 1, incX) || !holds(y, lenY, 1, incY) {
		b.Implementation.Dgemv(tA, m, n, alpha, a, lda, x, incX, beta, y, incY)
		return
	}
	if beta == 0 {
		// Some releases of OpenBLAS multiply by 0 here, and keep an old NaN.
		for i := range lenY {
			y[i*incY] = 0
		}
	}
	to(b.lib.dgemv).char(flipTrans(tA)).int(n, m).float(alpha).matrix(a, lda).matrix(x, incX).float(beta).
		matrix(y, incY).call()
}

// Dsyrk computes a triangle of C = alpha A A' + beta C or alpha A' A + beta C.
func (b implBLAS) Dsyrk(ul blas.Uplo, tA blas.Transpose, n, k int, alpha float64, a []float64, lda int, beta float64,
	c []float64, ldc int) {
	rows, cols := swapIf(isTrans(tA), n, k)
	if !atLeast(minMulTri, n, n, k) || !validUplo(ul) || !validTrans(tA) ||
		!holds(a, rows, cols, lda) || !holds(c, n, n, ldc) {
		b.Implementation.Dsyrk(ul, tA, n, k, alpha, a, lda, beta, c, ldc)
		return
	}
	to(b.lib.dsyrk).char(flipUplo(ul), flipTrans(tA)).int(n, k).float(alpha).matrix(a, lda).float(beta).
		matrix(c, ldc).call()
}

// Dsymm computes C = alpha A B + beta C or alpha B A + beta C, A symmetric.
func (b implBLAS) Dsymm(s blas.Side, ul blas.Uplo, m, n int, alpha float64, a []float64, lda int, bb []float64,
	ldb int, beta float64, c []float64, ldc int) {
	order := n
	if s == blas.Left {
		order = m
	}
	if !atLeast(minMulTri, m, n, order) || !validSide(s) || !validUplo(ul) ||
		!holds(a, order, order, lda) || !holds(bb, m, n, ldb) || !holds(c, m, n, ldc) {
		b.Implementation.Dsymm(s, ul, m, n, alpha, a, lda, bb, ldb, beta, c, ldc)
		return
	}
	to(b.lib.dsymm).char(flipSide(s), flipUplo(ul)).int(n, m).float(alpha).matrix(a, lda).matrix(bb, ldb).
		float(beta).matrix(c, ldc).call()
}

// Dtrmm computes B = alpha op(A) B or alpha B op(A), A triangular.
func (b implBLAS) Dtrmm(s blas.Side, ul blas.Uplo, tA blas.Transpose, d blas.Diag, m, n int, alpha float64,
	a []float64, lda int, bb []float64, ldb int) {
	if !triangular(s, ul, tA, d, m, n, a, lda, bb, ldb) {
		b.Implementation.Dtrmm(s, ul, tA, d, m, n, alpha, a, lda, bb, ldb)
		return
	}
	callTriangular(b.lib.dtrmm, s, ul, tA, d, m, n, alpha, a, lda, bb, ldb)
}

// Dtrsm solves op(A) X = alpha B or X op(A) = alpha B, A triangular; X
// replaces B.
func (b implBLAS) Dtrsm(s blas.Side, ul blas.Uplo, tA blas.Transpose, d blas.Diag, m, n int, alpha float64,
	a []float64, lda int, bb []float64, ldb int) {
	if !triangular(s, ul, tA, d, m, n, a, lda, bb, ldb) {
		b.Implementation.Dtrsm(s, ul, tA, d, m, n, alpha, a, lda, bb, ldb)
		return
	}
	callTriangular(b.lib.dtrsm, s, ul, tA, d, m, n, alpha, a, lda, bb, ldb)
}

// triangular reports whether a Dtrmm or Dtrsm should go to the library.
func triangular(s blas.Side, ul blas.Uplo, tA blas.Transpose, d blas.Diag, m, n int, a []float64, lda int,
	b []float64, ldb int) bool {
	order := n
	if s == blas.Left {
		order = m
	}
	return atLeast(minMulTri, m, n, order) && validSide(s) && validUplo(ul) && validTrans(tA) && validDiag(d) &&
		holds(a, order, order, lda) && holds(b, m, n, ldb)
}

func callTriangular(routine uintptr, s blas.Side, ul blas.Uplo, tA blas.Transpose, d blas.Diag, m, n int,
	alpha float64, a []float64, lda int, b []float64, ldb int) {
	to(routine).char(flipSide(s), flipUplo(ul), byte(tA), byte(d)).int(n, m).float(alpha).matrix(a, lda).
		matrix(b, ldb).call()
}
