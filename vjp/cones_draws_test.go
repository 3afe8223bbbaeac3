package vjp_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox/cones"
	"surepipe/solve"
	"surepipe/vjp"
)

// SURE under constraints is unbiased, and its error bar right, over 400 draws: on the simplex, which has
// flat faces, and in a second-order cone behind an operator, whose surface is curved.
func TestSUREUnderConstraintsIsUnbiased(t *testing.T) {
	if testing.Short() {
		t.Skip("short: statistics depend on neither the device nor the BLAS")
	}
	dev := array.NewHost()
	const d, p, sigma, draws = 20, 6, 0.5, 400
	setup := rand.New(rand.NewPCG(31, 32))
	a, k := dense(t, dev, randomMatrix(setup, d, p)), dense(t, dev, randomMatrix(setup, 4, p))
	cone := must(cones.NewSecondOrderCones(4, [][]int{{0, 1, 2, 3}}))
	for name, c := range map[string]struct {
		problem vjp.Problem
		b       []float64
	}{
		"simplex":           {vjp.Problem{A: a, R: cones.NewSimplex(p, 1)}, []float64{0.5, 0.3, 0.2, 0, 0, 0}},
		"second-order cone": {vjp.Problem{A: a, K: k, R: cone}, []float64{0.3, -0.2, 0.1, 0, 0.1, 0.2}},
	} {
		c.problem.Device = dev
		s, err := vjp.NewSolver(t.Context(), solve.Default(c.problem), c.problem, vjp.Options{Sigma2: sigma * sigma})
		if err != nil {
			t.Fatal(err)
		}
		mean := forwardOf(dev, a, c.b)
		rng := rand.New(rand.NewPCG(33, 34))
		sum, squares, bars, curved := 0.0, 0.0, 0.0, 0
		for range draws {
			y := make([]float64, d)
			for i, v := range mean {
				y[i] = v + sigma*rng.NormFloat64()
			}
			sol := solved(t, s, dev, y)
			known := sol.Linearization.Closed()
			residual, loss := 0.0, 0.0
			for i, v := range sol.MuHat.ToHost() {
				residual += (v - y[i]) * (v - y[i])
				loss += (v - mean[i]) * (v - mean[i])
			}
			if known.Trace != math.Round(known.Trace) {
				curved++
			}
			const s2 = sigma * sigma
			off := -d*s2 + residual + 2*s2*known.Trace - loss
			sum += off
			squares += off * off
			bars += 4*s2*residual + 4*s2*s2*known.Frobenius2 - 2*s2*s2*d
			sol.Release()
		}
		s.Release()
		bias, spread := sum/draws, math.Sqrt(squares/draws)
		t.Logf("%s: SURE minus the loss is %.3g on average, with a standard error of %.3g; %d draws on a "+
			"curved surface", name, bias, spread/math.Sqrt(draws), curved)
		if !(math.Abs(bias) < 3.5*spread/math.Sqrt(draws)) {
			t.Errorf("%s: SURE minus the loss is %.3g on average, with a standard error of %.3g", name, bias,
				spread/math.Sqrt(draws))
		}
		if bar := math.Sqrt(bars / draws); !(math.Abs(bar/spread-1) < 0.25) {
			t.Errorf("%s: the error bar is %.3g, the error %.3g", name, bar, spread)
		}
		if c.problem.K != nil && curved < draws/10 {
			t.Errorf("%s: only %d draws are on the curved surface", name, curved)
		}
	}
}

// forwardOf is A b.
func forwardOf(dev array.Device, a linops.Operator, b []float64) []float64 {
	d, p := a.Dims()
	x, z := dev.Put(b, 1, p), dev.Alloc(1, d)
	defer x.Free()
	defer z.Free()
	a.Forward(z, x)
	return z.ToHost()
}
