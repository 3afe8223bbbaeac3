package numerics_test

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/numerics"
)

func ExampleInvert() {
	a := mat.NewSymDense(2, []float64{2, 1, 0, 2})
	condition := numerics.Invert(a)
	fmt.Printf("%.3f %.3f, condition %.0f\n", a.At(0, 0), a.At(0, 1), condition)
	// Output: 0.667 -0.333, condition 3
}

// near fails where got is not want.
func near(t *testing.T, what string, got, want mat.Matrix) {
	t.Helper()
	if !mat.EqualApprox(got, want, 1e-12) {
		t.Errorf("%s is %v, expected %v", what, mat.Formatted(got), mat.Formatted(want))
	}
}

// The factors of matrices with known ones.
func TestClosedForms(t *testing.T) {
	a := numerics.Symmetrized([]float64{2, 0, 2, 2}, 2) // [2 1; 1 2]
	values, v, err := numerics.Eigen(a)
	if err != nil || math.Abs(values[0]-1) > 1e-14 || math.Abs(values[1]-3) > 1e-14 ||
		math.Abs(math.Abs(v.At(0, 1))-math.Sqrt(0.5)) > 1e-14 {
		t.Errorf("values %v, vectors %v: %v", values, mat.Formatted(v), err)
	}
	x := mat.NewDense(3, 2, []float64{0, 3, 0, 4, 2, 0})
	u, sigma, w, err := numerics.SVD(x)
	if err != nil || math.Abs(sigma[0]-5) > 1e-14 || math.Abs(sigma[1]-2) > 1e-14 {
		t.Fatalf("singular values %v: %v", sigma, err)
	}
	var product mat.Dense
	product.Product(u, mat.NewDiagDense(2, sigma), w.T())
	near(t, "U S V*", &product, x)
}

// What has no factors is said.
func TestErrors(t *testing.T) {
	nan := mat.NewDense(1, 2, []float64{1, math.NaN()})
	if _, _, _, err := numerics.SVD(nan); err == nil {
		t.Error("singular values of NaN")
	}
	if _, _, err := numerics.Eigen(mat.NewSymDense(1, []float64{math.Inf(1)})); err == nil {
		t.Error("eigenvalues of an infinity")
	}
	indefinite := mat.NewSymDense(2, []float64{1, 2, 2, 1})
	if c := numerics.Invert(indefinite); !math.IsInf(c, 1) {
		t.Errorf("condition %g of an indefinite matrix", c)
	}
}

// Of a projection on two coordinates of three, and of a matrix that is not symmetric.
func TestComplement(t *testing.T) {
	trace, square := numerics.Complement([]float64{1, 0, 0, 0, 1, 0, 0, 0, 0}, 3)
	if trace != 1 || square != 1 {
		t.Errorf("of a projection %g and %g, expected 1 and 1", trace, square)
	}
	// I - P = [1 -2; -3 -4], whose square has the trace 1 + 6 + 6 + 16.
	if trace, square = numerics.Complement([]float64{0, 2, 3, 5}, 2); trace != -3 || square != 29 {
		t.Errorf("%g and %g, expected -3 and 29", trace, square)
	}
}
