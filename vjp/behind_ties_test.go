package vjp_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/vjp"
)

// Anisotropic total variation of an image with equal values is not differentiable there: its number of flat regions
// jumps by more than the error bar of SURE. The range of traces contains that of images nearby, at each tolerance. Of an
// image without equal values no range is given at the default tolerance.
func TestEqualPixelsLeaveARangeOfTraces(t *testing.T) {
	const side, d = 48, 48 * 48
	rng := rand.New(rand.NewPCG(5, 34))
	smooth, rounded := make([]float64, d), make([]float64, d)
	for i := range smooth {
		smooth[i] = math.Sin(float64(i%side)/20) + math.Floor(float64(i/side)/20) + 0.1*rng.NormFloat64()
		rounded[i] = math.Round(8*smooth[i]) / 8
	}
	dev := array.NewHost()
	traces := func(y []float64, weight, tol float64) (low, trace, high float64) {
		p := vjp.Problem{Device: dev, A: linops.Identity(d), K: imaging.NewGradient([]int{side, side}, nil,
			imaging.Reflecting), R: prox.NewL1(weight)}
		s, err := vjp.NewSolver(t.Context(), solve.Default(p), p, vjp.Options{Tol: tol})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		on := dev.Put(y, 1, d)
		defer on.Free()
		sol, err := s.Solve(t.Context(), on)
		if err != nil {
			t.Fatal(err)
		}
		defer sol.Release()
		known := sol.Linearization.Closed()
		return known.Low, known.Trace, known.High
	}
	bar := math.Sqrt(2 * d)
	for _, weight := range []float64{0.02, 0.1} {
		if low, trace, high := traces(smooth, weight, 1e-6); low != high {
			t.Errorf("weight %g: trace %g, in doubt from %g to %g", weight, trace, low, high)
		}
		near := make([]float64, d)
		for i, v := range rounded {
			near[i] = v + 1e-5*rng.NormFloat64()
		}
		_, want, _ := traces(near, weight, 1e-10)
		for _, tol := range []float64{1e-4, 1e-6} {
			low, trace, high := traces(rounded, weight, tol)
			if !(low <= want && want <= high) || !(low <= trace && trace <= high) || 2*(high-low) < bar/10 {
				t.Errorf("weight %g, tolerance %g: trace %g from %g to %g, of an image nearby %g", weight, tol, trace, low,
					high, want)
			}
		}
	}
}
