package prox

import (
	"math"
	"slices"

	"surepipe/array"
	"surepipe/prox/internal/vector"
	"surepipe/space"
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
	array.Free(q, s)
	return nil
}

func (p *groupL2) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("group l2", p.p, dst, v, t)
	dev := v.Device()
	q, s := p.factors(v, t)
	dev.ShrinkSlope(q, q, p.w, t)
	u := dev.Alloc(1, p.p)
	dev.Copy(u, v)
	dev.Mul(dst, s, v)
	// J z = s ∘ z + u ∘ spread(q ∘ member(u ∘ z)) with the argument u and q_g = t w_g/||u_g||^3, 0 where g is
	// inactive.
	return NewDerivative("group l2", p.p, func(dst, z array.Batch) {
		dev := dst.Device()
		full, part := dev.Alloc(z.K(), p.p), dev.Alloc(z.K(), p.n)
		dev.Mul(full, u, z)
		dev.MulCSR(part, p.member, full)
		dev.Mul(part, q, part)
		dev.MulCSR(full, p.spread, part)
		dev.Mul(full, u, full)
		dev.Mul(dst, s, z)
		dev.Lin(dst, 1, dst, 1, full)
		array.Free(full, part)
	}, func() *Model { return p.model(s, u, t) }, s, u, q), nil
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
	array.Free(sq, q)
	return sum
}

// margin is the least | ||v_g|| - t w_g |.
func (p *groupL2) margin(v array.Batch, t float64) float64 {
	norm := make([]float64, p.n)
	for i, x := range vector.OnHost(v) {
		norm[p.owner[i]] = math.Hypot(norm[p.owner[i]], x)
	}
	least := math.Inf(1)
	for g, w := range p.wHost {
		if w > 0 {
			least = min(least, math.Abs(norm[g]-t*w))
		}
	}
	return least
}

// model restricts J to the active groups, where
//
//	Q_g = w_g/||b_g|| (I - v_g v_g*/||v_g||^2),   ||b_g|| = s_g ||v_g||.
func (p *groupL2) model(shrinkage, argument array.Batch, t float64) *Model {
	dev, s, v := argument.Device(), vector.OnHost(shrinkage), vector.OnHost(argument)
	var set []int
	members := make([][]int, p.n) // places in set
	norm := make([]float64, p.n)
	for i, f := range s {
		if f > 0 {
			g := p.owner[i]
			members[g] = append(members[g], len(set))
			norm[g] = math.Hypot(norm[g], v[i])
			set = append(set, i)
		}
	}
	m := &Model{Space: space.Coordinates(dev, p.p, set), Margin: func(v array.Batch) float64 { return p.margin(v, t) }}
	var q, factor []float64
	var bent [][]int // the groups that have curvature
	unit := make([]float64, len(set))
	for g, places := range members {
		if len(places) < 2 || p.wHost[g] == 0 {
			continue
		}
		for _, i := range places {
			unit[i] = v[set[i]] / norm[g]
		}
		bent, factor = append(bent, places), append(factor, s[set[places[0]]])
		q = append(q, p.wHost[g]/(factor[len(q)]*norm[g]))
	}
	if len(q) == 0 {
		return m
	}
	of := func(_ []int, g int) []int { return bent[g] }
	c := newRadial(q, unit, of, func(g int) int { return len(bent[g]) }, factor)
	c.put = func() func(dst, z array.Batch) { return c.putGroups(dev, bent, factor) }
	m.Curvature = c
	return m
}

// putGroups puts J on the device as diag(s) + S U*, where column g of U is u_g, and that of S (1 - s_g) u_g; s is 1
// where a group has no curvature.
func (c *radialCurvature) putGroups(dev array.Device, groups [][]int, factor []float64) func(dst, z array.Batch) {
	n := len(c.u)
	s, inside, across := slices.Repeat([]float64{1}, n), space.Rows{Indptr: []int{0}}, space.Rows{Indptr: []int{0}}
	for g, places := range groups {
		for _, i := range places {
			s[i] = factor[g]
			inside.Indices, inside.Values = append(inside.Indices, i), append(inside.Values, c.u[i])
			across.Values = append(across.Values, (1-factor[g])*c.u[i])
		}
		inside.Indptr = append(inside.Indptr, len(inside.Indices))
	}
	across.Indptr, across.Indices = inside.Indptr, inside.Indices
	spread := space.Transpose(across, n)
	on := dev.NewCSR(len(groups), n, inside.Indptr, inside.Indices, inside.Values)
	of := dev.NewCSR(n, len(groups), spread.Indptr, spread.Indices, spread.Values)
	shrinkage := dev.Alloc(1, n)
	dev.Upload(shrinkage, s)
	c.Hold(on, of, shrinkage)
	return func(dst, z array.Batch) {
		dev := dst.Device()
		part, along := dev.Alloc(z.K(), len(groups)), dev.Alloc(z.K(), n)
		dev.MulCSR(part, on, z)
		dev.MulCSR(along, of, part)
		dev.Mul(dst, shrinkage, z)
		dev.Lin(dst, 1, dst, 1, along)
		array.Free(part, along)
	}
}
