package engine_test

import (
	"math"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/solve"
)

// Norms do not vanish with their squares.
func TestNormOfTinyVectors(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		x := dev.Alloc(1, 2)
		defer x.Free()
		for _, s := range []float64{1, 1e-120, 1e-150, 1e-170, 1e-305, 0} {
			dev.Upload(x, []float64{3 * s, -4 * s})
			if got := solve.Norm(x); !(math.Abs(got-5*s) <= 1e-14*5*s) {
				t.Errorf("the norm of {3, -4} %g is %g", s, got)
			}
		}
	})
}
