package prox

import (
	"math"

	"surepipe/array"
)

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
	checkEval("weighted elastic net", p.Dim(), dst, v, t)
	dev := dst.Device()
	f := p.shrinkage(t)
	defer f.Free()
	dev.Soft(dst, v, p.w, t)
	dev.Mul(dst, dst, f)
	return nil
}

func (p *weightedElasticNet) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	checkLinearize("weighted elastic net", p.Dim(), dst, v, t)
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
	checkValue("weighted elastic net", p.Dim(), b)
	s := 0.0
	for j, x := range onHost(b) {
		s += times(p.wHost[j], math.Abs(x)) + times(p.qHost[j]/2, x*x)
	}
	return s
}
