package surepipe_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"surepipe"
	"surepipe/risk"
)

var regretDraws = flag.Int("regret", 3, "draws of TestRegretIsThatOfTheChoice for each of six settings")

// The weight that SURE chooses under autoregressive noise, whose correlation and variance are estimated: what it costs
// over the best of the grid, beside what the sweep says that it is likely to cost.
func TestRegretIsThatOfTheChoice(t *testing.T) {
	const n = 500
	trends := []struct {
		problem surepipe.Problem
		grid    string
		at      func(i int) float64
	}{
		{"whittaker", "1:1e8:31", func(i int) float64 { return 2 * math.Sin(2*math.Pi*float64(i)/250) }},
		{"trend1d", "1:1e4:31", func(i int) float64 { return 3 * math.Abs(float64(i%250)/125-1) }},
		{"tv1d", "0.1:100:31", func(i int) float64 { return []float64{0, 2, 1, 3, 0.5}[i/100] }},
	}
	refine, audit := 0, false
	for _, trend := range trends {
		for _, rho := range []float64{0.5, 0.8} {
			var sum, said, beyond float64
			var worse, unmarked, marked, of int
			for seed := range *regretDraws {
				r := rand.New(rand.NewPCG(uint64(seed), 77))
				y, mu := make([]float64, n), make([]float64, n)
				for i := range y {
					y[i], mu[i] = r.NormFloat64(), trend.at(i)
				}
				risk.AR1(rho).Colour(y)
				for i := range y {
					y[i] = mu[i] + y[i]/2
				}
				data, err := surepipe.Arrays{Y: y, Mu: mu}.Data()
				if err != nil {
					t.Fatal(err)
				}
				est, err := surepipe.Open(t.Context(), data, surepipe.Options{Problem: trend.problem, Sigma2By: "ar1"})
				if err != nil {
					t.Fatal(err)
				}
				path, err := est.Sweep(t.Context(), surepipe.Grid{Lambda: trend.grid, Refine: &refine, Audit: &audit})
				est.Close()
				if err != nil {
					t.Fatal(err)
				}
				least := math.Inf(1)
				for _, p := range path.Points {
					least = min(least, *p.Loss)
				}
				s := path.Summary
				regret := *path.Points[s.Minimizer.Index].Loss/least - 1
				sum, said, beyond = sum+regret, said+*s.Regret, beyond+*s.RegretBeyond
				t.Logf("DATA %s %g %d %.4f %.4f %.4f %d", trend.problem, rho, seed, regret, *s.Regret, *s.RegretBeyond, len(s.Warnings))
				of++
				_ = worse
				_ = unmarked
				_ = marked
			}
			m := float64(of)
			t.Logf("%s AR(%g): %.3f, said %.3f; beyond %.2f", trend.problem, rho, sum/m, said/m, beyond/m)
		}
	}
}
