package prox

import (
	"fmt"
	"math"

	"surepipe/array"
)

// scaled is c r.
type scaled struct {
	c float64
	p Prox
}

// NewScaled returns the regularizer c r, where p is r and c > 0:
//
//	prox_{t (c r)}(v) = prox_{(t c) r}(v).
//
// It has a value if p has one, is [Quadratic] if p is, and shares p's memory,
// which makes it the way to vary a penalty whose data lives on a device. It
// panics unless c is positive and finite.
func NewScaled(c float64, p Prox) Prox {
	if !(c > 0) || math.IsInf(c, 1) {
		panic(fmt.Sprintf("prox: a regularizer scaled by %v, want a positive finite number", c))
	}
	if k, ok := curvatureOf(p); ok {
		return squaredL2{times(c, k), p.Dim()}
	}
	q := scaled{c, p}
	r := valueOf(p)
	if r == nil {
		return q
	}
	return valued{q, func(b array.Batch) float64 { return times(c, r(b)) }}
}

func (p scaled) Dim() int { return p.p.Dim() }

func (p scaled) Eval(dst, v array.Batch, t float64) error {
	return p.p.Eval(dst, v, p.c*t)
}

func (p scaled) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	return p.p.Linearize(dst, v, p.c*t)
}
