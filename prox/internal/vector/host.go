package vector

import (
	"fmt"
	"math"

	"surepipe/array"
)

// hostLimit is the largest entry that operators which sum entries on the host accept: sums of as
// many entries as fit in memory stay finite.
const hostLimit = 1e290

// CheckDim panics unless n is the length of vectors, 0 for any.
func CheckDim(what string, n int) {
	if n < 0 {
		panic(fmt.Sprintf("prox: %s on vectors of length %d, want >= 0", what, n))
	}
}

// OnEach sets dst_i to the image of v_i under f, which works in the host's memory: for every vector
// x holds v_i when f is called, and dst_i when it returns.
func OnEach(op string, dst, v array.Batch, x []float64, f func()) error {
	dev := v.Device()
	for i := range v.K() {
		dev.Download(x, v.Rows(i, i+1))
		if err := dev.Err(); err != nil {
			return fmt.Errorf("prox: %s: %w", op, err)
		}
		for j, a := range x {
			if !(math.Abs(a) <= hostLimit) {
				return fmt.Errorf("prox: %s: entry %d of vector %d is %v, want a number of size at most %v", op, j, i,
					a, hostLimit)
			}
		}
		f()
		dev.Upload(dst.Rows(i, i+1), x)
	}
	return nil
}
