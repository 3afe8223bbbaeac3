package prox

import (
	"math"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

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
	vector.CheckLambda("the elastic net's lambda", lambda)
	vector.CheckLambda("the elastic net's lambda2", lambda2)
	p := &elasticNet{lambda: lambda, lambda2: lambda2}
	p.structure = Structure{
		Value: p.value, Free: p.free, Sparse: p.sparse, Closure: itself, On: p.on, Units: anyUnits, Rescale: p.rescale,
		DualScale: p.dualScale, FenchelGap: p.fenchelGap,
	}
	return p
}

func (p *elasticNet) Dim() int { return 0 }

func (p *elasticNet) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("elastic net", 0, dst, v, t)
	dev := dst.Device()
	dev.Soft(dst, v, array.Batch{}, t*p.lambda)
	dev.Lin(dst, 1/(1+t*p.lambda2), dst, 0, array.Batch{})
	return nil
}

func (p *elasticNet) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("elastic net", 0, dst, v, t)
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
	vector.CheckValue("elastic net", 0, b)
	return vector.Times(p.lambda, vector.Norm1(b)) + vector.Times(p.lambda2/2, vector.Norm2Squared(b))
}

// weightedElasticNet is r(b) = sum_j w_j |b_j| + q_j/2 b_j^2: the elastic net, or with w = 0 the
// ridge penalty, in other units.
type weightedElasticNet struct {
	w, q         array.Batch
	wHost, qHost []float64
	known
}

// newWeightedElasticNet copies the weights, all at least 0, to dev.
func newWeightedElasticNet(dev array.Device, w, q []float64) (*weightedElasticNet, error) {
	p := &weightedElasticNet{w: dev.Alloc(1, len(w)), q: dev.Alloc(1, len(w)), wHost: w, qHost: q}
	p.structure = Structure{
		Value: p.value, Free: p.free, Sparse: p.sparse, Closure: itself, On: p.on, Units: anyUnits, Rescale: p.rescale,
		DualScale: p.dualScale, FenchelGap: p.fenchelGap, Release: p.Release,
	}
	dev.Upload(p.w, w)
	dev.Upload(p.q, q)
	if err := dev.Err(); err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

func (p *weightedElasticNet) Dim() int { return len(p.wHost) }

func (p *weightedElasticNet) Release() {
	p.w.Free()
	p.q.Free()
}

// shrinkage is 1/(1 + t q_j).
func (p *weightedElasticNet) shrinkage(t float64) array.Batch {
	f := make([]float64, len(p.qHost))
	for j, q := range p.qHost {
		f[j] = 1 / (1 + t*q)
	}
	dev := p.q.Device()
	b := dev.Alloc(1, len(f))
	dev.Upload(b, f)
	return b
}

func (p *weightedElasticNet) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("weighted elastic net", p.Dim(), dst, v, t)
	dev := dst.Device()
	f := p.shrinkage(t)
	defer f.Free()
	dev.Soft(dst, v, p.w, t)
	dev.Mul(dst, dst, f)
	return nil
}

func (p *weightedElasticNet) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("weighted elastic net", p.Dim(), dst, v, t)
	dev := v.Device()
	f := p.shrinkage(t)
	mask := dev.Alloc(1, v.N())
	dev.SoftMask(mask, v, p.w, t)
	dev.Soft(dst, v, p.w, t)
	dev.Mul(dst, dst, f)
	dev.Mul(f, f, mask)
	mask.Free()
	return &diagonal{
		d: f, t: t, curvature: func(j int) float64 { return p.qHost[j] },
		kink: func(j int, v float64) float64 { return softKink(v, t*p.wHost[j]) },
	}, nil
}

func (p *weightedElasticNet) value(b array.Batch) float64 {
	vector.CheckValue("weighted elastic net", p.Dim(), b)
	s := 0.0
	for j, x := range vector.OnHost(b) {
		s += vector.Times(p.wHost[j], math.Abs(x)) + vector.Times(p.qHost[j]/2, x*x)
	}
	return s
}
