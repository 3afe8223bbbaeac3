package pipeline

import (
	"slices"
	"testing"

	"surepipe/array"
)

// A solution is kept with and without its zeros, and starts a solve as it was.
func TestHeldSolutions(t *testing.T) {
	dev := array.NewHost()
	for _, b := range [][]float64{{0, 0, 0, 0}, {0, 0, -2, 0}, {1, 0, 3, 4}, {1, 2, 3, 4}} {
		on := dev.Put(slices.Clone(b), 1, len(b))
		h := writtenOf(on)
		dev.Fill(on, 7) // what is held is a copy
		again := h.on(dev)
		if got := again.ToHost(); !slices.Equal(h.list(), b) || !slices.Equal(got, b) || h.none() {
			t.Errorf("%v comes back as %v and %v", b, h.list(), got)
		}
		if !(held{}).none() {
			t.Error("nothing is a solution")
		}
		array.Free(on, again)
	}
}
