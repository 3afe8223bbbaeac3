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
			search := brent{tol: 5e-4, most: 40}
			at, value, err := search.run([3]float64{-1, 0, 1}, [3]float64{fa, c.f(0), fb}, func(u float64) (float64, error) {
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
	few, ends, values := brent{tol: 1e-3, most: 3}, [3]float64{-1, 0, 1}, [3]float64{1, 0, 1}
	if _, _, err := few.run(ends, values, func(u float64) (float64, error) {
		count++
		return 1,
			nil
	}); err != nil || count != 3 {
		t.Errorf("%d evaluations, expected the 3 allowed; %v", count, err)
	}
	if _, _, err := few.run(ends, values, func(u float64) (float64, error) {
		return 0,
			broken
	}); err != broken {
		t.Errorf("error %v", err)
	}
}

// With the errors of differences known the search ends where it can no longer decide, on smooth values and on rough
// ones.
func TestBrentEndsWhereNothingIsDecided(t *testing.T) {
	const slope = 0.1 // of the error of a difference: the minimum is known to slope/2
	for name, f := range map[string]func(u float64) float64{
		"parabola": func(u float64) float64 { return (u - 0.3) * (u - 0.3) },
		"cosh":     func(u float64) float64 { return 2*math.Cosh(u-0.3) - 2 },
		"rough":    func(u float64) float64 { return (u-0.3)*(u-0.3) + 2e-3*math.Sin(1e6*u) },
	} {
		count := 0
		search := brent{tol: 5e-4, most: 40, error: func(float64, float64) float64 { return slope }}
		at, _, err := search.run([3]float64{-1, 0, 1}, [3]float64{f(-1), f(0), f(1)}, func(u float64) (float64, error) {
			count++
			return f(u), nil
		})
		if left := (at - 0.3) * (at - 0.3); left > slope*math.Abs(at-0.3) || count > 4 || err != nil {
			t.Errorf("%s: %g after %d evaluations, %v", name, at, count, err)
		}
	}
}
