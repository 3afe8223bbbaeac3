package spec

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
)

// The largest singular value of large matrices, dense and sparse, is that of a whole
// decomposition, also where the next one is close.
func TestLargestSingularValue(t *testing.T) {
	shape := array.Shape{Rows: largeSide + 20, Cols: largeSide}
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, shape.Len())
	var y []float64
	var places []int
	for i := range x {
		if rng.IntN(10) == 0 {
			x[i] = rng.NormFloat64()
			y, places = append(y, x[i]), append(places, i)
		}
	}
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(shape.Rows, shape.Cols, x), mat.SVDNone) {
		t.Fatal("no singular values")
	}
	want := svd.Values(nil)[0]
	dense, err := spectralNorm(x, shape)
	if err != nil || !(math.Abs(dense-want) <= 1e-11*want) {
		t.Errorf("dense: %v, want %v, error %v", dense, want, err)
	}
	sparse, err := sampledNorm(array.NewHost(), y, places, shape)
	if err != nil || !(math.Abs(sparse-want) <= 1e-11*want) {
		t.Errorf("sparse: %v, want %v, error %v", sparse, want, err)
	}
	if zero, err := spectralNorm(make([]float64, shape.Len()), shape); zero != 0 || err != nil {
		t.Errorf("the norm of 0 is %v, error %v", zero, err)
	}
}
