package prox

import "surepipe/array"

// l1 is r(b) = lambda ||b||_1.
type l1 struct {
	lambda float64
	known
}

// NewL1 returns the LASSO penalty r(b) = lambda ||b||_1 on vectors of any length. Its proximal
// operator is the soft threshold
//
//	prox_{t r}(v)_j = sign(v_j) max(|v_j| - t lambda, 0),
//	J = diag(1 where |v_j| > t lambda, else 0).
//
// lambda = 0 gives the identity, lambda = +Inf gives 0. It panics if lambda is negative or NaN.
func NewL1(lambda float64) Prox {
	checkLambda("the l1 penalty's lambda", lambda)
	p := &l1{lambda: lambda}
	p.structure = Structure{
		Value: p.value, L1: Number{lambda, true}, Balls: balls(lambda, 1), Free: p.free, Sparse: p.sparse, Closure: itself, On: p.on, Units: anyUnits, Rescale: p.rescale,
		DualScale: p.dualScale, FenchelGap: p.fenchelGap,
	}
	return p
}

func (p *l1) Dim() int { return 0 }

func (p *l1) Eval(dst, v array.Batch, t float64) error {
	checkEval("l1", 0, dst, v, t)
	dst.Device().Soft(dst, v, array.Batch{}, t*p.lambda)
	return nil
}

func (p *l1) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	checkLinearize("l1", 0, dst, v, t)
	dev := v.Device()
	mask := dev.Alloc(1, v.N())
	dev.SoftMask(mask, v, array.Batch{}, t*p.lambda)
	dev.Soft(dst, v, array.Batch{}, t*p.lambda)
	return &diagonal{d: mask, t: t, kink: func(_ int, v float64) float64 {
		return softKink(v, t*p.lambda)
	}}, nil
}

func (p *l1) value(b array.Batch) float64 {
	checkValue("l1", 0, b)
	return times(p.lambda, norm1(b))
}
