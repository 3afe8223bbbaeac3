package risk

import (
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// The largest column sum is LAPACK's.
func TestColumnSumIsThatOfTheWholeMatrix(t *testing.T) {
	s := blas64.Symmetric{N: 3, Stride: 4, Uplo: blas.Upper, Data: []float64{
		1, -2, 3, 9,
		9, -4, 5, 9,
		9, 9, 0.5, 9}}
	if got, want := columnSum(s), lapack64.Lansy(lapack.MaxColumnSum, s, make([]float64, 3)); got != want || got != 11 {
		t.Errorf("the sum is %g, expected %g", got, want)
	}
}
