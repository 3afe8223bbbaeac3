package prox

import (
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// elasticNet is r(b) = sum_j w_j |b_j| + q_j/2 b_j^2: the l1 norm, also weighted, the elastic net, and
// these and the ridge penalty in other units.
type elasticNet struct {
	name string
	w, q coefficients
	Known
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
	p := &elasticNet{name: "l1", w: uniform(lambda)}
	p.know()
	p.Is.L1, p.Is.Balls = Number{lambda, true}, balls(lambda, 1, 1)
	return p
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
	for j, x := range w {
		if !(x >= 0) {
			return nil, fmt.Errorf("prox: weighted l1: weight %d is %v, want >= 0", j, x)
		}
	}
	return newElasticNet("weighted l1", dev, listed(dev, product(lambda, w)), coefficients{})
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
	p := &elasticNet{name: "elastic net", w: uniform(lambda), q: uniform(lambda2)}
	p.know()
	return p
}

func newElasticNet(name string, dev array.Device, w, q coefficients) (Prox, error) {
	p := &elasticNet{name: name, w: w, q: q}
	p.know()
	if err := dev.Err(); err != nil {
		p.Release()
		return nil, fmt.Errorf("prox: %s: %w", name, err)
	}
	return p, nil
}

func (p *elasticNet) know() {
	p.Is = Structure{
		Value: p.value, Free: p.free, Sparse: p.sparse, Closure: itself, On: p.on, Units: anyUnits, Rescale: p.rescale,
		DualScale: p.dualScale, FenchelGap: p.fenchelGap,
	}
	if p.w.list != nil || p.q.list != nil {
		p.Is.Release = p.Release
	}
}

func (p *elasticNet) Dim() int { return max(len(p.w.list), len(p.q.list)) }

func (p *elasticNet) Release() {
	array.Free(p.w.on, p.q.on)
}

func (p *elasticNet) shrink(b array.Batch, t float64) {
	dev := b.Device()
	if p.q.list == nil {
		if p.q.one > 0 {
			dev.Lin(b, 1/(1+t*p.q.one), b, 0, array.Batch{})
		}
		return
	}
	f := lists.Map(p.q.list, func(q float64) float64 { return 1 / (1 + t*q) })
	factors := dev.Alloc(1, len(f))
	defer factors.Free()
	dev.Upload(factors, f)
	dev.Mul(b, b, factors)
}

func (p *elasticNet) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval(p.name, p.Dim(), dst, v, t)
	dst.Device().Soft(dst, v, p.w.on, t*p.w.one)
	p.shrink(dst, t)
	return nil
}

func (p *elasticNet) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	return p.linearize(dst, v, t), nil
}

func (p *elasticNet) linearize(dst, v array.Batch, t float64) *diagonal {
	vector.CheckLinearize(p.name, p.Dim(), dst, v, t)
	dev := v.Device()
	j := newDiagonal(dev.Alloc(1, v.N()), t)
	j.kink = func(j int, v float64) float64 { return softKink(v, t*p.w.at(j)) }
	dev.SoftMask(j.d, v, p.w.on, t*p.w.one)
	dev.Soft(dst, v, p.w.on, t*p.w.one)
	p.shrink(j.d, t)
	p.shrink(dst, t)
	if p.q.list != nil || p.q.one > 0 {
		j.curvature = p.q.at
	}
	return j
}

func (p *elasticNet) value(b array.Batch) float64 {
	vector.CheckValue(p.name, p.Dim(), b)
	s := 0.0
	for j, x := range vector.OnHost(b) {
		s += vector.Times(p.w.at(j), math.Abs(x)) + vector.Times(p.q.at(j)/2, x*x)
	}
	return s
}

func (p *elasticNet) free(n int) []int {
	return where(n, func(j int) bool { return p.w.at(j) == 0 && p.q.at(j) == 0 })
}

func (p *elasticNet) sparse(n int) (w, q []float64, positive []bool) {
	return p.w.over(n), p.q.over(n), nil
}

// itself is the Closure of a regularizer that is a sum over coordinates.
func itself(s []int) []int { return s }

func (p *elasticNet) on(dev array.Device, t space.Space) (Prox, error) {
	set, ok := subsetOf(t)
	switch {
	case !ok:
		return nil, nil
	case p.Dim() == 0:
		return p, nil
	}
	return newElasticNet(p.name, dev, p.w.pick(dev, set), p.q.pick(dev, set))
}

// anyUnits is the Units of a regularizer that can be rescaled to any units.
func anyUnits([]float64) {}

// rescale gives coordinate j the weights w_j s_j and q_j s_j^2.
func (p *elasticNet) rescale(dev array.Device, s []float64) (Prox, error) {
	return newElasticNet(p.name, dev, p.w.times(dev, s, vector.Times), p.q.times(dev, s, timesSquare))
}

// timesSquare is q s^2.
func timesSquare(q, s float64) float64 { return vector.Times(vector.Times(q, s), s) }

func (p *elasticNet) ridge() bool {
	return p.w.zero() && (p.q.list == nil && p.q.one > 0 || p.q.list != nil && slices.Min(p.q.list) > 0)
}

func (p *elasticNet) plain() bool { return p.w.list == nil && p.q.list == nil && p.q.one == 0 }

// dualScale is that of the l1 norm: the elastic net is a LASSO with sqrt(q) I below A and zeros below y,
// so that its z is (z, -sqrt(q) b) and its g is g - q b.
func (p *elasticNet) dualScale(b, g array.Batch, _ float64) float64 {
	if p.plain() {
		return vector.Ratio(p.w.one, largestOf(g))
	}
	if p.ridge() {
		return 1
	}
	t := 1.0
	x, h := vector.OnHost(b), vector.OnHost(g)
	for j := range x {
		if q := p.q.at(j); !math.IsInf(q, 1) { // else b is held at 0
			t = min(t, vector.Ratio(p.w.at(j), math.Abs(h[j]-vector.Times(q, x[j]))))
		}
	}
	return t
}

// fenchelGap is sum_j (1-t)^2/2 q_j b_j^2 + w_j |b_j| - t b_j (g_j - q_j b_j).
func (p *elasticNet) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	if p.plain() && elsewhere(b) && !math.IsInf(p.w.one, 1) {
		return p.gapOnDevice(b, g, t)
	}
	if p.ridge() {
		return ridgeGap(b, g, t, &p.q)
	}
	sum := 0.0
	x, h := vector.OnHost(b), vector.OnHost(g)
	for j := range x {
		q := p.q.at(j)
		if math.IsInf(q, 1) {
			continue
		}
		qx := vector.Times(q, x[j])
		sum += (1-t)*(1-t)/2*qx*x[j] + vector.Surplus(vector.Times(p.w.at(j), math.Abs(x[j])), t*x[j]*(h[j]-qx))
	}
	return sum
}

// gapOnDevice is the fenchelGap of a multiple of the l1 norm.
func (p *elasticNet) gapOnDevice(b, g array.Batch, t float64) float64 {
	dev := b.Device()
	along, absolute, part := dev.Alloc(1, b.N()), dev.Alloc(1, b.N()), dev.Alloc(1, b.N())
	dev.Fill(along, math.Inf(-1))
	dev.Fill(absolute, 0)
	dev.Clamp(part, b, along, absolute)
	dev.Lin(absolute, 1, b, -2, part)
	dev.Mul(along, b, g)
	gap := sumOfSurplus(absolute, along, p.w.one, t)
	array.Free(along, absolute, part)
	return gap
}
