package prox

import (
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// box is the indicator of lo <= b <= hi.
type box struct {
	name   string
	dim    int
	lo, hi coefficients
	Known
}

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
	p := newBox("box", len(lo), listed(dev, slices.Clone(lo)), listed(dev, slices.Clone(hi)))
	p.Is.Release = p.Release
	if err := dev.Err(); err != nil {
		p.Release()
		return nil, fmt.Errorf("prox: box: %w", err)
	}
	return p, nil
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
	return newBox("linf ball", n, uniform(-c), uniform(c))
}

// NonNegative returns the constraint b >= 0: r(b) = 0 there and +Inf elsewhere, on vectors of any
// length, with
//
//	prox_{t r}(v) = max(v, 0),    J = diag(1 where v_j > 0, else 0).
func NonNegative() Prox {
	p := newBox("nonnegative", 0, uniform(0), uniform(math.Inf(1)))
	p.Is = Structure{
		Value: p.value, Support: p.support, Closure: itself, Units: anyUnits,
		Rescale: func(array.Device, []float64) (Prox, error) { return p, nil }, // the constraint is a cone
		On: func(_ array.Device, t space.Space) (Prox, error) {
			if _, ok := subsetOf(t); !ok {
				return nil, nil
			}
			return p, nil
		},
		Sparse: func(n int) (w, q []float64, positive []bool) { return nil, nil, slices.Repeat([]bool{true}, n) },
	}
	return p
}

func newBox(name string, dim int, lo, hi coefficients) *box {
	p := &box{name: name, dim: dim, lo: lo, hi: hi}
	p.Is = Structure{
		Value: p.value, Units: anyUnits, Rescale: p.rescale, DualScale: p.dualScale,
		FenchelGap: p.fenchelGap, Support: p.support,
	}
	return p
}

func (p *box) Dim() int { return p.dim }

func (p *box) Release() {
	array.Free(p.lo.on, p.hi.on)
}

func (p *box) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval(p.name, p.dim, dst, v, t)
	dev := dst.Device()
	lo, hi := p.lo.vector(dev, v.N()), p.hi.vector(dev, v.N())
	dev.Clamp(dst, v, lo, hi)
	p.lo.done(lo)
	p.hi.done(hi)
	return nil
}

func (p *box) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize(p.name, p.dim, dst, v, t)
	dev := v.Device()
	lo, hi := p.lo.vector(dev, v.N()), p.hi.vector(dev, v.N())
	mask := dev.Alloc(1, v.N())
	dev.ClampMask(mask, v, lo, hi)
	dev.Clamp(dst, v, lo, hi)
	p.lo.done(lo)
	p.hi.done(hi)
	j := newDiagonal(mask, t)
	j.kink = func(j int, v float64) float64 { return clampKink(v, p.lo.at(j), p.hi.at(j)) }
	return j, nil
}

func (p *box) value(b array.Batch) float64 {
	vector.CheckValue(p.name, p.dim, b)
	for j, x := range vector.OnHost(b) {
		if !(p.lo.at(j) <= x && x <= p.hi.at(j)) {
			return math.Inf(1)
		}
	}
	return 0
}

func (p *box) rescale(dev array.Device, s []float64) (Prox, error) {
	lo, hi := make([]float64, len(s)), make([]float64, len(s))
	for j, v := range s {
		lo[j], hi[j] = p.lo.at(j)/v, p.hi.at(j)/v
	}
	return NewBox(dev, lo, hi)
}

// dualScale is 1 unless g points in a direction in which the box is unbounded.
func (p *box) dualScale(_, g array.Batch, _ float64) float64 {
	for j, h := range vector.OnHost(g) {
		if h > 0 && math.IsInf(p.hi.at(j), 1) || h < 0 && math.IsInf(p.lo.at(j), -1) {
			return 0
		}
	}
	return 1
}

// fenchelGap is sum_j max(t (hi_j - b_j) g_j, t (lo_j - b_j) g_j).
func (p *box) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	sum := 0.0
	x := vector.OnHost(b)
	for j, h := range vector.OnHost(g) {
		switch {
		case h > 0:
			sum += math.Max((p.hi.at(j)-x[j])*h, 0)
		case h < 0:
			sum += math.Max((p.lo.at(j)-x[j])*h, 0)
		}
	}
	return t * sum
}

// support is sum_j max(lo_j g_j, hi_j g_j), after g has moved to 0 where that is infinite.
func (p *box) support(g array.Batch) float64 {
	return vector.Supported(g, func(g []float64) float64 {
		sum := 0.0
		for j := range g {
			bound := p.hi.at(j)
			if g[j] < 0 {
				bound = p.lo.at(j)
			}
			if math.IsInf(bound, 0) {
				g[j] = 0
			}
			sum += vector.Times(g[j], bound)
		}
		return sum
	})
}
