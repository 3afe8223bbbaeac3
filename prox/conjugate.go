package prox

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
)

// Conjugate is a Prox that knows enough of its convex conjugate r*(g) = sup_b <b, g> - r(b)
// for a duality gap. With z = y - A b and g = A* z the point t z is feasible in the dual of
//
//	min_b  1/2 ||A b - y||^2 + r(b)
//
// for every t that DualScale allows, and the objective at b exceeds its minimum by at most
//
//	gap = 1/2 (1 - t)^2 ||z||^2 + r(b) + r*(t g) - t <b, g>.
//
// The squared loss is strongly convex in A b: ||A b - A b_hat||^2 <= 2 gap at every solution
// b_hat (Ndiaye, Fercoq, Gramfort, Salmon, JMLR 18, 2017).
type Conjugate interface {
	Prox
	// DualScale returns the largest t in [0, 1] at which r*(t g) is known to be finite; b and
	// g are batches of one vector. near is a bound of the distance from g to r's
	// subdifferential at b, +Inf where none is known.
	DualScale(b, g array.Batch, near float64) float64
	// FenchelGap returns r(b) + r*(t g) - t <b, g>, or an upper bound of it, for t between
	// 0 and DualScale.
	FenchelGap(b, g array.Batch, t, near float64) float64
}

// AsConjugate returns p, or what p wraps, as a Conjugate, if it is one.
func AsConjugate(p Prox) (Conjugate, bool) {
	switch p := p.(type) {
	case Conjugate:
		return p, true
	case valued:
		return AsConjugate(p.Prox)
	case owned:
		return AsConjugate(p.Prox)
	case Block:
		return AsConjugate(p.Prox)
	case scaled:
		if r, ok := AsConjugate(p.p); ok {
			return scaledConjugate{p, r}, true
		}
	}
	return nil, false
}

// scaledConjugate is c r: (c r)*(g) = c r*(g/c).
type scaledConjugate struct {
	scaled
	r Conjugate
}

func (p scaledConjugate) over(g array.Batch) array.Batch {
	dev := g.Device()
	t := dev.Alloc(1, g.N())
	dev.Lin(t, 1/p.c, g, 0, array.Batch{})
	return t
}

func (p scaledConjugate) DualScale(b, g array.Batch, near float64) float64 {
	h := p.over(g)
	defer h.Free()
	return p.r.DualScale(b, h, near/p.c)
}

func (p scaledConjugate) FenchelGap(b, g array.Batch, t, near float64) float64 {
	h := p.over(g)
	defer h.Free()
	return p.c * p.r.FenchelGap(b, h, t, near/p.c)
}

// ratio is min(1, w/g) for w, g >= 0: the share of g that a dual norm of w allows.
func ratio(w, g float64) float64 {
	if g <= w {
		return 1
	}
	return w / g
}

// surplus is a - c, a term of a sum of terms that are at least 0 but for rounding.
func surplus(a, c float64) float64 {
	if math.IsInf(a, 1) {
		return 0 // b is held at 0 there
	}
	return math.Max(a-c, 0)
}

func (p l1) DualScale(_, g array.Batch, _ float64) float64 {
	var most [1]float64
	g.Device().MaxAbs(most[:], g)
	return ratio(p.lambda, most[0])
}

// FenchelGap is sum_j lambda |b_j| - t b_j g_j.
func (p l1) FenchelGap(b, g array.Batch, t, _ float64) float64 {
	sum := 0.0
	x, h := onHost(b), onHost(g)
	for j := range x {
		sum += surplus(times(p.lambda, math.Abs(x[j])), t*x[j]*h[j])
	}
	return sum
}

func (p *weightedL1) DualScale(_, g array.Batch, _ float64) float64 {
	t := 1.0
	for j, h := range onHost(g) {
		t = min(t, ratio(p.wHost[j], math.Abs(h)))
	}
	return t
}

// FenchelGap is sum_j w_j |b_j| - t b_j g_j.
func (p *weightedL1) FenchelGap(b, g array.Batch, t, _ float64) float64 {
	sum := 0.0
	x, h := onHost(b), onHost(g)
	for j := range x {
		sum += surplus(times(p.wHost[j], math.Abs(x[j])), t*x[j]*h[j])
	}
	return sum
}

// weights are those of the elastic net in its own units.
func (p elasticNet) weights(int) (w, q float64) { return p.lambda, p.lambda2 }

func (p *weightedElasticNet) weights(j int) (w, q float64) { return p.wHost[j], p.qHost[j] }

func (p squaredL2) weights(int) (w, q float64) { return 0, p.lambda }

// elasticScale and elasticGap are those of the l1 norm, for the elastic net is a LASSO whose
// y has zeros and whose A has sqrt(q) I below: its z is (z, -sqrt(q) b) and its g is g - q b.
func elasticScale(b, g array.Batch, weights func(int) (w, q float64)) float64 {
	t := 1.0
	x, h := onHost(b), onHost(g)
	for j := range x {
		w, q := weights(j)
		if math.IsInf(q, 1) {
			continue // b is held at 0
		}
		t = min(t, ratio(w, math.Abs(h[j]-times(q, x[j]))))
	}
	return t
}

