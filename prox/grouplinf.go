package prox

import (
	"math"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox/internal/vector"
)

// groupLinf is r(b) = sum_g w_g ||b_g||_inf.
type groupLinf struct {
	*groups
	work sync.Pool // of *groupLinfWork
}

type groupLinfWork struct {
	vector.BallWork
	group   []float64 // one group of x
	clipped []int     // its entries whose size is reduced to theta
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
// lambda = 0. The groups are copied; nothing stays on the device. An empty group, an entry out of range or
// in two groups, and a negative or NaN weight are errors, and so is an argument with a NaN or an entry
// beyond 1e290 in size. It panics if lambda is negative or NaN.
func NewGroupLinf(_ array.Device, p int, lambda float64, groups [][]int, w []float64) (Prox, error) {
	all, err := newGroups("group linf", p, lambda, groups, w)
	if err != nil {
		return nil, err
	}
	q := &groupLinf{groups: all}
	all.norm, all.dual, all.make = lists.MaxAbs, vector.Total, NewGroupLinf
	q.Is.Value = q.value
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

// clip sets x to its prox. It calls keep, unless that is nil, with the groups that are penalized: the
// entries that were clipped, or ok = false for a group that is 0.
func (p *groupLinf) clip(w *groupLinfWork, t float64, keep func(g int, clipped []int, ok bool)) {
	for g, entries := range p.entries {
		tau := t * p.w[g]
		if tau == 0 {
			continue
		}
		v := w.group[:len(entries)]
		for i, j := range entries {
			v[i] = w.X[j]
		}
		top, theta := w.Level(v, tau)
		inactive := theta <= -top
		w.clipped = w.clipped[:0]
		for i, j := range entries {
			switch {
			case inactive:
				w.X[j] = 0
			case math.Abs(v[i])-top > theta:
				w.X[j] = math.Copysign(top+theta, v[i])
				w.clipped = append(w.clipped, j)
			}
		}
		if keep != nil {
			keep(g, w.clipped, !inactive)
		}
	}
}

func (p *groupLinf) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("group linf", p.p, dst, v, t)
	w := p.getWork()
	defer p.work.Put(w)
	return vector.OnEach("group linf", dst, v, w.X, func() { p.clip(w, t, nil) })
}

// Linearize makes a cluster of A in each group, and one of each coordinate where J is the identity.
func (p *groupLinf) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("group linf", p.p, dst, v, t)
	w := p.getWork()
	defer p.work.Put(w)
	sets, sign := make([][]int, p.p), make([]float64, p.p)
	for j := range sets {
		sets[j], sign[j] = []int{j}, 1
	}
	if err := vector.OnEach("group linf", dst, v, w.X, func() {
		p.clip(w, t, func(g int, clipped []int, ok bool) {
			if !ok {
				clipped = p.entries[g]
			}
			for _, j := range clipped {
				sets[j] = nil
			}
			if ok && len(clipped) > 0 {
				sets[slices.Min(clipped)] = slices.Sorted(slices.Values(clipped))
			}
		})
		for j, x := range w.X {
			if x < 0 {
				sign[j] = -1
			}
		}
	}); err != nil {
		return nil, err
	}
	dev := v.Device()
	return NewProjection(dev, vector.Clusters(dev, p.p, sets, sign), func(v array.Batch) float64 {
		return p.margin(v, t)
	}), nil
}

func (p *groupLinf) value(b array.Batch) float64 {
	vector.CheckValue("group linf", p.p, b)
	sum := 0.0
	x := b.Read()
	for g, entries := range p.entries {
		sum += vector.Times(p.w[g], p.norm(lists.Pick(x, entries)))
	}
	return sum
}

// margin is the least of the groups'.
func (p *groupLinf) margin(v array.Batch, t float64) float64 {
	x, least, w := v.Read(), math.Inf(1), new(vector.BallWork)
	for g, entries := range p.entries {
		if tau := t * p.w[g]; tau > 0 {
			least = min(least, vector.BallMargin(w, lists.Pick(x, entries), tau))
		}
	}
	return least
}
