package prox

import (
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

// groups are disjoint groups of entries with weights, lambda included, on the device and on the
// host. Entries that are in no group form one more group, of weight 0.
type groups struct {
	p      int
	n      int       // how many there are
	member array.CSR // n x p, 1 where the entry is in the group
	spread array.CSR // its transpose
	w      array.Batch
	wHost  []float64
	owner  []int // each entry's group
	known
}

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
	q := &groupL2{g}
	q.structure = Structure{
		Value: q.value, Groups: q.weighted, Free: q.free, Closure: q.closure, On: q.on, Units: q.units,
		Rescale: q.rescale, DualScale: q.dualScale, FenchelGap: q.fenchelGap, Release: q.Release,
	}
	return q, nil
}

// weighted are the groups and their weights.
func (p *groupL2) weighted() (owner []int, w []float64) { return p.owner, p.wHost }

// newGroups checks groups and their weights, as [NewGroupL2] takes them, and copies them to the
// device. name is that of the penalty.
func newGroups(name string, dev array.Device, p int, lambda float64, members [][]int, w []float64) (*groups, error) {
	vector.CheckLambda("the "+name+" penalty's lambda", lambda)
	if p <= 0 {
		return nil, fmt.Errorf("prox: %s: dimension %d, want > 0", name, p)
	}
	if w != nil && len(w) != len(members) {
		return nil, fmt.Errorf("prox: %s: %d weights for %d groups", name, len(w), len(members))
	}
	owner := make([]int, p)
	for j := range owner {
		owner[j] = -1
	}
	indptr := make([]int, 1, len(members)+2)
	indices := make([]int, 0, p)
	weights := make([]float64, 0, len(members)+1)
	for g, group := range members {
		if len(group) == 0 {
			return nil, fmt.Errorf("prox: %s: group %d is empty", name, g)
		}
		for _, j := range group {
			if j < 0 || j >= p {
				return nil, fmt.Errorf("prox: %s: group %d has entry %d, want 0 to %d", name, g, j, p-1)
			}
			if owner[j] >= 0 {
				return nil, fmt.Errorf("prox: %s: entry %d is in group %d and in group %d, want disjoint groups",
					name, j, owner[j], g)
			}
			owner[j] = g
			indices = append(indices, j)
		}
		indptr = append(indptr, len(indices))
		wg := 1.0
		if w != nil {
			wg = w[g]
		}
		if !(wg >= 0) {
			return nil, fmt.Errorf("prox: %s: weight %d is %v, want >= 0", name, g, wg)
		}
		weights = append(weights, vector.Times(lambda, wg))
	}
	if len(indices) < p {
		for j, g := range owner {
			if g < 0 {
				owner[j] = len(members)
				indices = append(indices, j)
			}
		}
		indptr = append(indptr, len(indices))
		weights = append(weights, 0)
	}

	ones := make([]float64, p)
	rows := make([]int, p+1)
	for j := range ones {
		ones[j], rows[j+1] = 1, j+1
	}
	n := len(weights)
	q := &groups{p: p, n: n, wHost: weights, owner: owner}
	q.member = dev.NewCSR(n, p, indptr, indices, ones)
	q.spread = dev.NewCSR(p, n, rows, owner, ones)
	q.w = dev.Alloc(1, n)
	dev.Upload(q.w, weights)
	if err := dev.Err(); err != nil {
		q.Release()
		return nil, fmt.Errorf("prox: %s: %w", name, err)
	}
	return q, nil
}

func (p *groups) Dim() int { return p.p }

// Release frees the groups and weights; derivatives of p must be released before.
func (p *groups) Release() {
	p.member.Free()
	p.spread.Free()
	p.w.Free()
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
	j := &groupL2Derivative{groupDerivative: groupDerivative{groups: p.groups, name: "group l2", diagonal: s, u: keep,
		c: q}, t: t, scale: 1}
	return j, nil
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

// groupDerivative is J z = diagonal ∘ z + u ∘ spread(c ∘ member(u ∘ z)): a multiple of u_g u_g* in
// the block of each group g.
type groupDerivative struct {
	*groups
	name        string
	diagonal, u array.Batch // of each entry
	c           array.Batch // of each group
	LazyModel
}

func (j *groupDerivative) Apply(dst, z array.Batch) {
	vector.CheckApply(j.name, j.p, dst, z)
	dev := dst.Device()
	full := dev.Alloc(z.K(), j.p)
	part := dev.Alloc(z.K(), j.n)
	dev.Mul(full, j.u, z)
	dev.MulCSR(part, j.member, full)
	dev.Mul(part, j.c, part)
	dev.MulCSR(full, j.spread, part)
	dev.Mul(full, j.u, full)
	dev.Mul(dst, j.diagonal, z)
	dev.Lin(dst, 1, dst, 1, full)
	full.Free()
	part.Free()
}

func (j *groupDerivative) Diagonal() array.Batch { return array.Batch{} }

func (j *groupDerivative) Bytes() int64 {
	return j.diagonal.Bytes() + j.u.Bytes() + j.c.Bytes() + j.ModelBytes()
}

func (j *groupDerivative) Release() {
	j.FreeModel()
	j.diagonal.Free()
	j.u.Free()
	j.c.Free()
}
