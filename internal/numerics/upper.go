package numerics

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/internal/parallel"
)

// InvertUpper replaces a symmetric positive definite matrix, of which the upper triangle is given, by all of its
// inverse, on all processors where it is large; false where the square of a pivot is not above least.
func InvertUpper(a blas64.Symmetric, least float64) bool {
	ok := invertUpper(a, least)
	const tile = 32
	parallel.RangesIf(a.N > invertedAtOnce, a.N, tile, func(lo, hi int) {
		for from := 0; from < hi; from += tile {
			for i := lo; i < hi; i++ {
				for j := from; j < min(from+tile, i); j++ {
					a.Data[i*a.Stride+j] = a.Data[j*a.Stride+i]
				}
			}
		}
	})
	return ok
}

// invertedAtOnce is the size of a matrix up to which one processor inverts it, and panelOfInverse the number of rows or
// columns of a product that one computes at a time.
const invertedAtOnce, panelOfInverse = 256, 128

// invertUpper sets the upper triangle. By halves, with A = R* R, W = R^{-*} B, C' = C - W* W and X = R^{-1} W,
//
//	[ A   B ]^{-1}   [ A^{-1} + X C'^{-1} X*   -X C'^{-1} ]
//	[ B*  C ]      = [                            C'^{-1} ],
//
// which takes as many operations as the inverse by the triangular factor.
func invertUpper(a blas64.Symmetric, least float64) bool {
	if a.N <= invertedAtOnce {
		root, ok := rootOf(a, least)
		if ok {
			_, ok = lapack64.Potri(root)
		}
		return ok
	}
	n, stride := a.N/2, a.Stride
	rest := a.N - n
	first := blas64.Symmetric{N: n, Stride: stride, Data: a.Data, Uplo: blas.Upper}
	second := blas64.Symmetric{N: rest, Stride: stride, Data: a.Data[n*stride+n:], Uplo: blas.Upper}
	b := func(rows, cols int, row, col int) blas64.General {
		return blas64.General{Rows: rows, Cols: cols, Stride: stride, Data: a.Data[row*stride+n+col:]}
	}
	root, ok := rootOf(first, least)
	if !ok {
		return false
	}
	parallel.Ranges(rest, panelOfInverse, func(lo, hi int) {
		blas64.Trsm(blas.Left, blas.Trans, 1, root, b(n, hi-lo, 0, lo))
	})
	parallel.Ranges(rest, panelOfInverse, func(lo, hi int) {
		left, right, to := b(n, hi-lo, 0, lo), b(n, rest-lo, 0, lo), b(hi-lo, rest-lo, n+lo, lo)
		blas64.Gemm(blas.Trans, blas.NoTrans, -1, left, right, 1, to)
	})
	var done [2]bool
	parallel.For(2, func(i int) {
		if i == 0 {
			done[i] = invertUpper(second, least)
			return
		}
		parallel.Ranges(rest, panelOfInverse, func(lo, hi int) {
			blas64.Trsm(blas.Left, blas.NoTrans, 1, root, b(n, hi-lo, 0, lo))
		})
		_, done[i] = lapack64.Potri(root)
	})
	if !done[0] || !done[1] {
		return false
	}
	y := blas64.General{Rows: n, Cols: rest, Stride: rest, Data: make([]float64, n*rest)} // X C'^{-1}
	rowsOf := func(lo, hi int) blas64.General {
		return blas64.General{Rows: hi - lo, Cols: rest, Stride: rest, Data: y.Data[lo*rest:]}
	}
	parallel.Ranges(n, panelOfInverse, func(lo, hi int) {
		blas64.Symm(blas.Right, 1, second, b(hi-lo, rest, lo, 0), 0, rowsOf(lo, hi))
	})
	parallel.Ranges(n, panelOfInverse, func(lo, hi int) {
		to := blas64.General{Rows: hi - lo, Cols: n - lo, Stride: stride, Data: a.Data[lo*stride+lo:]}
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, rowsOf(lo, hi), b(n-lo, rest, lo, 0), 1, to)
	})
	parallel.Ranges(n, panelOfInverse, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			for j, v := range y.Data[i*rest : (i+1)*rest] {
				a.Data[i*stride+n+j] = -v
			}
		}
	})
	return true
}

// rootOf is Cholesky's factor, in the matrix's place; false where the square of a pivot is not above least.
func rootOf(a blas64.Symmetric, least float64) (root blas64.Triangular, ok bool) {
	root, ok = lapack64.Potrf(a)
	for i := range a.N {
		ok = ok && a.Data[i*a.Stride+i]*a.Data[i*a.Stride+i] > least
	}
	return root, ok
}
