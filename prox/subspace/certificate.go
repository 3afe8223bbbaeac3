package subspace

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/array"
)

// BelowThreshold reports whether no singular value of the m x n matrix x exceeds
// tau: whether tau^2 I minus its smaller Gram matrix has a Cholesky factor.
func BelowThreshold(ctx context.Context, x array.Batch, tau float64) (bool, error) {
	g, n, err := smallerGram(ctx, x)
	if err != nil {
		return false, err
	}
	for i := range n {
		for j := i; j < n; j++ {
			g[i*n+j] = -g[i*n+j]
		}
		g[i*n+i] += tau * tau
	}
	_, ok := lapack64.Potrf(blas64.Symmetric{N: n, Stride: n, Data: g, Uplo: blas.Upper})
	return ok, nil
}

// ExcessWithin reports whether [Excess] is certainly at most distance. No more values exceed
// tau than the smaller side has, so that it is where none exceeds tau by more than its
// share.
func ExcessWithin(ctx context.Context, x array.Batch, tau, distance float64) (bool, error) {
	return BelowThreshold(ctx, x, tau+distance/math.Sqrt(float64(min(x.K(), x.N()))))
}

// Excess is the length of the vector of x's singular values less tau, where positive.
func Excess(ctx context.Context, x array.Batch, tau float64) (float64, error) {
	g, n, err := smallerGram(ctx, x)
	if err != nil {
		return 0, err
	}
	values, err := eigenSym(lapack.EVNone, g, n)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, v := range values {
		if e := math.Sqrt(math.Max(v, 0)) - tau; e > 0 {
			sum += e * e
		}
	}
	return math.Sqrt(sum), nil
}

// gramPanel is the number of rows of a large Gram matrix that are computed between two
// looks at the context.
const gramPanel = 256

// smallerGram returns the upper triangle of x* x, or of x x* where that is smaller,
// on the host.
func smallerGram(ctx context.Context, x array.Batch) ([]float64, int, error) {
	dev := x.Device()
	tall := x.K() >= x.N()
	n := min(x.K(), x.N())
	g := dev.Alloc(n, n)
	defer g.Free()
	dev.Fill(g, 0)
	for i := 0; i < n; i += gramPanel {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		j := min(i+gramPanel, n)
		if tall {
			dev.Gemm(true, false, 1, x.Cols(i, j), x.Cols(i, n), 0, g.Rows(i, j).Cols(i, n))
		} else {
			dev.Gemm(false, true, 1, x.Rows(i, j), x.Rows(i, n), 0, g.Rows(i, j).Cols(i, n))
		}
	}
	host := g.ToHost()
	for _, v := range host {
		if v-v != 0 {
			return nil, 0, Error{"a residual that is not finite"}
		}
	}
	return host, n, dev.Err()
}
