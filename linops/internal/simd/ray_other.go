//go:build !amd64

package simd

// Gather returns the sum over the lines of (1 - part) times the pixel before the place and part times
// the one after it, in eight sums: see sumsOf.
func Gather(plane []float64, r Ray) float64 {
	var sums [8]float64
	if r.From < r.To {
		r.check(plane, 1)
		r.gather(&sums, plane, r.From)
	}
	return total(&sums)
}

// Spread adds (1 - part) value to the pixel before the place, and part value to the one after it.
func Spread(plane []float64, r Ray, value float64) {
	if r.From < r.To {
		r.check(plane, 1)
		r.spread(plane, value, r.From)
	}
}

// GatherLanes adds what the ray meets to the sums of several vectors, line after line.
func GatherLanes(sums *[Lanes]float64, plane []float64, r Ray) {
	if r.From < r.To {
		r.check(plane, Lanes)
		r.gatherLanes(sums, plane)
	}
}

// SpreadLanes is Spread of several vectors.
func SpreadLanes(values *[Lanes]float64, plane []float64, r Ray) {
	if r.From < r.To {
		r.check(plane, Lanes)
		r.spreadLanes(values, plane)
	}
}
