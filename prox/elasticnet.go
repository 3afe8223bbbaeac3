package prox

import "surepipe/array"

// elasticNet is r(b) = lambda ||b||_1 + lambda2/2 ||b||^2.
type elasticNet struct {
	lambda, lambda2 float64
	known
}

// NewElasticNet returns r(b) = lambda ||b||_1 + lambda2/2 ||b||^2 on vectors of any length, with
//
//	prox_{t r}(v)_j = sign(v_j) max(|v_j| - t lambda, 0) / (1 + t lambda2),
//	J = diag(1/(1 + t lambda2) where |v_j| > t lambda, else 0).
//
// It panics if lambda or lambda2 is negative or NaN.
func NewElasticNet(lambda, lambda2 float64) Prox {
	checkLambda("the elastic net's lambda", lambda)
	checkLambda("the elastic net's lambda2", lambda2)
	p := &elasticNet{lambda: lambda, lambda2: lambda2}
	p.structure = Structure{
		Value: p.value, Free: p.free, Sparse: p.sparse, Closure: itself, On: p.on, Units: anyUnits, Rescale: p.rescale,
		DualScale: p.dualScale, FenchelGap: p.fenchelGap,
	}
	return p
}

func (p *elasticNet) Dim() int { return 0 }

func (p *elasticNet) Eval(dst, v array.Batch, t float64) error {
	checkEval("elastic net", 0, dst, v, t)
	dev := dst.Device()
	dev.Soft(dst, v, array.Batch{}, t*p.lambda)
	dev.Lin(dst, 1/(1+t*p.lambda2), dst, 0, array.Batch{})
	return nil
}

func (p *elasticNet) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	checkLinearize("elastic net", 0, dst, v, t)
	dev := v.Device()
	mask := dev.Alloc(1, v.N())
	dev.SoftMask(mask, v, array.Batch{}, t*p.lambda)
	dev.Lin(mask, 1/(1+t*p.lambda2), mask, 0, array.Batch{})
	if err := p.Eval(dst, v, t); err != nil {
		mask.Free()
		return nil, err
	}
	return &diagonal{
		d: mask, t: t, curvature: func(int) float64 { return p.lambda2 },
		kink: func(_ int, v float64) float64 { return softKink(v, t*p.lambda) },
	}, nil
}

func (p *elasticNet) value(b array.Batch) float64 {
	checkValue("elastic net", 0, b)
	return times(p.lambda, norm1(b)) + times(p.lambda2/2, norm2Squared(b))
}
