package prox

import (
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// bounded is an elastic net where lo <= b <= hi, +Inf elsewhere.
type bounded struct {
	*elasticNet
	lo, hi coefficients
	Known
}

// NewCoordinates returns r(b) = sum_j w_j |b_j| + q_j/2 b_j^2 for lo_j <= b_j <= hi_j, +Inf elsewhere, on vectors of
// length len(w), with
//
//	prox_{t r}(v)_j = min(max(sign(v_j) max(|v_j| - t w_j, 0) / (1 + t q_j), lo_j), hi_j),
//	J = diag(1/(1 + t q_j) where that is neither 0, unless w_j = 0, nor a bound, else 0).
//
// Nil lo and hi stand for no bounds. Weights may be 0 or +Inf; lo_j <= 0 <= hi_j, perhaps infinite. The numbers are
// copied to dev, where they stay until [Release]. Other numbers, and slices of different lengths, are errors.
func NewCoordinates(dev array.Device, w, q, lo, hi []float64) (Prox, error) {
	n := len(w)
	if n == 0 || len(q) != n || lo != nil && len(lo) != n || hi != nil && len(hi) != n {
		return nil, fmt.Errorf("prox: coordinates: %d and %d weights, %d and %d bounds, want equal numbers", n, len(q),
			len(lo), len(hi))
	}
	within := false
	for j := range w {
		if !(w[j] >= 0) || !(q[j] >= 0) {
			return nil, fmt.Errorf("prox: coordinates: weights %v and %v of entry %d, want >= 0", w[j], q[j], j)
		}
		if lo != nil && !(lo[j] <= 0) || hi != nil && !(hi[j] >= 0) {
			return nil, fmt.Errorf("prox: coordinates: the bounds of entry %d do not enclose 0", j)
		}
		within = within || lo != nil && !math.IsInf(lo[j], 0) || hi != nil && !math.IsInf(hi[j], 0)
	}
	if !within {
		return newElasticNet("coordinates", dev, listed(dev, slices.Clone(w)), listed(dev, slices.Clone(q)))
	}
	at := func(v []float64, sign int) coefficients {
		if v == nil {
			return listed(dev, slices.Repeat([]float64{math.Inf(sign)}, n))
		}
		return listed(dev, slices.Clone(v))
	}
	return newBounded(dev, listed(dev, slices.Clone(w)), listed(dev, slices.Clone(q)), at(lo, -1), at(hi, 1))
}

func newBounded(dev array.Device, w, q, lo, hi coefficients) (Prox, error) {
	p := &bounded{elasticNet: &elasticNet{name: "coordinates", w: w, q: q}, lo: lo, hi: hi}
	p.Is = Structure{Value: p.value, Free: p.free, Closure: itself, On: p.on, Units: anyUnits, Rescale: p.rescale,
		DualScale: p.dualScale, FenchelGap: p.fenchelGap, Release: p.Release}
	if positive, ok := p.positive(); ok {
		p.Is.Sparse = func(n int) ([]float64, []float64, []bool) { return w.over(n), q.over(n), positive }
	}
	if err := dev.Err(); err != nil {
		p.Release()
		return nil, fmt.Errorf("prox: coordinates: %w", err)
	}
	return p, nil
}

// positive are the coordinates with the bounds 0 and +Inf; ok is false where others have bounds.
func (p *bounded) positive() (all []bool, ok bool) {
	for j, lo := range p.lo.list {
		if !math.IsInf(p.hi.at(j), 1) || lo != 0 && !math.IsInf(lo, -1) {
			return nil, false
		}
		all = append(all, lo == 0)
	}
	return all, true
}

func (p *bounded) Release() {
	p.elasticNet.Release()
	array.Free(p.lo.on, p.hi.on)
}

func (p *bounded) Eval(dst, v array.Batch, t float64) error {
	err := p.elasticNet.Eval(dst, v, t)
	dst.Device().Clamp(dst, dst, p.lo.on, p.hi.on)
	return err
}

func (p *bounded) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	j := p.linearize(dst, v, t)
	j.kink = func(j int, v float64) float64 {
		w, grow, lo, hi := t*p.w.at(j), 1+t*p.q.at(j), p.lo.at(j), p.hi.at(j)
		least := math.Inf(1)
		for _, side := range []struct{ sign, bound, other float64 }{{1, hi, lo}, {-1, -lo, -hi}} {
			if side.bound > 0 && (w > 0 || side.other == 0) {
				least = min(least, math.Abs(side.sign*v-w))
			}
			if side.bound > 0 && !math.IsInf(side.bound, 1) {
				least = min(least, math.Abs(side.sign*v-side.bound*grow-w))
			}
		}
		return least
	}
	dev := v.Device()
	inside := dev.Alloc(1, v.N())
	defer inside.Free()
	dev.ClampMask(inside, dst, p.lo.on, p.hi.on)
	dev.Mul(j.d, j.d, inside)
	dev.Clamp(dst, dst, p.lo.on, p.hi.on)
	return j, nil
}

