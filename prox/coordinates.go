package prox

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// coordinates is r(b) = sum_j w_j |b_j| + q_j/2 b_j^2 for lo_j <= b_j <= hi_j, +Inf elsewhere: the l1 norm, the ridge
// penalty and the elastic net, also weighted, and the constraints of a box.
type coordinates struct {
	name         string
	dim          int // 0 for any length
	w, q, lo, hi coefficients
	bounded      bool // by some lo or hi
	box          bool // the solutions rest at the bounds: nothing is said of coordinates at 0
	Known
}

func (p *coordinates) know() *coordinates {
	p.bounded = !p.lo.infinite() || !p.hi.infinite()
	p.Is = Structure{Value: p.value, Units: anyUnits, Rescale: p.rescale, DualScale: p.dualScale,
		FenchelGap: p.fenchelGap}
	if p.w.List != nil || p.q.List != nil || p.lo.List != nil || p.hi.List != nil {
		p.Is.Release = p.Release
	}
	if p.bounded {
		p.Is.Support = p.support
	}
	if !p.box {
		p.Is.Free, p.Is.Closure, p.Is.On = p.free, itself, p.on
	}
	if !p.box && p.halfLines() {
		p.Is.Sparse = p.sparse
	}
	return p
}

// put is know for coefficients on a device, on which there may have been no memory for them.
func (p *coordinates) put(dev array.Device) (Prox, error) {
	p.know()
	if err := dev.Err(); err != nil {
		p.Release()
		return nil, fmt.Errorf("prox: %s: %w", p.name, err)
	}
	return p, nil
}

func (p *coordinates) Dim() int { return p.dim }

func (p *coordinates) Release() {
	array.Free(p.w.on, p.q.on, p.lo.on, p.hi.on)
}

// shrink sets dst to the prox of v without the bounds, and returns it, or returns v where that is the same.
func (p *coordinates) shrink(dst, v array.Batch, t float64) array.Batch {
	if !p.w.none() {
		dst.Device().Soft(dst, v, p.w.on, t*p.w.One)
		v = dst
	}
	if !p.q.none() {
		p.divide(dst, v, t)
		v = dst
	}
	return v
}

// divide sets dst_j = v_j/(1 + t q_j).
func (p *coordinates) divide(dst, v array.Batch, t float64) {
	dev := dst.Device()
	if p.q.List == nil {
		dev.Lin(dst, 1/(1+t*p.q.One), v, 0, array.Batch{})
		return
	}
	f := lists.Map(p.q.List, func(q float64) float64 { return 1 / (1 + t*q) })
	factors := dev.Alloc(1, len(f))
	defer factors.Free()
	dev.Upload(factors, f)
	dev.Mul(dst, v, factors)
}

// clamp sets dst to v within the bounds, and inside, unless that is the zero Batch, to 1 where v is between them and
// else to 0.
func (p *coordinates) clamp(dst, v, inside array.Batch) {
	dev := dst.Device()
	if !p.bounded {
		if dst != v {
			dev.Copy(dst, v)
		}
		return
	}
	lo, hi := p.lo.vector(dev, v.N()), p.hi.vector(dev, v.N())
	if !inside.IsZero() {
		dev.ClampMask(inside, v, lo, hi)
	}
	dev.Clamp(dst, v, lo, hi)
	p.lo.done(lo)
	p.hi.done(hi)
}

func (p *coordinates) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval(p.name, p.dim, dst, v, t)
	p.clamp(dst, p.shrink(dst, v, t), array.Batch{})
	return nil
}

func (p *coordinates) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize(p.name, p.dim, dst, v, t)
	dev := v.Device()
	if c := p.Is.Quadratic; c.Known {
		j := newMultiple(1/(1+t*c.Value), v, nil)
		j.q, j.t = c.Value, t
		p.clamp(dst, p.shrink(dst, v, t), array.Batch{})
		return j, nil
	}
	j := newDiagonal(dev.Alloc(1, v.N()), t)
	j.kink = func(j int, v float64) float64 { return p.kink(j, v, t) }
	if p.w.none() {
		dev.Fill(j.d, 1)
	} else {
		dev.SoftMask(j.d, v, p.w.on, t*p.w.One)
	}
	if !p.q.none() {
		p.divide(j.d, j.d, t)
		j.curvature = p.q.At
	}
	inside := dev.Alloc(1, v.N())
	defer inside.Free()
	if p.clamp(dst, p.shrink(dst, v, t), inside); p.bounded {
		dev.Mul(j.d, j.d, inside)
	}
	return j, nil
}

