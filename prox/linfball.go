package prox

import (
	"math"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

// linfBall is the indicator of ||b||_inf <= c.
type linfBall struct {
	n int
	c float64
	known
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
	p := &linfBall{n: n, c: c}
	p.structure = Structure{
		Value: p.value, Units: anyUnits, Rescale: p.rescale, DualScale: p.dualScale,
		FenchelGap: p.fenchelGap, Support: p.support,
	}
	return p
}

func (p *linfBall) Dim() int { return p.n }

// bounds returns the vectors -c and c.
func (p *linfBall) bounds(v array.Batch) (lo, hi array.Batch) {
	dev := v.Device()
	lo, hi = dev.Alloc(1, v.N()), dev.Alloc(1, v.N())
	dev.Fill(lo, -p.c)
	dev.Fill(hi, p.c)
	return lo, hi
}

func (p *linfBall) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("linf ball", p.n, dst, v, t)
	lo, hi := p.bounds(v)
	dst.Device().Clamp(dst, v, lo, hi)
	lo.Free()
	hi.Free()
	return nil
}

func (p *linfBall) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("linf ball", p.n, dst, v, t)
	dev := v.Device()
	lo, hi := p.bounds(v)
	mask := dev.Alloc(1, v.N())
	dev.ClampMask(mask, v, lo, hi)
	dev.Clamp(dst, v, lo, hi)
	lo.Free()
	hi.Free()
	return &diagonal{d: mask, t: t, kink: func(_ int, v float64) float64 {
		return clampKink(v, -p.c, p.c)
	}}, nil
}

func (p *linfBall) value(b array.Batch) float64 {
	vector.CheckValue("linf ball", p.n, b)
	for _, x := range vector.OnHost(b) {
		if !(math.Abs(x) <= p.c) {
			return math.Inf(1)
		}
	}
	return 0
}
