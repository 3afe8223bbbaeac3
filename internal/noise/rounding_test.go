package noise

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestRoundingStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(n int, f func(float64) float64) []float64 {
		y := make([]float64, n)
		for i := range y {
			y[i] = f(rng.NormFloat64())
		}
		return y
	}
	to := func(levels, offset float64) func(float64) float64 {
		return func(v float64) float64 { return math.Round(v*levels)/levels + offset }
	}
	for name, c := range map[string]struct {
		y    []float64
		want float64
	}{
		"continuous":       {draw(10000, func(v float64) float64 { return v }), 0},
		"eight bits":       {draw(10000, to(255, 0)), 1. / 255},
		"single precision": {draw(10000, func(v float64) float64 { return float64(float32(to(255, 0)(v))) }), 1. / 255},
		"shifted":          {draw(1000, to(4, 0.3)), 0.25},
		"unequal steps":    {draw(10000, func(v float64) float64 { return math.Exp(math.Round(v * 4)) }), 0},
		"few ties":         {draw(200, to(1000, 0)), 0},
		"constant":         {draw(100, func(float64) float64 { return 3 }), 0},
		"of large numbers": {draw(1000, func(v float64) float64 { return 1e9 * to(8, 0)(v) }), 1e9 / 8},
	} {
		if got := RoundingStep(c.y); math.Abs(got-c.want) > 1e-4*c.want {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}