func elasticGap(b, g array.Batch, t float64, weights func(int) (w, q float64)) float64 {
	sum := 0.0
	x, h := onHost(b), onHost(g)
	for j := range x {
		w, q := weights(j)
		if math.IsInf(q, 1) {
			continue
		}
		qx := times(q, x[j])
		sum += (1-t)*(1-t)/2*qx*x[j] + surplus(times(w, math.Abs(x[j])), t*x[j]*(h[j]-qx))
	}
	return sum
}

func (p elasticNet) DualScale(b, g array.Batch, _ float64) float64 {
	return elasticScale(b, g, p.weights)
}

func (p elasticNet) FenchelGap(b, g array.Batch, t, _ float64) float64 {
	return elasticGap(b, g, t, p.weights)
}

func (p *weightedElasticNet) DualScale(b, g array.Batch, _ float64) float64 {
	if slices.Max(p.wHost) == 0 {
		return 1
	}
	return elasticScale(b, g, p.weights)
}

func (p *weightedElasticNet) FenchelGap(b, g array.Batch, t, _ float64) float64 {
	if slices.Max(p.wHost) == 0 {
		return ridgeGap(b, g, t, p.weights)
	}
	return elasticGap(b, g, t, p.weights)
}

// DualScale is 1 where there is curvature, or else where g is 0.
func (p squaredL2) DualScale(_, g array.Batch, _ float64) float64 {
	if p.lambda == 0 && largest(onHost(g)) > 0 {
		return 0
	}
	return 1
}

// FenchelGap is sum_j (q b_j - t g_j)^2 / (2 q).
func (p squaredL2) FenchelGap(b, g array.Batch, t, _ float64) float64 {
	return ridgeGap(b, g, t, p.weights)
}

func ridgeGap(b, g array.Batch, t float64, weights func(int) (w, q float64)) float64 {
	sum := 0.0
	x, h := onHost(b), onHost(g)
	for j := range x {
		_, q := weights(j)
		if q == 0 && h[j] == 0 || math.IsInf(q, 1) {
			continue
		}
		e := q*x[j] - t*h[j]
		sum += e / q * e / 2
	}
	return sum
}

// byGroup calls f with b's and g's entries in every group.
func (p *groups) byGroup(b, g array.Batch, f func(w float64, b, g []float64)) {
	x, h := onHost(b), onHost(g)
	bs, gs := make([][]float64, p.n), make([][]float64, p.n)
	for j, o := range p.owner {
		bs[o], gs[o] = append(bs[o], x[j]), append(gs[o], h[j])
	}
	for o, w := range p.wHost {
		f(w, bs[o], gs[o])
	}
}

func (p *groups) dualScale(b, g array.Batch, dual func([]float64) float64) float64 {
	t := 1.0
	p.byGroup(b, g, func(w float64, _, g []float64) { t = min(t, ratio(w, dual(g))) })
	return t
}

func (p *groups) fenchelGap(b, g array.Batch, t float64, norm func([]float64) float64) float64 {
	sum := 0.0
	p.byGroup(b, g, func(w float64, b, g []float64) { sum += surplus(times(w, norm(b)), t*inner(b, g)) })
	return sum
}

func inner(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// largest is the maximum norm and total the l1 norm.
func largest(x []float64) float64 {
	most := 0.0
	for _, v := range x {
		most = max(most, math.Abs(v)) // NaN where there is one
	}
	return most
}

func total(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Abs(v)
	}
	return sum
}

func euclid(x []float64) float64 {
	norm := 0.0
	for _, v := range x {
		norm = math.Hypot(norm, v)
	}
	return norm
}

func (p *groupL2) DualScale(b, g array.Batch, _ float64) float64 { return p.dualScale(b, g, euclid) }

func (p *groupL2) FenchelGap(b, g array.Batch, t, _ float64) float64 {
	return p.fenchelGap(b, g, t, euclid)
}

func (p *groupLinf) DualScale(b, g array.Batch, _ float64) float64 { return p.dualScale(b, g, total) }

func (p *groupLinf) FenchelGap(b, g array.Batch, t, _ float64) float64 {
	return p.fenchelGap(b, g, t, largest)
}

func (p l2) DualScale(_, g array.Batch, _ float64) float64 {
	return ratio(p.lambda, euclid(onHost(g)))
}

func (p l2) FenchelGap(b, g array.Batch, t, _ float64) float64 {
	x := onHost(b)
	return surplus(times(p.lambda, euclid(x)), t*inner(x, onHost(g)))
}

