package vjp_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/prox/denoise"
	"surepipe/solve"
	"surepipe/vjp"
)

// SURE of tomography, magnetic resonance imaging, local low rank and vectorial total variation is
// unbiased, and its error bar right, over 400 draws.
func TestSUREOfImagingIsUnbiased(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of solves")
	}
	dev := array.NewHost()
	const m, n = 8, 8
	image := make([]float64, m*n)
	for i := range m {
		for j := range n {
			if (i-3)*(i-3)+(j-4)*(j-4) < 9 {
				image[i*n+j] = 1
			}
			if i > 2 && i < 5 && j > 3 {
				image[i*n+j] += 0.6
			}
		}
	}
	// Pairs of real and imaginary part with a smooth phase, and three channels.
	pairs, colours := make([]float64, 2*m*n), make([]float64, 3*m*n)
	for i, v := range image {
		s, c := math.Sincos(0.3 + 0.1*float64(i%n))
		pairs[2*i], pairs[2*i+1] = v*c, v*s
		colours[3*i], colours[3*i+1], colours[3*i+2] = v, 1-0.5*v, 0.3*v
	}
	var angles []float64
	for i := range 9 {
		angles = append(angles, 20*float64(i))
	}
	projection, err := imaging.NewParallelBeam(m, n, angles, n, 1, imaging.Axis{})
	if err != nil {
		t.Fatal(err)
	}
	var places []int
	for i := range m * n {
		if i/n%3 != 0 {
			places = append(places, i)
		}
	}
	fourier, err := imaging.NewFourier(m, n, places, imaging.FourierLayout{Complex: true, Centered: true})
	if err != nil {
		t.Fatal(err)
	}
	wavelet, err := imaging.NewWavelet2D(m, n, "haar", 2)
	if err != nil {
		t.Fatal(err)
	}
	both, err := imaging.NewInterleaved(dev, wavelet, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer both.Release()
	gradient := imaging.NewGradient([]int{m, n}, nil, imaging.Reflecting)
	groups := make([][]int, m*n)
	for i := range groups {
		groups[i] = []int{2 * i, 2*i + 1}
	}
	moduli, err := prox.NewGroupL2(dev, 2*m*n, 0.15, groups, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer prox.StructureOf(moduli).Release()
	series := prox.Series{Frames: 4, Rows: 4, Cols: 4, Patch: 4, Stride: 2}
	course := make([]float64, series.Len())
	for f := range series.Frames {
		for i := range 16 {
			course[f*16+i] = image[(i/4+2)*n+i%4+2] * math.Cos(float64(f))
		}
	}
	synthesis := func(a, w linops.Operator) linops.Operator { return linops.Compose(a, linops.Adjoint(w)) }
	coefficients := func(w linops.Operator, x []float64) []float64 {
		on, to := dev.Put(x, 1, len(x)), dev.Alloc(1, len(x))
		w.Forward(to, on)
		return to.ToHost()
	}
	for _, c := range []struct {
		name   string
		p      vjp.Problem
		signal []float64
		sigma  float64
	}{
		{"tomography, total variation", vjp.Problem{A: projection, K: gradient, R: prox.NewVectorialL2(m*n, 2, 1, 0.3)},
			image, 0.3},
		{"tomography, wavelets", vjp.Problem{A: synthesis(projection, wavelet), R: prox.NewL1(0.3)},
			coefficients(wavelet, image), 0.3},
		{"complex samples, wavelets", vjp.Problem{A: synthesis(fourier, both), R: moduli}, coefficients(both, pairs),
			0.2},
		{"complex samples, vectorial total variation",
			vjp.Problem{A: fourier, K: imaging.NewGradient([]int{m, n, 2}, []int{0, 1}, imaging.Reflecting),
				R: prox.NewVectorialL2(m*n, 2, 2, 0.1)}, pairs, 0.2},
		{"colours, vectorial total variation", vjp.Problem{A: linops.Identity(3 * m * n),
			K: imaging.NewGradient([]int{m, n, 3}, []int{0, 1}, imaging.Reflecting),
			R: prox.NewVectorialL2(m*n, 2, 3, 0.3)}, colours, 0.3},
		{"local low rank", vjp.Problem{A: linops.Identity(series.Len()), R: denoise.NewLocalLowRank(series, 1.2)},
			course, 0.3},
	} {
		c.p.Device = dev
		t.Run(c.name, func(t *testing.T) { checkDraws(t, c.p, c.signal, c.sigma) })
	}
}

// checkDraws compares SURE with the loss, and its error bar with their difference, over 80 draws of y
// around the image of a signal.
func checkDraws(t *testing.T, p vjp.Problem, signal []float64, sigma float64) {
	const draws = 80
	s, err := vjp.NewSolver(t.Context(), solve.Default(p), p,
		vjp.Options{Tol: 1e-4, MaxIter: 20000, Sigma2: sigma * sigma})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	rows, _ := p.A.Dims()
	rng := rand.New(rand.NewPCG(11, 12))
	x, z := p.Device.Put(signal, 1, len(signal)), p.Device.Alloc(1, rows)
	p.A.Forward(z, x)
	mean := z.ToHost()
	z.Free()
	sum, squares, bars, s2, d := 0.0, 0.0, 0.0, sigma*sigma, float64(rows)
	for range draws {
		y := make([]float64, rows)
		for i, v := range mean {
			y[i] = v + sigma*rng.NormFloat64()
		}
		on := p.Device.Put(y, 1, rows)
		sol, err := s.Solve(t.Context(), on)
		if err != nil {
			t.Fatal(err)
		}
		known := sol.Linearization.Closed()
		if !known.Known || !sol.Converged {
			t.Fatalf("%+v, trace known: %t", sol.Convergence, known.Known)
		}
		residual, loss := 0.0, 0.0
		for i, v := range sol.MuHat.ToHost() {
			residual += (v - y[i]) * (v - y[i])
			loss += (v - mean[i]) * (v - mean[i])
		}
		off := -d*s2 + residual + 2*s2*known.Trace - loss
		sum += off
		squares += off * off
		bars += 4*s2*residual + 4*s2*s2*known.Frobenius2 - 2*s2*s2*d
		sol.Release()
		on.Free()
	}
	bias, spread := sum/draws, math.Sqrt(squares/draws)
	if !(math.Abs(bias) < 3.5*spread/math.Sqrt(draws)) {
		t.Errorf("SURE minus the loss is %.3g on average, with a standard error of %.3g", bias, spread/math.Sqrt(draws))
	}
	if bar := math.Sqrt(bars / draws); !(math.Abs(bar/spread-1) < 0.25) {
		t.Errorf("the error bar is %.3g, the error %.3g", bar, spread)
	}
	t.Logf("bias %.3g ± %.3g, bar over error %.3f", bias, spread/math.Sqrt(draws), math.Sqrt(bars/draws)/spread)
}
