package prox

import (
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

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
	vector.CheckLambda("the l1 penalty's lambda", lambda)
	p := &l1{lambda: lambda}
	p.structure = Structure{
		Value: p.value, L1: Number{lambda, true}, Balls: balls(lambda, 1), Free: p.free, Sparse: p.sparse,
		Closure: itself, On: p.on, Units: anyUnits, Rescale: p.rescale,
		DualScale: p.dualScale, FenchelGap: p.fenchelGap,
	}
	return p
}

func (p *l1) Dim() int { return 0 }

func (p *l1) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("l1", 0, dst, v, t)
	dst.Device().Soft(dst, v, array.Batch{}, t*p.lambda)
	return nil
}

func (p *l1) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("l1", 0, dst, v, t)
	dev := v.Device()
	mask := dev.Alloc(1, v.N())
	dev.SoftMask(mask, v, array.Batch{}, t*p.lambda)
	dev.Soft(dst, v, array.Batch{}, t*p.lambda)
	return &diagonal{d: mask, t: t, kink: func(_ int, v float64) float64 {
		return softKink(v, t*p.lambda)
	}}, nil
}

func (p *l1) value(b array.Batch) float64 {
	vector.CheckValue("l1", 0, b)
	return vector.Times(p.lambda, vector.Norm1(b))
}

// weightedL1 is r(b) = sum_j w_j |b_j|, whose weights include lambda.
type weightedL1 struct {
	w     array.Batch
	wHost []float64
	known
}

// NewWeightedL1 returns r(b) = lambda sum_j w_j |b_j| on vectors of length len(w), with
//
//	prox_{t r}(v)_j = sign(v_j) max(|v_j| - t lambda w_j, 0),
//	J = diag(1 where |v_j| > t lambda w_j or lambda w_j = 0, else 0).
//
// An entry of weight 0 is not penalized, for any lambda; one of weight +Inf is held at 0, unless
// lambda = 0. The weights are copied to dev, where they stay until [Release]. A negative or NaN
// weight is an error. It panics if lambda is negative or NaN.
func NewWeightedL1(dev array.Device, lambda float64, w []float64) (Prox, error) {
	vector.CheckLambda("the weighted l1 penalty's lambda", lambda)
	if len(w) == 0 {
		return nil, fmt.Errorf("prox: weighted l1: no weights")
	}
	scaled := make([]float64, len(w))
	for j, x := range w {
		if !(x >= 0) {
			return nil, fmt.Errorf("prox: weighted l1: weight %d is %v, want >= 0", j, x)
		}
		scaled[j] = vector.Times(lambda, x)
	}
	b := dev.Alloc(1, len(w))
	dev.Upload(b, scaled)
	if err := dev.Err(); err != nil {
		b.Free()
		return nil, fmt.Errorf("prox: weighted l1: %w", err)
	}
	p := &weightedL1{w: b, wHost: scaled}
	p.structure = Structure{
		Value: p.value, Free: p.free, Sparse: p.sparse, Closure: itself, On: p.on, Units: anyUnits, Rescale: p.rescale,
		DualScale: p.dualScale, FenchelGap: p.fenchelGap, Release: p.Release,
	}
	return p, nil
}

func (p *weightedL1) Dim() int { return len(p.wHost) }
func (p *weightedL1) Release() { p.w.Free() }

func (p *weightedL1) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("weighted l1", p.Dim(), dst, v, t)
	dst.Device().Soft(dst, v, p.w, t)
	return nil
}

func (p *weightedL1) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("weighted l1", p.Dim(), dst, v, t)
	dev := v.Device()
	mask := dev.Alloc(1, v.N())
	dev.SoftMask(mask, v, p.w, t)
	dev.Soft(dst, v, p.w, t)
	return &diagonal{d: mask, t: t, kink: func(j int, v float64) float64 {
		return softKink(v, t*p.wHost[j])
	}}, nil
}

func (p *weightedL1) value(b array.Batch) float64 {
	vector.CheckValue("weighted l1", p.Dim(), b)
	s := 0.0
	for j, x := range vector.OnHost(b) {
		s += vector.Times(p.wHost[j], math.Abs(x))
	}
	return s
}
