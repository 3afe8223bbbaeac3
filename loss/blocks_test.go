package loss

import (
	"math"
	"testing"
)

// Blocks of observations have what each has alone: also where means round to 0 or 1, where the dual point is the slope,
// near it and far from it, and outside of the conjugate's domain.
func TestBlocksAreTheirObservations(t *testing.T) {
	for _, f := range []Function{logistic{}, poisson{}} {
		var u, off, z, y []float64
		for _, at := range []float64{-800, -30, -2, -1e-9, 0, 0.7, 12, 40} {
			for _, of := range []float64{0, 0.25, 1} {
				for _, share := range []float64{1, 1 - 1e-9, 1 - 1e-5, 0.99, 0.5, 0, -2} {
					slope := f.Slope(at, of)
					u, off = append(u, share*slope), append(off, share*slope-slope)
					z, y = append(z, at), append(y, of)
				}
			}
		}
		blocks, alone := blocksOf(f), oneByOne{f}
		got, want := make([]float64, len(z)), make([]float64, len(z))
		check := func(what string) {
			t.Helper()
			for i := range got {
				if !(math.Abs(got[i]-want[i]) <= 1e-14*(1+math.Abs(want[i])) || got[i] == want[i]) {
					t.Errorf("%s, %s at z = %g, y = %g, u = %g: %g, expected %g", f.Name(), what, z[i], y[i], u[i],
						got[i], want[i])
				}
			}
		}
		blocks.gaps(got, u, off, z, y)
		alone.gaps(want, u, off, z, y)
		check("gap")
		alone.means(want, z)
		blocks.means(got, z)
		check("mean")
		copy(got, z)
		blocks.means(got, got)
		check("mean in place")
	}
}
