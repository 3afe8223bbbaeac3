package risk_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/risk"
)

// The products with the covariance of an AR(1) are those of dense algebra.
func TestAR1IsItsMatrix(t *testing.T) {
	const d = 9
	r := rand.New(rand.NewPCG(2, 7))
	for _, rho := range []float64{-0.4, 0, 0.5, 0.9} {
		c, l, at := mat.NewDense(d, d, nil), mat.NewDense(d, d, nil), risk.AR1(rho)
		for i := range d {
			unit := make([]float64, d)
			unit[i] = 1
			at.Colour(unit)
			l.SetCol(i, unit)
			for j := range d {
				c.Set(i, j, math.Pow(rho, math.Abs(float64(i-j))))
			}
		}
		var product mat.Dense
		if product.Mul(l, l.T()); !mat.EqualApprox(&product, c, 1e-12) {
			t.Errorf("rho %g: L L* is not C", rho)
		}
		x := make([]float64, d)
		for i := range x {
			x[i] = r.NormFloat64()
		}
		var image, adjoint mat.VecDense
		image.MulVec(c, mat.NewVecDense(d, x))
		adjoint.MulVec(l.T(), mat.NewVecDense(d, x))
		y := append([]float64{}, x...)
		at.Adjoint(y)
		if got, want := at.Form(x), floats.Dot(x, image.RawVector().Data); math.Abs(got-want) > 1e-12*(1+want) ||
			!floats.EqualApprox(y, adjoint.RawVector().Data, 1e-12) {
			t.Errorf("rho %g: form %g, expected %g", rho, got, want)
		}
		if y := at.Times(x); !floats.EqualApprox(y, image.RawVector().Data, 1e-12) {
			t.Errorf("rho %g: C x is %g", rho, y)
		}
		if y := append([]float64{}, x...); true {
			at.Colour(y)
			if at.Whiten(y); !floats.EqualApprox(y, x, 1e-12) {
				t.Errorf("rho %g: L^{-1} L x is %g", rho, y)
			}
		}
		fro, top := mat.Norm(c, 2), 0.0
		var eigen mat.EigenSym
		sym := mat.NewSymDense(d, c.RawMatrix().Data)
		if eigen.Factorize(sym, false) {
			top = eigen.Values(nil)[d-1]
		}
		if math.Abs(at.Squares(d)-fro*fro) > 1e-10 || !(at.Most() >= top) || !(top > 0) {
			t.Errorf("rho %g: tr C^2 %g, expected %g; the largest eigenvalue %g, at most %g", rho, at.Squares(d), fro*fro,
				top, at.Most())
		}
	}
}

// With C = I the formulas are those of white noise.
func TestCorrelatedTermsOfWhiteNoise(t *testing.T) {
	white := risk.Terms{D: 20, Sigma2: 1.3, Residual: 17, Divergence: 4, Frobenius2: 3}
	same := white
	same.Correlated = &risk.Correlated{Trace: 4, Residual: 17, Squares: 3, All: 20, Most: 1}
	if white.SURE() != same.SURE() || !near(white.UnbiasedStdErr(), same.UnbiasedStdErr()) {
		t.Errorf("%g ± %g, expected %g ± %g", same.SURE(), same.UnbiasedStdErr(), white.SURE(), white.UnbiasedStdErr())
	}
}