// DualScale compares the partial sums of |g| in decreasing order with those of lambda.
func (p *sortedL1) DualScale(_, g array.Batch, _ float64) float64 {
	size := slices.Clone(onHost(g))
	for j, v := range size {
		size[j] = math.Abs(v)
	}
	slices.SortFunc(size, func(a, b float64) int {
		switch {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
	t, sum, allowed := 1.0, 0.0, 0.0
	for i, v := range size {
		sum += v
		allowed += p.lambda[i]
		t = min(t, ratio(allowed, sum))
	}
	return t
}

func (p *sortedL1) FenchelGap(b, g array.Batch, t, _ float64) float64 {
	return surplus(p.Value(b), t*inner(onHost(b), onHost(g)))
}

// DualScale is 1 unless g points where the box has no end.
func (p *box) DualScale(_, g array.Batch, _ float64) float64 {
	for j, h := range onHost(g) {
		if h > 0 && math.IsInf(p.hiHost[j], 1) || h < 0 && math.IsInf(p.loHost[j], -1) {
			return 0
		}
	}
	return 1
}

// FenchelGap is sum_j max(t (hi_j - b_j) g_j, t (lo_j - b_j) g_j).
func (p *box) FenchelGap(b, g array.Batch, t, _ float64) float64 {
	return boxGap(onHost(b), onHost(g), t, func(j int) (lo, hi float64) { return p.loHost[j], p.hiHost[j] })
}

func boxGap(b, g []float64, t float64, bounds func(j int) (lo, hi float64)) float64 {
	sum := 0.0
	for j, h := range g {
		switch lo, hi := bounds(j); {
		case h > 0:
			sum += math.Max((hi-b[j])*h, 0)
		case h < 0:
			sum += math.Max((lo-b[j])*h, 0)
		}
	}
	return t * sum
}

func (p linfBall) DualScale(_, g array.Batch, _ float64) float64 {
	if math.IsInf(p.c, 1) {
		return 0
	}
	return 1
}

func (p linfBall) FenchelGap(b, g array.Batch, t, _ float64) float64 {
	return boxGap(onHost(b), onHost(g), t, func(int) (lo, hi float64) { return -p.c, p.c })
}

func (p *simplex) DualScale(_, _ array.Batch, _ float64) float64 { return 1 }

// FenchelGap is t sum_j b_j (max g - g_j).
func (p *simplex) FenchelGap(b, g array.Batch, t, _ float64) float64 {
	h := onHost(g)
	top, sum := slices.Max(h), 0.0
	for j, x := range onHost(b) {
		sum += x * (top - h[j])
	}
	return t * sum
}

func (p *l1Ball) DualScale(_, _ array.Batch, _ float64) float64 {
	if math.IsInf(p.s, 1) {
		return 0
	}
	return 1
}

// FenchelGap is t (s ||g||_inf - <b, g>).
func (p *l1Ball) FenchelGap(b, g array.Batch, t, _ float64) float64 {
	h := onHost(g)
	return t * surplus(p.s*largest(h), inner(onHost(b), h))
}

// decomposedSide is the smaller side up to which the spectral norm of g is computed for a gap.
const decomposedSide = 48

// values are the singular values of a batch of one matrix; nil where it is large or not finite.
func (p *nuclear) values(x array.Batch) []float64 {
	m, n := p.shape.Rows, p.shape.Cols
	if min(m, n) > decomposedSide {
		return nil
	}
	a := slices.Clone(onHost(x))
	if most := largest(a); math.IsNaN(most) || math.IsInf(most, 1) || x.Device().Err() != nil {
		return nil
	}
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(m, n, a), mat.SVDNone) {
		return nil
	}
	return svd.Values(nil)
}

// DualScale is lambda over g's spectral norm, which exceeds lambda by at most near.
func (p *nuclear) DualScale(_, g array.Batch, near float64) float64 {
	if s := p.values(g); s != nil {
		return ratio(p.lambda, s[0])
	}
	return ratio(p.lambda, p.lambda+near)
}

// FenchelGap is lambda ||b||_* - t <b, g>. Where the matrix is large it uses
// <b, g> >= lambda ||b||_* - near ||b||_F and ||b||_* <= sqrt(min(m, n)) ||b||_F.
func (p *nuclear) FenchelGap(b, g array.Batch, t, near float64) float64 {
	if s := p.values(b); s != nil {
		return surplus(times(p.lambda, total(s)), t*inner(onHost(b), onHost(g)))
	}
	size := math.Sqrt(norm2Squared(b))
	rank := float64(min(p.shape.Rows, p.shape.Cols))
	return (1-t)*times(p.lambda, math.Sqrt(rank)*size) + t*near*size
}

// DualScale is the least of the blocks'.
func (p *separable) DualScale(b, g array.Batch, near float64) float64 {
	t := 1.0
	for i, q := range p.blocks {
		c, ok := AsConjugate(q)
		if !ok {
			return 0
		}
		lo, hi := p.at[i], p.at[i+1]
		t = min(t, c.DualScale(b.Cols(lo, hi), g.Cols(lo, hi), near))
	}
	return t
}

// FenchelGap is the sum of the blocks'.
func (p *separable) FenchelGap(b, g array.Batch, t, near float64) float64 {
	sum := 0.0
	for i, q := range p.blocks {
		c, ok := AsConjugate(q)
		if !ok {
			return math.Inf(1)
		}
		lo, hi := p.at[i], p.at[i+1]
		sum += c.FenchelGap(b.Cols(lo, hi), g.Cols(lo, hi), t, near)
	}
	return sum
}
