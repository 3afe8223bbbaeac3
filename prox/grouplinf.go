package prox

import (
	"math"
	"sync"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

// groupLinf is r(b) = sum_g w_g ||b_g||_inf.
type groupLinf struct {
	*groups
	entries [][]int
	work    sync.Pool // of *groupLinfWork
}

// groupLinfWork is the memory of one evaluation.
type groupLinfWork struct {
	vector.BallWork
	group []float64 // one group of x
	slope []float64 // what the derivative keeps
}

// NewGroupLinf returns the penalty
//
//	r(b) = lambda sum_g w_g ||b_g||_inf
//
// on vectors of length p (Turlach, Venables, Wright 2005; Negahban and Wainwright 2011), where b_g
// are the entries of b that groups[g] lists. The groups are disjoint; entries that are in none are
// not penalized. w has one weight a group, nil for ones. With tau = t lambda w_g,
//
//	prox_{t r}(v)_g = v_g - the projection of v_g on {||u||_1 <= tau}
//	                = sign(v_j) min(|v_j|, theta)   for j in g,
//	sum_{j in g} max(|v_j| - theta, 0) = tau,
//
// 0 where ||v_g||_1 <= tau. With A = {j in g : |v_j| > theta} and s_j = sign(v_j),
//
//	(J z)_j = s_j/|A| sum_{k in A} s_k z_k   where j in A,
//	(J z)_j = z_j                            where |v_j| <= theta,
//
// and 0 in a group that is 0. theta is found on the host, as for [cones.NewSimplex]; J is applied on the
// device. It is an orthogonal projection; its trace is 1 plus the number of |v_j| <= theta, summed
// over the groups that are not 0. |v_j| = theta counts as outside A, ||v_g||_1 = tau as inactive.
//
// A group of weight 0 is not penalized, for any lambda; one of weight +Inf is held at 0, unless
// lambda = 0. The groups are copied to dev, where they stay until [Release]. An empty group, an
// entry out of range or in two groups, and a negative or NaN weight are errors, and so is an
// argument with a NaN or an entry beyond 1e290 in size. It panics if lambda is negative or NaN.
func NewGroupLinf(dev array.Device, p int, lambda float64, groups [][]int, w []float64) (Prox, error) {
	all, err := newGroups("group linf", dev, p, lambda, groups, w)
	if err != nil {
		return nil, err
	}
	q := &groupLinf{groups: all, entries: make([][]int, len(groups))}
	for g, group := range groups {
		q.entries[g] = append([]int(nil), group...)
	}
	all.norm, all.dual, all.make = vector.Largest, vector.Total, NewGroupLinf
	q.structure.Value = q.value
	return q, nil
}

func (p *groupLinf) getWork() *groupLinfWork {
	w, ok := p.work.Get().(*groupLinfWork)
	if !ok {
		w = new(groupLinfWork)
		w.X, w.U, w.group = make([]float64, p.p), make([]float64, p.p), make([]float64, p.p)
	}
	return w
}

// clip sets x to its prox. A slope that is not nil receives what the derivative keeps: s, free and
// c, one after the other.
func (p *groupLinf) clip(w *groupLinfWork, t float64, slope []float64) {
	var s, free, c []float64
	if slope != nil {
		s, free, c = slope[:p.p], slope[p.p:2*p.p], slope[2*p.p:]
		clear(slope)
		for j := range free {
			free[j] = 1
		}
	}
	for g, entries := range p.entries {
		tau := t * p.wHost[g]
		if tau == 0 {
			continue
		}
		v := w.group[:len(entries)]
		for i, j := range entries {
			v[i] = w.X[j]
		}
		top, theta := w.Level(v, tau)
		inactive, clipped := theta <= -top, 0
		for i, j := range entries {
			above := math.Abs(v[i])-top > theta
			switch {
			case inactive:
				w.X[j] = 0
			case above:
				w.X[j] = math.Copysign(top+theta, v[i])
				clipped++
			}
			if slope != nil && (inactive || above) {
				free[j] = 0
				if !inactive {
					s[j] = vector.Sign(v[i])
				}
			}
		}
		if slope != nil && clipped > 0 {
			c[g] = 1 / float64(clipped)
		}
	}
}

func (p *groupLinf) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("group linf", p.p, dst, v, t)
	w := p.getWork()
	defer p.work.Put(w)
	return vector.OnEach("group linf", dst, v, w.X, func() { p.clip(w, t, nil) })
}

func (p *groupLinf) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("group linf", p.p, dst, v, t)
	w := p.getWork()
	defer p.work.Put(w)
	w.slope = vector.Grow(w.slope, 2*p.p+p.n)
	if err := vector.OnEach("group linf", dst, v, w.X, func() { p.clip(w, t, w.slope) }); err != nil {
		return nil, err
	}
	dev := v.Device()
	j := &groupLinfDerivative{groupDerivative: groupDerivative{
		groups: p.groups, name: "group linf", diagonal: dev.Alloc(1, p.p), u: dev.Alloc(1, p.p), c: dev.Alloc(1, p.n),
	}, prox: p, t: t}
	dev.Upload(j.u, w.slope[:p.p])
	dev.Upload(j.diagonal, w.slope[p.p:2*p.p])
	dev.Upload(j.c, w.slope[2*p.p:])
	return j, nil
}

func (p *groupLinf) value(b array.Batch) float64 {
	vector.CheckValue("group linf", p.p, b)
	sum := 0.0
	p.byGroup(b, b, func(w float64, b, _ []float64) { sum += vector.Times(w, p.norm(b)) })
	return sum
}

// groupLinfDerivative has 1 on the diagonal where J is the identity, else 0; u = sign(v_j) in A,
// else 0; and c = 1/|A| of each group.
type groupLinfDerivative struct {
	groupDerivative
	prox *groupLinf
	t    float64
}

func (j *groupLinfDerivative) Model() *Model { return j.Get(j.build) }

// build makes a set of A in each group, and one of each coordinate where J is the identity.
func (j *groupLinfDerivative) build() *Model {
	free, s := vector.OnHost(j.diagonal), vector.OnHost(j.u)
	clipped := make([][]int, j.n)
	for i, a := range s {
		if a != 0 {
			clipped[j.owner[i]] = append(clipped[j.owner[i]], i)
		}
	}
	sets, sign := make([][]int, j.p), make([]float64, j.p)
	for i := range sets {
		if sign[i] = 1; free[i] != 0 {
			sets[i] = []int{i}
		} else if set := clipped[j.owner[i]]; len(set) > 0 && set[0] == i {
			sets[i] = set
		}
		if s[i] < 0 {
			sign[i] = -1
		}
	}
	return &Model{Space: vector.Clusters(j.u.Device(), j.p, sets, sign), Margin: j.margin}
}

// margin is the least of the groups'.
func (j *groupLinfDerivative) margin(v array.Batch) float64 {
	x, least, w := vector.OnHost(v), math.Inf(1), new(vector.BallWork)
	for g, entries := range j.prox.entries {
		if tau := j.t * j.wHost[g]; tau > 0 {
			least = min(least, vector.BallMargin(w, gather(x, entries), tau))
		}
	}
	return least
}
