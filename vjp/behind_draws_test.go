package vjp_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/vjp"
)

// SURE of total variation is unbiased, and its error bar right, over 200 draws.
func TestSUREOfTotalVariationIsUnbiased(t *testing.T) {
	if testing.Short() {
		t.Skip("short: statistics depend on neither the device nor the BLAS")
	}
	dev := array.NewHost()
	const m, n, sigma, draws = 9, 8, 0.5, 200
	signal := make([]float64, m*n)
	for i := range m {
		for j := range n {
			switch {
			case i > 4 && j > 2:
				signal[i*n+j] = 2
			case j > 5:
				signal[i*n+j] = float64(i) / 3
			}
		}
	}
	kernel := mat.NewDense(3, 3, []float64{1. / 18, 1. / 9, 1. / 18, 1. / 9, 1. / 3, 1. / 9, 1. / 18, 1. / 9, 1. / 18})
	blur, err := imaging.NewConvolution2D(m, n, kernel, imaging.ZeroPadded)
	if err != nil {
		t.Fatal(err)
	}
	k := imaging.NewGradient([]int{m, n}, nil, imaging.Reflecting)
	for name, p := range map[string]vjp.Problem{
		"isotropic":   {A: linops.Identity(m * n), R: prox.NewVectorialL2(m*n, 2, 1, 0.5)},
		"anisotropic": {A: linops.Identity(m * n), R: prox.NewL1(0.4)},
		"deblurring":  {A: blur, R: prox.NewVectorialL2(m*n, 2, 1, 0.25)},
	} {
		p.K, p.Device = k, dev
		s, err := vjp.NewSolver(t.Context(), solve.Default(p), p, vjp.Options{Tol: 1e-5, Sigma2: sigma * sigma})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(11, 12))
		x, z := dev.Put(signal, 1, m*n), dev.Alloc(1, m*n)
		p.A.Forward(z, x)
		mean := z.ToHost()
		z.Free()
		sum, squares, bars := 0.0, 0.0, 0.0
		for range draws {
			y := make([]float64, m*n)
			for i, v := range mean {
				y[i] = v + sigma*rng.NormFloat64()
			}
			on := dev.Put(y, 1, m*n)
			sol, err := s.Solve(t.Context(), on)
			if err != nil {
				t.Fatal(err)
			}
			known := sol.Linearization.Closed()
			residual, loss := 0.0, 0.0
			for i, v := range sol.MuHat.ToHost() {
				residual += (v - y[i]) * (v - y[i])
				loss += (v - mean[i]) * (v - mean[i])
			}
			const s2, d = sigma * sigma, float64(m * n)
			off := -d*s2 + residual + 2*s2*known.Trace - loss
			sum += off
			squares += off * off
			bars += 4*s2*residual + 4*s2*s2*known.Frobenius2 - 2*s2*s2*d
			if !known.Known || !sol.Converged {
				t.Fatalf("%s: %+v, trace known: %t", name, sol.Convergence, known.Known)
			}
			sol.Release()
			on.Free()
		}
		s.Release()
		bias, spread := sum/draws, math.Sqrt(squares/draws)
		if !(math.Abs(bias) < 3.5*spread/math.Sqrt(draws)) {
			t.Errorf("%s: SURE minus the loss is %.3g on average, with a standard error of %.3g", name, bias,
				spread/math.Sqrt(draws))
		}
		if bar := math.Sqrt(bars / draws); !(math.Abs(bar/spread-1) < 0.25) {
			t.Errorf("%s: the error bar is %.3g, the error %.3g", name, bar, spread)
		}
	}
}
