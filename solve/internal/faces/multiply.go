package faces

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/array"
	"surepipe/internal/parallel"
)

// host shares products with large matrices among the processors.
var host = array.NewHost()

// shared is the number of entries from which on products with vectors are shared, and sharedFlops that of
// multiplications from which on those of matrices are.
const shared, sharedFlops = 1 << 16, 1 << 19

// multiply sets y = alpha M x + beta y, or with M* in place of M where trans is set.
func multiply(trans bool, alpha float64, m blas64.General, x []float64, beta float64, y []float64) {
	if m.Rows == 0 || m.Cols == 0 {
		if beta != 1 {
			blas64.Scal(beta, vector(y))
		}
		return
	}
	if m.Rows*m.Cols < shared {
		t := blas.NoTrans
		if trans {
			t = blas.Trans
		}
		blas64.Gemv(t, alpha, m, vector(x), beta, vector(y))
		return
	}
	a, from, to := host.Put(m.Data[:m.Rows*m.Stride], m.Rows, m.Stride), host.Put(x, 1, len(x)), host.Put(y, 1, len(y))
	host.Gemm(false, !trans, alpha, from, a.Cols(0, m.Cols), beta, to)
	array.Free(a, from, to)
}

// multiplyEach sets c = alpha A B + beta c, or with the adjoints of A and B where they are asked for. The processors
// share the rows of c.
func multiplyEach(ta, tb blas.Transpose, alpha float64, a, b blas64.General, beta float64, c blas64.General) {
	rows := max(block/4, min(c.Rows/4, strip))
	parallel.RangesIf(a.Rows*a.Cols*c.Cols >= sharedFlops, c.Rows, rows, func(lo, hi int) {
		left, to := a, blas64.General{Rows: hi - lo, Cols: c.Cols, Stride: c.Stride, Data: c.Data[lo*c.Stride:]}
		if ta == blas.Trans {
			left.Cols, left.Data = hi-lo, a.Data[lo:]
		} else {
			left.Rows, left.Data = hi-lo, a.Data[lo*a.Stride:]
		}
		blas64.Gemm(ta, tb, alpha, left, b, beta, to)
	})
}
