package prox

import (
	"math"
	"slices"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

func (p *l1) dualScale(_, g array.Batch, _ float64) float64 {
	var most [1]float64
	g.Device().MaxAbs(most[:], g)
	return vector.Ratio(p.lambda, most[0])
}

// fenchelGap is sum_j lambda |b_j| - t b_j g_j.
func (p *l1) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	if elsewhere(b) && !math.IsInf(p.lambda, 1) {
		return p.gapOnDevice(b, g, t)
	}
	sum := 0.0
	x, h := vector.OnHost(b), vector.OnHost(g)
	for j := range x {
		sum += vector.Surplus(vector.Times(p.lambda, math.Abs(x[j])), t*x[j]*h[j])
	}
	return sum
}

func (p *weightedL1) dualScale(_, g array.Batch, _ float64) float64 {
	t := 1.0
	for j, h := range vector.OnHost(g) {
		t = min(t, vector.Ratio(p.wHost[j], math.Abs(h)))
	}
	return t
}

// fenchelGap is sum_j w_j |b_j| - t b_j g_j.
func (p *weightedL1) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	sum := 0.0
	x, h := vector.OnHost(b), vector.OnHost(g)
	for j := range x {
		sum += vector.Surplus(vector.Times(p.wHost[j], math.Abs(x[j])), t*x[j]*h[j])
	}
	return sum
}

// weights are those of the elastic net in the units of its coordinates.
func (p *elasticNet) weights(int) (w, q float64) { return p.lambda, p.lambda2 }

func (p *weightedElasticNet) weights(j int) (w, q float64) { return p.wHost[j], p.qHost[j] }

func (p *squaredL2) weights(int) (w, q float64) { return 0, p.lambda }

// elasticScale and elasticGap are those of the l1 norm: the elastic net is a LASSO with sqrt(q) I
// below A and zeros below y, so that its z is (z, -sqrt(q) b) and its g is g - q b.
func elasticScale(b, g array.Batch, weights func(int) (w, q float64)) float64 {
	t := 1.0
	x, h := vector.OnHost(b), vector.OnHost(g)
	for j := range x {
		w, q := weights(j)
		if math.IsInf(q, 1) {
			continue // b is held at 0
		}
		t = min(t, vector.Ratio(w, math.Abs(h[j]-vector.Times(q, x[j]))))
	}
	return t
}

func elasticGap(b, g array.Batch, t float64, weights func(int) (w, q float64)) float64 {
	sum := 0.0
	x, h := vector.OnHost(b), vector.OnHost(g)
	for j := range x {
		w, q := weights(j)
		if math.IsInf(q, 1) {
			continue
		}
		qx := vector.Times(q, x[j])
		sum += (1-t)*(1-t)/2*qx*x[j] + vector.Surplus(vector.Times(w, math.Abs(x[j])), t*x[j]*(h[j]-qx))
	}
	return sum
}

func (p *elasticNet) dualScale(b, g array.Batch, _ float64) float64 {
	return elasticScale(b, g, p.weights)
}

func (p *elasticNet) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	return elasticGap(b, g, t, p.weights)
}

func (p *weightedElasticNet) dualScale(b, g array.Batch, _ float64) float64 {
	if slices.Max(p.wHost) == 0 {
		return 1
	}
	return elasticScale(b, g, p.weights)
}

func (p *weightedElasticNet) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	if slices.Max(p.wHost) == 0 {
		return ridgeGap(b, g, t, p.weights)
	}
	return elasticGap(b, g, t, p.weights)
}

// dualScale is 1 where there is curvature or g is 0, else 0.
func (p *squaredL2) dualScale(_, g array.Batch, _ float64) float64 {
	if p.lambda == 0 && vector.Largest(vector.OnHost(g)) > 0 {
		return 0
	}
	return 1
}

// fenchelGap is sum_j (q b_j - t g_j)^2 / (2 q).
func (p *squaredL2) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	return ridgeGap(b, g, t, p.weights)
}

func ridgeGap(b, g array.Batch, t float64, weights func(int) (w, q float64)) float64 {
	sum := 0.0
	x, h := vector.OnHost(b), vector.OnHost(g)
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
	x, h := vector.OnHost(b), vector.OnHost(g)
	bs, gs := make([][]float64, p.n), make([][]float64, p.n)
	for j, o := range p.owner {
		bs[o], gs[o] = append(bs[o], x[j]), append(gs[o], h[j])
	}
	for o, w := range p.wHost {
		f(w, bs[o], gs[o])
	}
}

func (p *groups) scaleBy(b, g array.Batch, dual func([]float64) float64) float64 {
	t := 1.0
	p.byGroup(b, g, func(w float64, _, g []float64) { t = min(t, vector.Ratio(w, dual(g))) })
	return t
}

func (p *groups) gapBy(b, g array.Batch, t float64, norm func([]float64) float64) float64 {
	sum := 0.0
	p.byGroup(b, g, func(w float64, b, g []float64) {
		sum += vector.Surplus(vector.Times(w, norm(b)),
			t*vector.Inner(b, g))
	})
	return sum
}

func (p *groupL2) dualScale(b, g array.Batch, _ float64) float64 {
	return p.scaleBy(b, g, vector.Euclid)
}

func (p *groupL2) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	return p.gapBy(b, g, t, vector.Euclid)
}

func (p *groupLinf) dualScale(b, g array.Batch, _ float64) float64 {
	return p.scaleBy(b, g, vector.Total)
}

func (p *groupLinf) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	return p.gapBy(b, g, t, vector.Largest)
}

func (p *l2) dualScale(_, g array.Batch, _ float64) float64 {
	return vector.Ratio(p.lambda, vector.Euclid(vector.OnHost(g)))
}

func (p *l2) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	x := vector.OnHost(b)
	return vector.Surplus(vector.Times(p.lambda, vector.Euclid(x)), t*vector.Inner(x, vector.OnHost(g)))
}

// dualScale compares the partial sums of |g| in decreasing order with those of lambda.

// dualScale is 1 unless g points in a direction in which the box is unbounded.
func (p *box) dualScale(_, g array.Batch, _ float64) float64 {
	for j, h := range vector.OnHost(g) {
		if h > 0 && math.IsInf(p.hiHost[j], 1) || h < 0 && math.IsInf(p.loHost[j], -1) {
			return 0
		}
	}
	return 1
}

// fenchelGap is sum_j max(t (hi_j - b_j) g_j, t (lo_j - b_j) g_j).
func (p *box) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	return boxGap(vector.OnHost(b), vector.OnHost(g), t, func(j int) (lo, hi float64) {
		return p.loHost[j],
			p.hiHost[j]
	})
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

func (p *linfBall) dualScale(_, g array.Batch, _ float64) float64 {
	if math.IsInf(p.c, 1) {
		return 0
	}
	return 1
}

func (p *linfBall) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	return boxGap(vector.OnHost(b), vector.OnHost(g), t, func(int) (lo, hi float64) { return -p.c, p.c })
}
