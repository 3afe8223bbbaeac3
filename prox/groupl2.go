package prox

import (
	"math"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

// groupL2 is r(b) = sum_g w_g ||b_g||_2.
type groupL2 struct{ *groups }

// NewGroupL2 returns the group LASSO penalty
//
//	r(b) = lambda sum_g w_g ||b_g||_2
//
// on vectors of length p, where b_g are the entries of b that groups[g] lists. The groups are
// disjoint; entries that are in none are not penalized. w has one weight a group, nil for ones; the
// customary square root of the group's size must be given by the caller. With s_g = max(1 - t
// lambda w_g/||v_g||, 0),
//
//	prox_{t r}(v)_g = s_g v_g,
//	(J z)_g = s_g z_g + t lambda w_g/||v_g||^3 v_g <v_g, z_g>   where s_g > 0, else 0.
//
// A group of weight 0 is not penalized, for any lambda; one of weight +Inf is held at 0, unless
// lambda = 0. The groups are copied to dev, where they stay until [Release]. An empty group, an
// entry out of range or in two groups, and a negative or NaN weight are errors. It panics if lambda
// is negative or NaN. Norms are taken by squaring: values beyond 1e150 overflow.
func NewGroupL2(dev array.Device, p int, lambda float64, groups [][]int, w []float64) (Prox, error) {
	g, err := newGroups("group l2", dev, p, lambda, groups, w)
	if err != nil {
		return nil, err
	}
	g.norm, g.dual, g.make = vector.Euclid, vector.Euclid, NewGroupL2
	q := &groupL2{g}
	q.Is.Value = q.value
	q.Is.Groups = func() (owner []int, w []float64) { return g.owner, g.wHost }
	return q, nil
}

// factors returns the squared norms of v's groups and their shrinkage factors spread over the
// entries.
func (p *groupL2) factors(v array.Batch, t float64) (q, s array.Batch) {
	dev := v.Device()
	s = dev.Alloc(v.K(), p.p)
	q = dev.Alloc(v.K(), p.n)
	f := dev.Alloc(v.K(), p.n)
	dev.Mul(s, v, v)
	dev.MulCSR(q, p.member, s)
	dev.Shrink(f, q, p.w, t)
	dev.MulCSR(s, p.spread, f)
	f.Free()
	return q, s
}

func (p *groupL2) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("group l2", p.p, dst, v, t)
	q, s := p.factors(v, t)
	dst.Device().Mul(dst, s, v)
	q.Free()
	s.Free()
	return nil
}

func (p *groupL2) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("group l2", p.p, dst, v, t)
	dev := v.Device()
	q, s := p.factors(v, t)
	dev.ShrinkSlope(q, q, p.w, t)
	keep := dev.Alloc(1, p.p)
	dev.Copy(keep, v)
	dev.Mul(dst, s, v)
	return &groupL2Derivative{groups: p.groups, t: t, shrinkage: s, u: keep, c: q}, nil
}

func (p *groupL2) value(b array.Batch) float64 {
	vector.CheckValue("group l2", p.p, b)
	dev := b.Device()
	sq, q := dev.Alloc(1, p.p), dev.Alloc(1, p.n)
	dev.Mul(sq, b, b)
	dev.MulCSR(q, p.member, sq)
	sum := 0.0
	for g, x := range vector.OnHost(q) {
		sum += vector.Times(p.wHost[g], math.Sqrt(x))
	}
	sq.Free()
	q.Free()
	return sum
}
