package direct_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// Tall matrices with singular values of one size are factorized by A*A, others by their own singular
// value decomposition: the same numbers as the normal equations and the singular values give.
func TestDirectTakesEigenvaluesWhereTheyResolveTheSpectrum(t *testing.T) {
	const d, p = 120, 40
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	rng := rand.New(rand.NewPCG(21, 22))
	values := solvetest.Gaussian(rng, d)
	y := roomtest.On(t, dev, values)
	for _, c := range []struct {
		spread float64 // of the singular values, beyond that of a Gaussian matrix
		curve  float64
		chosen string
	}{
		{1, 0, "eigenvalues of A*A"},
		{1, 3, "eigenvalues of A*A"},
		{20, 0, "eigenvalues of A*A"},
		{1e4, 0.5, "singular value decomposition"},
	} {
		// The last direction, which all columns share, is shrunk.
		x := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))
		for i := range d {
			row := x.RawRowView(i)
			mean := 0.0
			for _, v := range row {
				mean += v / p
			}
			for j := range row {
				row[j] -= mean * (1 - 1/c.spread)
			}
		}
		s := roomtest.NewSolver(t, "direct", solve.Problem{A: roomtest.Dense(t, dev, d, p, x.RawMatrix().Data),
			R: prox.NewSquaredL2(c.curve), Device: dev}, solve.Options{Point: true})
		sol := roomtest.At(t, s, y)
		roomtest.CheckChoice(t, sol, "method", c.chosen)
		// The reference: QR of [x; sqrt(c) I].
		tall := mat.NewDense(d+p, p, nil)
		tall.Slice(0, d, 0, p).(*mat.Dense).Copy(x)
		for j := range p {
			tall.Set(d+j, j, math.Sqrt(c.curve))
		}
		var qr mat.QR
		qr.Factorize(tall)
		var want mat.VecDense
		if err := qr.SolveVecTo(&want, false, mat.NewVecDense(d+p,
			append(append([]float64{}, values...), make([]float64, p)...))); err != nil {
			t.Fatal(err)
		}
		for j, b := range sol.B.ToHost() {
			if math.Abs(b-want.AtVec(j)) > 1e-9*c.spread*mat.Norm(&want, 2)/100 {
				t.Errorf("%+v: b[%d] = %g, expected %g", c, j, b, want.AtVec(j))
			}
		}
		var svd mat.SVD
		svd.Factorize(x, mat.SVDNone)
		trace := 0.0
		for _, v := range svd.Values(nil) {
			trace += v * v / (v*v + c.curve)
		}
		if got := sol.At.Linear.Traces(); math.Abs(got.Trace-trace) > 1e-9 || !(got.Margin > 1e6) || !sol.Converged {
			t.Errorf("%+v: trace %g, expected %g; margin %g, converged %v", c, got.Trace, trace, got.Margin,
				sol.Converged)
		}
	}
}
