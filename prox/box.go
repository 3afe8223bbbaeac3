package prox

import (
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

// box is the indicator of lo <= b <= hi.
type box struct {
	lo, hi         array.Batch
	loHost, hiHost []float64
	known
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
	p := &box{
		lo: dev.Alloc(1, len(lo)), hi: dev.Alloc(1, len(hi)),
		loHost: append([]float64(nil), lo...), hiHost: append([]float64(nil), hi...),
	}
	p.structure = Structure{
		Value: p.value, Units: anyUnits, Rescale: p.rescale, DualScale: p.dualScale,
		FenchelGap: p.fenchelGap, Support: p.support, Release: p.Release,
	}
	dev.Upload(p.lo, lo)
	dev.Upload(p.hi, hi)
	if err := dev.Err(); err != nil {
		p.Release()
		return nil, fmt.Errorf("prox: box: %w", err)
	}
	return p, nil
}

func (p *box) Dim() int { return len(p.loHost) }

func (p *box) Release() {
	p.lo.Free()
	p.hi.Free()
}

func (p *box) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("box", p.Dim(), dst, v, t)
	dst.Device().Clamp(dst, v, p.lo, p.hi)
	return nil
}

func (p *box) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("box", p.Dim(), dst, v, t)
	dev := v.Device()
	mask := dev.Alloc(1, v.N())
	dev.ClampMask(mask, v, p.lo, p.hi)
	dev.Clamp(dst, v, p.lo, p.hi)
	return &diagonal{d: mask, t: t, kink: func(j int, v float64) float64 {
		return clampKink(v, p.loHost[j], p.hiHost[j])
	}}, nil
}

func (p *box) value(b array.Batch) float64 {
	vector.CheckValue("box", p.Dim(), b)
	for j, x := range vector.OnHost(b) {
		if !(p.loHost[j] <= x && x <= p.hiHost[j]) {
			return math.Inf(1)
		}
	}
	return 0
}
