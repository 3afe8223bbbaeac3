package prox

import (
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

// NewBox returns the constraint lo <= b <= hi, entry by entry: r(b) = 0 there and +Inf elsewhere,
// on vectors of length len(lo), with
//
//	prox_{t r}(v) = min(max(v, lo), hi),    J = diag(1 where lo_j < v_j < hi_j, else 0).
//
// A bound may be infinite; lo_j = hi_j fixes the entry. The bounds are copied to dev, where they
// stay until [Release]. A NaN, an empty box (lo_j > hi_j, lo_j = +Inf, hi_j = -Inf) and slices of
// different lengths are errors.
func NewBox(dev array.Device, lo, hi []float64) (Prox, error) {
	if len(lo) != len(hi) || len(lo) == 0 {
		return nil, fmt.Errorf("prox: box: %d lower and %d upper bounds, want equal numbers and at least one",
			len(lo), len(hi))
	}
	for j := range lo {
		if !(lo[j] <= hi[j]) || math.IsInf(lo[j], 1) || math.IsInf(hi[j], -1) {
			return nil, fmt.Errorf("prox: box: entry %d has bounds [%v, %v], want a nonempty interval", j, lo[j], hi[j])
		}
	}
	p := &coordinates{name: "box", dim: len(lo), lo: listed(dev, slices.Clone(lo)), hi: listed(dev, slices.Clone(hi)),
		box: true}
	return p.put(dev)
}

// NewLinfBall returns the constraint ||b||_inf <= c: r(b) = 0 there and +Inf elsewhere, on vectors
// of length n, or of any length if n = 0, with
//
//	prox_{t r}(v)_j = min(max(v_j, -c), c),    J = diag(1 where |v_j| < c, else 0).
//
// It is [NewBox] with the bounds -c and c, without data on a device, and the conjugate of c
// ||b||_1. c = 0 gives zero and c = +Inf the identity. It panics if n or c is negative or c is NaN.
func NewLinfBall(n int, c float64) Prox {
	vector.CheckDim("the linf ball", n)
	vector.CheckRadius("the linf ball", c)
	return (&coordinates{name: "linf ball", dim: n, lo: uniform(-c), hi: uniform(c), box: true}).know()
}

// NonNegative returns the constraint b >= 0: r(b) = 0 there and +Inf elsewhere, on vectors of any
// length, with
//
//	prox_{t r}(v) = max(v, 0),    J = diag(1 where v_j > 0, else 0).
func NonNegative() Prox {
	p := (&coordinates{name: "nonnegative", lo: uniform(0), hi: highest}).know()
	p.Is.DualScale, p.Is.FenchelGap = nil, nil // the conjugate is +Inf where any g_j is positive, be it by rounding
	return p
}
