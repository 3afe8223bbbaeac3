package rewrite_test

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/solve"
)

// A projection of wavelets does not know the lengths of its columns, which differ by far. It is solved in
// about as many iterations as its matrix, of which they are known, and to the same mu_hat.
func TestLengthsOfColumnsAreEstimated(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	const n, count = 32, 24
	angles := make([]float64, count)
	for i := range angles {
		angles[i] = 180. / count * float64(i)
	}
	projection, err := imaging.NewParallelBeam(n, n, angles, n, 1, imaging.Axis{})
	if err != nil {
		t.Fatal(err)
	}
	wavelet, err := imaging.NewWavelet2D(n, n, "sym4", 3)
	if err != nil {
		t.Fatal(err)
	}
	known := linops.Compose(projection, linops.Adjoint(wavelet))
	dense := linops.NewDense(dev, linops.ToDense(dev, known))
	defer dense.Release()
	y := dev.Alloc(1, count*n)
	defer y.Free()
	rng, host := rand.New(rand.NewPCG(28, 9)), make([]float64, count*n)
	for i := range host {
		host[i] = 5 + rng.NormFloat64()
	}
	dev.Upload(y, host)
	solved := func(a linops.Operator) (mu []float64, iterations int) {
		p := solve.Problem{A: a, R: prox.NewL1(1), Device: dev}
		s, err := solve.New(t.Context(), "fista", p, solve.Options{Sigma2: 1, Tol: 1e-6})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		sol, err := s.Solve(t.Context(), y, solve.From{})
		if err != nil {
			t.Fatal(err)
		}
		defer sol.Release()
		return sol.MuHat.ToHost(), sol.Iterations
	}
	want, few := solved(dense)
	got, iterations := solved(known)
	t.Log(iterations, few)
	if float64(iterations) > 1.3*float64(few) {
		t.Errorf("%d iterations, and %d with known lengths", iterations, few)
	}
	if off := floats.Distance(got, want, 2); off > 1e-3*floats.Norm(want, 2) {
		t.Errorf("mu_hat is off by %.2g of %.2g", off, floats.Norm(want, 2))
	}
}
