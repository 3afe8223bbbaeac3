package faces

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/array"
)

// host shares products with large matrices among the processors.
var host = array.NewHost()

// shared is the number of entries from which on products are shared.
const shared = 1 << 16

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
