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

// With a tenth of the values missing the same is told of a sequence, and nothing of white noise.
func TestSequencesWithGaps(t *testing.T) {
	const n, draws = 1000, 100
	r := rand.New(rand.NewPCG(11, 5))
	for name, c := range map[string]struct {
		rho, step, spike         float64
		serial, uneven, outliers int
	}{
		"white":      {},
		"memory":     {rho: 0.5, serial: draws},
		"a half":     {step: 2, uneven: draws},
		"wrong ones": {spike: 10, outliers: draws},
	} {
		serial, uneven, outliers := 0, 0, 0
		for range draws {
			y, e := make([]float64, n), 0.0
			for i := range y {
				e = c.rho*e + math.Sqrt(1-c.rho*c.rho)*r.NormFloat64()
				y[i] = 5*math.Sin(float64(i)/100) + e*(1+c.step*float64(2*i/n))
				if i%100 == 50 {
					y[i] += c.spike
				}
				if r.Float64() < 0.1 {
					y[i] = math.NaN()
				}
			}
			if Serial(y) != 0 {
				serial++
			}
			if UnevenSequence(y).By != "" {
				uneven++
			}
			if at, _ := Outliers(y); at != nil {
				outliers++
			}
		}
		for _, k := range [][2]int{{serial, c.serial}, {uneven, c.uneven}, {outliers, c.outliers}} {
			if k[0] < k[1]*4/5 || c.uneven == 0 && k[1] == 0 && k[0] > 0 {
				t.Errorf("%s: told %d %d %d of %d", name, serial, uneven, outliers, draws)
			}
		}
	}
	if at, _ := Outliers([]float64{math.NaN(), 1, math.NaN()}); at != nil || Serial(make([]float64, 0)) != 0 {
		t.Error("no differences tell something")
	}
}