func (p *bounded) value(b array.Batch) float64 {
	sum := p.elasticNet.value(b)
	for j, x := range vector.OnHost(b) {
		if !(p.lo.at(j) <= x && x <= p.hi.at(j)) {
			return math.Inf(1)
		}
	}
	return sum
}

func (p *bounded) free(n int) []int {
	return where(n, func(j int) bool {
		return p.w.at(j) == 0 && p.q.at(j) == 0 && math.IsInf(p.lo.at(j), -1) && math.IsInf(p.hi.at(j), 1)
	})
}

func (p *bounded) on(dev array.Device, t space.Space) (Prox, error) {
	set, ok := subsetOf(t)
	if !ok {
		return nil, nil
	}
	return newBounded(dev, p.w.pick(dev, set), p.q.pick(dev, set), p.lo.pick(dev, set), p.hi.pick(dev, set))
}

// rescale gives coordinate j the weights w_j s_j and q_j s_j^2, and divides its bounds by s_j.
func (p *bounded) rescale(dev array.Device, s []float64) (Prox, error) {
	over := func(c, s float64) float64 { return c / s }
	return newBounded(dev, p.w.times(dev, s, vector.Times), p.q.times(dev, s, timesSquare), p.lo.times(dev, s, over),
		p.hi.times(dev, s, over))
}

// bound is the one in the direction of g.
func (p *bounded) bound(j int, g float64) float64 {
	if g < 0 {
		return p.lo.at(j)
	}
	return p.hi.at(j)
}

// dualScale is at most w_j/|g_j| where nothing else bounds b_j in the direction of g_j.
func (p *bounded) dualScale(_, g array.Batch, _ float64) float64 {
	t := 1.0
	for j, h := range vector.OnHost(g) {
		if p.q.at(j) == 0 && math.IsInf(p.bound(j, h), 0) {
			t = min(t, vector.Ratio(p.w.at(j), math.Abs(h)))
		}
	}
	return t
}

// fenchelGap is sum_j r_j(b_j) + r_j*(u_j) - b_j u_j with u = t g; the conjugate is attained at the coordinate's prox.
func (p *bounded) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	sum := 0.0
	x := vector.OnHost(b)
	for j, h := range vector.OnHost(g) {
		u, w, q := t*h, p.w.at(j), p.q.at(j)
		of := func(c float64) float64 {
			return vector.Times(u, c) - vector.Times(w, math.Abs(c)) - vector.Times(q/2, c*c)
		}
		top := 0.0
		if excess := math.Abs(u) - w; excess > 0 && !math.IsInf(q, 1) {
			if top = p.bound(j, u); q > 0 {
				top = min(max(math.Copysign(excess/q, u), p.lo.at(j)), p.hi.at(j))
			} else if math.IsInf(top, 0) { // dualScale has left rounding errors alone
				top = 0
			}
		}
		sum += math.Max(of(top)-of(x[j]), 0)
	}
	return sum
}
