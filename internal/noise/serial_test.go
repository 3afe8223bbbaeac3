package noise

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Autoregressive noise and noise of alternating sign are told about smooth signals and about levels, with the ratio that
// their correlations have. White noise is not, also about a signal that jumps or bends often.
func TestSerial(t *testing.T) {
	const n, draws = 1000, 20
	signals := map[string]func(x float64) float64{
		"constant": func(float64) float64 { return 0 },
		"sine":     func(x float64) float64 { return math.Sin(6 * x) },
		"fast":     func(x float64) float64 { return math.Sin(60 * x) },
		"levels":   func(x float64) float64 { return 2 * math.Floor(5*x) },
	}
	for name, signal := range signals {
		for _, rho := range []float64{0, 0.5, 0.7, -0.5} {
			r := rand.New(rand.NewPCG(uint64(10+10*rho), 3))
			told, ratio := 0, 0.0
			for range draws {
				y, e := make([]float64, n), r.NormFloat64()
				for i := range y {
					e = rho*e + math.Sqrt(1-rho*rho)*r.NormFloat64()
					y[i] = signal(float64(i)/n) + 0.3*e
				}
				if v := Serial(y); v > 0 {
					told++
					ratio += v
				}
			}
			ratio /= float64(max(told, 1))
			expected := (1 + rho) * (3 - rho*rho) / (3 - rho) // of rho_h = rho^h
			if rho == 0 && told > 0 || rho != 0 && (told < draws-1 || math.Abs(math.Log(ratio/expected)) > 0.12) {
				t.Errorf("%s, correlation %g: %d of %d told, ratio %.3f, expected %.3f", name, rho, told, draws, ratio,
					expected)
			}
		}
	}
	if Serial(make([]float64, 300)) != 0 || Serial(make([]float64, 3)) != 0 {
		t.Error("zeros are told")
	}
}
