package cones

import (
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
)

// NewSimplex returns the constraint b >= 0, sum_j b_j = s: r(b) = 0 there and +Inf elsewhere, on
// vectors of length n, or of any length if n = 0. The proximal operator is the projection: with
// theta such that the entries sum to s and the support A = {j : v_j > theta},
//
//	prox_{t r}(v)_j = max(v_j - theta, 0),
//	(J z)_j = z_j - sum_{k in A} z_k/|A|   where j in A, else 0.
//
// theta is found on the host (Held, Wolfe, Crowder 1974; Michelot 1986), in linear time as a rule
// and in the time of a sort at worst, with a rounding error relative to s and not to the size of v.
// J is applied on the device. It is an orthogonal projection of trace |A| - 1. v_j = theta counts
// as outside A.
//
// Value allows the sum a relative error of 1e-9. A NaN or an entry beyond 1e290 in size in the
// argument is an error. NewSimplex panics if n is negative or s is not positive and finite.
func NewSimplex(n int, s float64) prox.Prox {
	vector.CheckDim("the simplex", n)
	if !(s > 0) || math.IsInf(s, 1) {
		panic(fmt.Sprintf("prox: a simplex whose entries sum to %v, want a positive finite number", s))
	}
	p := &bounded{name: "simplex", n: n, size: s, unit: slices.Max[[]float64]}
	p.inside = func(b array.Batch) bool {
		sum := 0.0
		for _, x := range b.Read() {
			if !(x >= 0) {
				return false
			}
			sum += x
		}
		return math.Abs(sum-s) <= onTheSet*s
	}
	p.project = func(w *vector.BallWork) (outside bool) {
		if len(w.X) == 0 {
			return true
		}
		top := slices.Max(w.X)
		for j, a := range w.X {
			w.U[j] = a - top
		}
		theta := vector.WaterLevel(w.U, s)
		for j, a := range w.X {
			w.X[j] = max(a-top-theta, 0)
		}
		return true
	}
	p.margin = func(v array.Batch) float64 { return vector.SimplexMargin(v.Read(), s) }
	p.know()
	// t sum_j b_j (max g - g_j), without cancellation
	p.Is.FenchelGap = func(b, g array.Batch, t, _ float64) float64 {
		h := g.Read()
		top, sum := slices.Max(h), 0.0
		for j, x := range b.Read() {
			sum += x * (top - h[j])
		}
		return t * sum
	}
	return p
}
