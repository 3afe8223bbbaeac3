package surepipe_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe"
	"surepipe/loss"
)

var coverageDraws = flag.Int("coverage", 0, "draws of TestCoverageOfCoefficients for each loss and weight")

// How often intervals of 1.96 standard errors around the debiased coefficients of a LASSO hold the true ones, of those
// that are not 0 in the fit: 300 rows, 10 columns with correlations of 0.5 to the power of their distance, three of
// which have coefficients of 0.5, -0.5 and 0.3.
func TestCoverageOfCoefficients(t *testing.T) {
	if *coverageDraws == 0 {
		t.Skip("a study: -coverage 400")
	}
	const d, p = 300, 10
	beta := [p]float64{0: 0.5, 3: -0.5, 6: 0.3}
	yes := true
	for _, name := range []string{"squared", "logistic", "poisson", "cox"} {
		for _, lambda := range []string{"0.02max", "0.1max", "0.3max"} {
			var held, seen [2]int // of coefficients that are 0, and of the others
			for seed := range *coverageDraws {
				r := rand.New(rand.NewPCG(uint64(seed), 91))
				x, y, times := mat.NewDense(d, p, nil), make([]float64, d), make([]float64, d)
				for i := range d {
					z, last := 0.0, r.NormFloat64()
					for j := range p {
						x.Set(i, j, last)
						z += last * beta[j]
						last = 0.5*last + math.Sqrt(0.75)*r.NormFloat64()
					}
					y[i], times[i] = drawn(r, name, z)
				}
				arrays := surepipe.Arrays{X: x, Y: y}
				if kind, _ := loss.KindOf(name); kind.Timed {
					arrays.Time = times
				}
				data, err := arrays.Data()
				if err != nil {
					t.Fatal(err)
				}
				o := surepipe.Options{Problem: surepipe.Lasso, Loss: name, Lambda: lambda, Standardize: &yes}
				if arrays.Time == nil {
					o.Intercept = &yes
				}
				e, err := surepipe.Open(t.Context(), data, o)
				if err != nil {
					t.Fatal(err)
				}
				f, err := e.Fit(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				c, err := f.Coefficients(t.Context())
				e.Close()
				if err != nil {
					t.Fatal(err)
				}
				for j, k := range c.Coefficients[len(c.Coefficients)-p:] {
					if k.Debiased == nil {
						continue
					}
					kind := 0
					if beta[j] != 0 {
						kind = 1
					}
					seen[kind]++
					if math.Abs(*k.Debiased-beta[j]) < 1.96**k.DebiasedStdErr {
						held[kind]++
					}
				}
			}
			t.Logf("%s at %s: true coefficients %.3f of %d, zeros in the fit %.3f of %d", name, lambda,
				float64(held[1])/float64(seen[1]), seen[1], float64(held[0])/float64(seen[0]), seen[0])
		}
	}
}

// drawn is an observation at the linear predictor z, and its time.
func drawn(r *rand.Rand, loss string, z float64) (y, time float64) {
	switch loss {
	case "logistic":
		if r.Float64() < 1/(1+math.Exp(-z)) {
			y = 1
		}
	case "poisson":
		for limit, product := math.Exp(-math.Exp(z)), r.Float64(); product > limit; product *= r.Float64() {
			y++
		}
	case "cox":
		time, y = r.ExpFloat64()*math.Exp(-z), 1
		if censored := 3 * r.ExpFloat64(); censored < time {
			time, y = censored, 0
		}
	default:
		y = z + r.NormFloat64()
	}
	return y, time
}
