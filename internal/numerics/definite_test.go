package numerics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// A matrix with an inverse is factorized as it is, one without after a shift of its diagonal, and one that is not
// semidefinite or not finite not at all.
func TestShiftedCholesky(t *testing.T) {
	for _, c := range []struct {
		off     float64 // of the matrix [1 off; off 1]
		shifted bool
		fails   bool
	}{{0.5, false, false}, {1, true, false}, {1 - 1e-17, true, false}, {2, true, true}, {math.NaN(), true, true}} {
		a := mat.NewSymDense(2, []float64{1, c.off, c.off, 1})
		root, shifted, err := ShiftedCholesky(a)
		if shifted != c.shifted || (err != nil) != c.fails {
			t.Errorf("%g: shifted %t, error %v", c.off, shifted, err)
		}
		if err == nil {
			want := 1 - c.off*c.off
			if c.shifted {
				want = 2*ShiftOfDiagonal + ShiftOfDiagonal*ShiftOfDiagonal
			}
			if got := root.Det(); math.Abs(got-want) > 1e-3*want {
				t.Errorf("%g: determinant %g, expected %g", c.off, got, want)
			}
		}
	}
}

// The ridge is the least of its sequence that leaves pivots above the cut.
func TestRidgedCholesky(t *testing.T) {
	for _, c := range []struct {
		off, cut, want float64
		ok             bool
	}{{0.5, 0, 0, true}, {1, 1e-9, 1e-4, true}, {1, 1e-3, 32 * 1e-4, true}, {3, 0, 0, false}} {
		a := blas64.Symmetric{N: 2, Stride: 2, Data: make([]float64, 4), Uplo: blas.Upper}
		ridge, ok := RidgedCholesky(a, 1e-4, c.cut, func(ridge float64) {
			copy(a.Data, []float64{1 + ridge, c.off, 0, 1 + ridge})
		})
		if ok != c.ok || ok && math.Abs(ridge-c.want) > 1e-12 {
			t.Errorf("off %g, cut %g: ridge %g, %t, expected %g, %t", c.off, c.cut, ridge, ok, c.want, c.ok)
		}
	}
}

// Powers of two bring a diagonal between 1/2 and 2, and back.
func TestEvenDiagonal(t *testing.T) {
	a := mat.NewSymDense(3, []float64{1e8, 3, 0, 3, 1e-8, 0, 0, 0, 0})
	s := EvenDiagonal(a)
	for i := range 2 {
		if v := a.At(i, i); v < 0.5 || v > 2 {
			t.Errorf("entry %d is %g", i, v)
		}
	}
	if s[2] != 1 {
		t.Errorf("the unit of a row of zeros is %g, expected 1", s[2])
	}
	for i, u := range s {
		s[i] = 1 / u
	}
	if ScaleSym(a, s); a.At(0, 0) != 1e8 || a.At(0, 1) != 3 || a.At(1, 1) != 1e-8 {
		t.Errorf("%v does not go back", mat.Formatted(a))
	}
	if OverRoot(4) != 0.5 || OverRoot(0) != 0 || OverRoot(-1) != 0 {
		t.Error("1/sqrt(v) of 4, 0 and -1")
	}
}

// The factor of a small matrix is that of dense algebra, and both solves with it make the inverse; a matrix with an
// eigenvalue below 0 has none.
func TestSmallFactors(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	for _, n := range []int{1, 2, 5, 12} {
		a, b := mat.NewDense(n, n, nil), mat.NewSymDense(n, nil)
		for i := range n {
			for j := range n {
				a.Set(i, j, rng.NormFloat64())
			}
		}
		b.SymOuterK(1, a)
		r, x := slices.Clone(mat.DenseCopyOf(b).RawMatrix().Data), make([]float64, n)
		if !FactorSmall(r, n) {
			t.Fatalf("%d: not factored", n)
		}
		var off mat.Dense
		root := mat.NewDense(n, n, r)
		off.Mul(root.T(), root)
		off.Sub(&off, b)
		if e := mat.Norm(&off, 2); !(e < 1e-12) {
			t.Errorf("%d: R*R is off by %g", n, e)
		}
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		want := slices.Clone(x)
		SolveSmallAdjoint(r, x)
		SolveSmall(r, x)
		var image mat.VecDense
		image.MulVec(b, mat.NewVecDense(n, x))
		for i, v := range want {
			if !(math.Abs(image.AtVec(i)-v) < 1e-8) {
				t.Errorf("%d: entry %d of the product with the solution is %g, expected %g", n, i, image.AtVec(i), v)
			}
		}
	}
	if FactorSmall([]float64{1, 2, 2, 1}, 2) {
		t.Error("a matrix with the eigenvalue -1 is factored")
	}
}
