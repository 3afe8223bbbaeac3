package noise_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"

	"surepipe/internal/noise"
)

// autoregressive are n values of an AR(1) of variance 1.
func autoregressive(r *rand.Rand, rho float64, n int) []float64 {
	e := make([]float64, n)
	for i := range e {
		if e[i] = r.NormFloat64(); i > 0 {
			e[i] = rho*e[i-1] + math.Sqrt(1-rho*rho)*e[i]
		}
	}
	return e
}

// Over 40 draws of 500 values about a trend of straight lines the correlation and the variance of autoregressive noise are
// found, and their errors are those that are said.
func TestAR1IsFound(t *testing.T) {
	const n, draws = 500, 40
	for _, rho := range []float64{0, 0.5, 0.8} {
		var found, says, sigma2 []float64
		covered := 0
		for seed := range uint64(draws) {
			y := autoregressive(rand.New(rand.NewPCG(seed, 3)), rho, n)
			for i := range y {
				y[i] = y[i]/2 + 3*math.Abs(float64(i%250)/125-1)
			}
			e, err := noise.AR1(y, 2)
			if err != nil {
				t.Fatal(err)
			}
			found, says, sigma2 = append(found, e.Rho), append(says, e.RhoStdErr), append(sigma2, e.Sigma2)
			if math.Abs(e.Sigma2-0.25) < 2*e.RelStdErr*e.Sigma2 && math.Abs(e.Rho-rho) < 2*e.RhoStdErr {
				covered++
			}
		}
		mean, sd := stat.MeanStdDev(found, nil)
		bar, s := stat.Mean(says, nil), stat.Mean(sigma2, nil)
		if math.Abs(mean-rho) > 0.06 || bar < 0.7*sd || bar > 1.6*sd || math.Abs(s/0.25-1) > 0.15 || covered < draws*3/5 {
			t.Errorf("AR(%g): %.3f ± %.3f, said %.3f; sigma2 %.3f; covered %d", rho, mean, sd, bar, s, covered)
		}
	}
}

// A scale changes nothing, and a random walk has no noise beside its trend of jumps.
func TestAR1OfOtherData(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	y, walk, sum := autoregressive(r, 0.6, 200), make([]float64, 200), 0.0
	for i := range walk {
		sum += r.NormFloat64()
		walk[i] = sum
	}
	a, err := noise.AR1(y, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range y {
		y[i] *= 1e120
	}
	b, err := noise.AR1(y, 2)
	if err != nil || math.Abs(b.Rho-a.Rho) > 1e-6 || math.Abs(b.Sigma2/1e240/a.Sigma2-1) > 1e-6 {
		t.Errorf("%+v, %+v, %v", a, b, err)
	}
	if e, err := noise.AR1(walk, 1); err == nil { // its trend takes all
		t.Errorf("a random walk: %+v", e)
	}
	for _, wrong := range [][]float64{nil, make([]float64, 100), {math.NaN()}} {
		if _, err := noise.AR1(wrong, 2); err == nil {
			t.Errorf("%v passes", wrong)
		}
	}
}
