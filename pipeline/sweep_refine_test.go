package pipeline

import (
	"errors"
	"math"
	"testing"
)

// Brent's method finds the minimum of a smooth function in few evaluations, and stays
// in its bracket on one that jumps or has no finite value.
func TestBrentFindsTheMinimum(t *testing.T) {
	for name, c := range map[string]struct {
		f      func(u float64) float64
		at     float64
		within float64
		most   int
	}{
		"parabola": {func(u float64) float64 { return (u - 0.3) * (u - 0.3) }, 0.3, 1e-3, 8},
		"cosh":     {func(u float64) float64 { return math.Cosh(u + 0.7) }, -0.7, 1e-3, 10},
		"kink":     {func(u float64) float64 { return math.Abs(u - 0.21) }, 0.21, 2e-3, 25},
		"quartic":  {func(u float64) float64 { return math.Pow(u-0.5, 4) }, 0.5, 5e-2, 25},
		"step":     {func(u float64) float64 { return u + 3*math.Round(3-u) }, 0, 1, 25},
		"infinite": {func(u float64) float64 {
			if u != 0 {
				return math.Inf(1)
			}
			return 1
		}, 0, 1e-9, 25},
		"constant": {func(float64) float64 { return 2 }, 0, 1, 25},
	} {
		for _, ends := range []bool{true, false} {
			fa, fb := c.f(-1), c.f(1)
			if !ends {
				fa, fb = math.NaN(), math.NaN()
			}
			count := 0
			at, value, err := brent(-1, 0, 1, fa, c.f(0), fb, 5e-4, 40, func(u float64) (float64, error) {
				if count++; u <= -1 || u >= 1 {
					t.Errorf("%s: evaluated at %g", name, u)
				}
				return c.f(u), nil
			})
			if err != nil || math.Abs(at-c.at) > c.within || value != c.f(at) || value > c.f(0) || count > c.most {
				t.Errorf("%s: minimum %g at %g after %d evaluations, %v", name, value, at, count, err)
			}
		}
	}
	count := 0
	broken := errors.New("broken")
	if _, _, err := brent(-1, 0, 1, 1, 0, 1, 1e-3, 3, func(u float64) (float64, error) {
		count++
		return 1,
			nil
	}); err != nil || count != 3 {
		t.Errorf("%d evaluations, expected the 3 allowed; %v", count, err)
	}
	if _, _, err := brent(-1, 0, 1, 1, 0, 1, 1e-3, 3, func(u float64) (float64, error) {
		return 0,
			broken
	}); err != broken {
		t.Errorf("error %v", err)
	}
}
