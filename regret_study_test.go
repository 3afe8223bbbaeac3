package surepipe_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"surepipe"
	"surepipe/risk"
	"surepipe/risk/warning"
)

var regretDraws = flag.Int("regret", 0, "draws of TestRegretIsThatOfTheChoice for each of six settings")

// The weight that SURE chooses under autoregressive noise, whose correlation and variance are estimated: what it costs
// over the best of the grid, beside what the sweep says that it costs on average; and how many of the draws in which it
// costs more than a tenth are not marked.
func TestRegretIsThatOfTheChoice(t *testing.T) {
	if *regretDraws == 0 {
		t.Skip("a study: -regret 50")
	}
	const n = 500
	costly, unmarked := 0, 0
	for _, trend := range []struct {
		problem surepipe.Problem
		grid    string
		at      func(i int) float64
	}{
		{"whittaker", "1:1e8:31", func(i int) float64 { return 2 * math.Sin(2*math.Pi*float64(i)/250) }},
		{"trend1d", "1:1e4:31", func(i int) float64 { return 3 * math.Abs(float64(i%250)/125-1) }},
		{"tv1d", "0.1:100:31", func(i int) float64 { return []float64{0, 2, 1, 3, 0.5}[i/100] }},
	} {
		for _, rho := range []float64{0.5, 0.8} {
			var costs, said, beyond, white float64
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
				gcv, _ := costOfChoice(t, y, mu, surepipe.Options{Problem: trend.problem}, trend.grid)
				cost, s := costOfChoice(t, y, mu, surepipe.Options{Problem: trend.problem, Sigma2By: "ar1"}, trend.grid)
				white, costs, said = white+gcv, costs+cost, said+*s.Regret
				if cost > risk.Tolerable {
					beyond++
					costly++
					if !slices.ContainsFunc(s.Warnings, func(w surepipe.Warning) bool {
						return w.Is(warning.CostlyChoice) || w.Is(warning.SlowNoise)
					}) {
						unmarked++
					}
				}
			}
			m := float64(*regretDraws)
			t.Logf("%s AR(%g): GCV costs %.3f; ar1 costs %.3f, said %.3f; more than a tenth in %.2f", trend.problem, rho,
				white/m, costs/m, said/m, beyond/m)
		}
	}
	t.Logf("%d of %d draws that cost more than a tenth are not marked", unmarked, costly)
	if 20*unmarked > costly {
		t.Errorf("%d of %d draws that cost more than a tenth are not marked", unmarked, costly)
	}
}

// costOfChoice is the loss at the weight that a sweep chooses over the least of its grid, less one, and what it says.
func costOfChoice(t *testing.T, y, mu []float64, o surepipe.Options, grid string) (float64, surepipe.Summary) {
	t.Helper()
	refine, audit := 0, false
	data, err := surepipe.Arrays{Y: y, Mu: mu}.Data()
	if err != nil {
		t.Fatal(err)
	}
	est, err := surepipe.Open(t.Context(), data, o)
	if err != nil {
		t.Fatal(err)
	}
	defer est.Close()
	path, err := est.Sweep(t.Context(), surepipe.Grid{Lambda: grid, Refine: &refine, Audit: &audit})
	if err != nil {
		t.Fatal(err)
	}
	least := math.Inf(1)
	for _, p := range path.Points {
		least = min(least, *p.Loss)
	}
	return *path.Points[path.Summary.Minimizer.Index].Loss/least - 1, path.Summary
}