// kink is the distance of v to the points at which the prox of coordinate j starts or ends to be constant: the two ends
// of what it maps to 0, and of what it maps into the bounds.
func (p *coordinates) kink(j int, v, t float64) float64 {
	w, grow, lo, hi := t*p.w.At(j), 1+t*p.q.At(j), p.lo.At(j), p.hi.At(j)
	least := math.Inf(1)
	if lo == hi {
		return least
	}
	if w > 0 && lo < 0 && hi > 0 {
		least = math.Abs(math.Abs(v) - w)
	}
	if !math.IsInf(lo, -1) {
		end := lo*grow - w
		if lo >= 0 {
			end = lo*grow + w
		}
		least = min(least, math.Abs(v-end))
	}
	if !math.IsInf(hi, 1) {
		end := hi*grow + w
		if hi <= 0 {
			end = hi*grow - w
		}
		least = min(least, math.Abs(v-end))
	}
	return least
}

func (p *coordinates) value(b array.Batch) float64 {
	vector.CheckValue(p.name, p.dim, b)
	sum := 0.0
	for j, x := range b.Read() {
		if p.bounded && !(p.lo.At(j) <= x && x <= p.hi.At(j)) {
			return math.Inf(1)
		}
		sum += vector.Times(p.w.At(j), math.Abs(x)) + vector.Times(p.q.At(j)/2, x*x)
	}
	return sum
}

func (p *coordinates) free(n int) []int {
	return where(n, func(j int) bool {
		return p.w.At(j) == 0 && p.q.At(j) == 0 && math.IsInf(p.lo.At(j), -1) && math.IsInf(p.hi.At(j), 1)
	})
}

// halfLines reports that every coordinate has the bounds 0 and +Inf, or none.
func (p *coordinates) halfLines() bool {
	for j := range max(p.dim, 1) {
		if lo := p.lo.At(j); !math.IsInf(p.hi.At(j), 1) || lo != 0 && !math.IsInf(lo, -1) {
			return false
		}
	}
	return true
}

func (p *coordinates) sparse(n int) (w, q Numbers, positive []bool) {
	if p.bounded {
		positive = lists.Make(n, func(j int) bool { return p.lo.At(j) == 0 })
	}
	return p.w.Numbers, p.q.Numbers, positive
}

// itself is the Closure of a regularizer that is a sum over coordinates.
func itself(s []int) []int { return s }

func (p *coordinates) on(dev array.Device, t space.Space) (Prox, error) {
	set, ok := subsetOf(t)
	switch {
	case !ok:
		return nil, nil
	case p.dim == 0:
		return p, nil
	case p.Is.Quadratic.Known:
		return newSquaredL2(p.q.One, len(set)), nil
	}
	some := &coordinates{name: p.name, dim: len(set), w: p.w.pick(dev, set), q: p.q.pick(dev, set),
		lo: p.lo.pick(dev, set), hi: p.hi.pick(dev, set), box: p.box}
	return some.put(dev)
}

// anyUnits is the Units of a regularizer that can be rescaled to any units.
func anyUnits([]float64) {}

// rescale gives coordinate j the weights w_j s_j and q_j s_j^2, and divides its bounds by s_j.
func (p *coordinates) rescale(dev array.Device, s []float64) (Prox, error) {
	over := func(c, s float64) float64 { return c / s }
	r := &coordinates{name: p.name, dim: len(s), w: p.w.times(dev, s, vector.Times),
		q:  p.q.times(dev, s, func(q, s float64) float64 { return vector.Times(vector.Times(q, s), s) }),
		lo: p.lo.times(dev, s, over), hi: p.hi.times(dev, s, over), box: p.box}
	if r.w.List == nil && r.q.List == nil && r.lo.List == nil && r.hi.List == nil {
		return p, nil // it is the same in all units
	}
	return r.put(dev)
}

// plain reports a multiple of the l1 norm.
func (p *coordinates) plain() bool { return p.w.List == nil && p.q.none() && !p.bounded }

