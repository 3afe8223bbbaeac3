package numerics_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/internal/numerics"
)

func squareOf(n int, data []float64) blas64.General {
	return blas64.General{Rows: n, Cols: n, Stride: n, Data: data}
}

func upperOf(n int, data []float64) blas64.Symmetric {
	return blas64.Symmetric{N: n, Stride: n, Data: data, Uplo: blas.Upper}
}

// positive is I + X X*/mu, for X with n rows.
func positive(rng *rand.Rand, n int, mu float64) []float64 {
	x := blas64.General{Rows: n, Cols: n + 20, Stride: n + 20, Data: make([]float64, n*(n+20))}
	for i := range x.Data {
		x.Data[i] = rng.NormFloat64()
	}
	a := make([]float64, n*n)
	blas64.Gemm(blas.NoTrans, blas.Trans, 1/mu, x, x, 0, squareOf(n, a))
	for i := range n {
		a[i*n+i]++
	}
	return a
}

func TestInvertUpper(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	for _, n := range []int{1, 2, 40, 41, 77, 101, 137, 203, 301, 700} {
		for _, mu := range []float64{1, 1e-6} {
			a := positive(rng, n, mu)
			inverse := append([]float64(nil), a...)
			for i := range n {
				for j := range i {
					inverse[i*n+j] = math.NaN() // only the upper triangle is given
				}
			}
			if !numerics.InvertUpper(upperOf(n, inverse), 0) {
				t.Fatalf("n = %d, mu = %g: not positive definite", n, mu)
			}
			product := make([]float64, n*n)
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, squareOf(n, a), squareOf(n, inverse), 0, squareOf(n, product))
			worst := 0.0
			for i := range n {
				product[i*n+i]--
				for j := range n {
					worst = max(worst, math.Abs(product[i*n+j]))
					if inverse[i*n+j] != inverse[j*n+i] {
						t.Fatalf("n = %d: entries (%d, %d) differ: %g and %g", n, i, j, inverse[i*n+j], inverse[j*n+i])
					}
				}
			}
			// The condition number is that of the Wishart matrix, or about n/mu.
			if limit := 1e-11 * float64(n); !(worst <= limit) {
				t.Errorf("n = %d, mu = %g: M times its inverse differs from I by %g, expected at most %g", n, mu,
					worst, limit)
			}
			a[(n-1)*n+n-1] = -1
			if numerics.InvertUpper(upperOf(n, a), 0) {
				t.Errorf("n = %d, mu = %g: a matrix with a negative eigenvalue was inverted", n, mu)
			}
		}
	}
}
