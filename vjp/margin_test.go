package vjp

import (
	"math"
	"testing"

	"surepipe/array"
	"surepipe/prox"
)

// A solution on the boundary of its tangent space has the smallest margin there is, and one of
// which nothing is known has none.
func TestTheBoundaryHasAMargin(t *testing.T) {
	at := func(margin float64) *prox.Model {
		return &prox.Model{Margin: func(array.Batch) float64 { return margin }}
	}
	for _, c := range []struct {
		model     *prox.Model
		off, want float64
	}{
		{nil, 1, 0}, {&prox.Model{}, 1, 0}, {at(3), 0, math.Inf(1)}, {at(3), 2, 1.5},
		{at(0), 2, math.SmallestNonzeroFloat64}, {at(math.Inf(1)), 2, math.Inf(1)},
	} {
		l := &linearization{}
		if l.spaced(c.model, array.Batch{}, c.off); l.known.SpaceMargin != c.want {
			t.Errorf("margin %g at an error of %g, expected %g", l.known.SpaceMargin, c.off, c.want)
		}
	}
}