// bound is the one in the direction of g.
func (p *coordinates) bound(j int, g float64) float64 {
	if g < 0 {
		return p.lo.At(j)
	}
	return p.hi.At(j)
}

// dualScale takes the terms q_j/2 b_j^2 with w_j > 0 for rows of the data, sqrt(q) I below A and zeros below y, so that
// z is (z, -sqrt(q) b) and g is g - q b: then t |g_j| is at most w_j, unless a bound holds b_j in the direction of g_j.
func (p *coordinates) dualScale(b, g array.Batch, _ float64) float64 {
	if p.plain() {
		return vector.Ratio(p.w.One, g.MaxAbs())
	}
	t := 1.0
	x, h := b.Read(), g.Read()
	for j := range x {
		w, q := p.w.At(j), p.q.At(j)
		if math.IsInf(q, 1) || w == 0 && q > 0 {
			continue
		}
		if u := h[j] - vector.Times(q, x[j]); math.IsInf(p.bound(j, u), 0) {
			t = min(t, vector.Ratio(w, math.Abs(u)))
		}
	}
	return t
}

// fenchelGap adds up, with the c_j at which the conjugate is attained,
//
//	(1-t)^2/2 q_j b_j^2 + w_j (|b_j| - |c_j|) - t (b_j - c_j) (g_j - q_j b_j)    where w_j > 0 or q_j = 0,
//	q_j/2 (b_j - c_j)^2 + (b_j - c_j) (q_j c_j - t g_j)                          elsewhere.
func (p *coordinates) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	if p.plain() && elsewhere(b) && !math.IsInf(p.w.One, 1) {
		return p.gapOnDevice(b, g, t)
	}
	x, h := b.Read(), g.Read()
	return floats.Sum(parallel.Shares(len(x), func(lo, hi int) float64 { return p.gapOf(x, h, t, lo, hi) }))
}

// gapOf is the sum over the coordinates lo to hi-1.
func (p *coordinates) gapOf(x, h []float64, t float64, lo, hi int) (sum float64) {
	for j := lo; j < hi; j++ {
		switch w, q := p.w.At(j), p.q.At(j); {
		case math.IsInf(q, 1): // b_j is held at 0
		case w == 0 && q > 0:
			sum += p.quadraticGap(j, x[j], t*h[j])
		default:
			qx := vector.Times(q, x[j])
			u, c := t*(h[j]-qx), 0.0
			if p.bounded && math.Abs(u) > w {
				if c = p.bound(j, u); math.IsInf(c, 0) { // dualScale has left rounding errors alone
					c = 0
				}
			}
			sum += (1-t)*(1-t)/2*qx*x[j] + vector.Surplus(vector.Times(w, math.Abs(x[j])-math.Abs(c)), u*(x[j]-c))
		}
	}
	return sum
}

// quadraticGap is that of q_j/2 b_j^2 alone, at x and u = t g_j.
func (p *coordinates) quadraticGap(j int, x, u float64) float64 {
	q := p.q.At(j)
	c := min(max(u/q, p.lo.At(j)), p.hi.At(j))
	if e := q*x - u; c == u/q {
		return e / q * e / 2
	}
	return q/2*(x-c)*(x-c) + math.Max((x-c)*(q*c-u), 0)
}

// gapOnDevice is the fenchelGap of a multiple of the l1 norm.
func (p *coordinates) gapOnDevice(b, g array.Batch, t float64) float64 {
	dev := b.Device()
	along, absolute, part := dev.Alloc(1, b.N()), dev.Alloc(1, b.N()), dev.Alloc(1, b.N())
	dev.Fill(along, math.Inf(-1))
	dev.Fill(absolute, 0)
	dev.Clamp(part, b, along, absolute)
	dev.Lin(absolute, 1, b, -2, part)
	dev.Mul(along, b, g)
	gap := sumOfSurplus(absolute, along, p.w.One, t)
	array.Free(along, absolute, part)
	return gap
}

// support is sum_j max(lo_j g_j, hi_j g_j), after g has moved to 0 where that is infinite.
func (p *coordinates) support(g array.Batch) float64 {
	return vector.Supported(g, func(g []float64) float64 {
		sum := 0.0
		for j := range g {
			bound := p.bound(j, g[j])
			if math.IsInf(bound, 0) {
				g[j] = 0
			}
			sum += vector.Times(g[j], bound)
		}
		return sum
	})
}
