package prox

import (
	"math"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

// nonNegative is the indicator of the nonnegative orthant.
type nonNegative struct{ known }

// NonNegative returns the constraint b >= 0: r(b) = 0 there and +Inf elsewhere, on vectors of any
// length, with
//
//	prox_{t r}(v) = max(v, 0),    J = diag(1 where v_j > 0, else 0).
func NonNegative() Prox {
	p := new(nonNegative)
	p.structure = Structure{
		Value: p.value, Sparse: p.sparse, Closure: itself, On: p.on, Units: anyUnits, Rescale: p.rescale,
		Support: p.support,
	}
	return p
}

func (*nonNegative) Dim() int { return 0 }

// bounds returns the vectors 0 and +Inf.
func (*nonNegative) bounds(v array.Batch) (lo, hi array.Batch) {
	dev := v.Device()
	lo, hi = dev.Alloc(1, v.N()), dev.Alloc(1, v.N())
	dev.Fill(lo, 0)
	dev.Fill(hi, math.Inf(1))
	return lo, hi
}

func (p *nonNegative) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("nonnegative", 0, dst, v, t)
	lo, hi := p.bounds(v)
	dst.Device().Clamp(dst, v, lo, hi)
	lo.Free()
	hi.Free()
	return nil
}

func (p *nonNegative) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("nonnegative", 0, dst, v, t)
	dev := v.Device()
	lo, hi := p.bounds(v)
	mask := dev.Alloc(1, v.N())
	dev.ClampMask(mask, v, lo, hi)
	dev.Clamp(dst, v, lo, hi)
	lo.Free()
	hi.Free()
	return &diagonal{d: mask, t: t, kink: func(_ int, v float64) float64 {
		return clampKink(v, 0, math.Inf(1))
	}}, nil
}

func (p *nonNegative) value(b array.Batch) float64 {
	vector.CheckValue("nonnegative", 0, b)
	for _, x := range vector.OnHost(b) {
		if !(x >= 0) {
			return math.Inf(1)
		}
	}
	return 0
}
