package hutch

import (
	"fmt"

	"surepipe/array"
)

// UnitVectors sets vector i of dst to the unit vector e_{first+i}: rows first
// to first+k-1 of the identity. It panics when there are not so many.
func UnitVectors(dst array.Batch, first int) {
	k := dst.K()
	if first < 0 || first+k > dst.N() {
		panic(fmt.Sprintf("hutch: unit vectors %d to %d in a batch %s", first, first+k-1, dst))
	}
	dev := dst.Device()
	dev.Fill(dst, 0)
	dev.Fill(dst.Cols(first, first+k).Diagonal(), 1)
}
