package prox

import (
	"math"

	"surepipe/array"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// partition divides the coordinates of vectors into groups. A vector of sums has the number of group g at place at(g),
// and the same one at others where several places belong to a group.
type partition interface {
	// groups is how many there are, and sums the length of a vector of sums.
	groups() int
	sums() int
	at(g int) int
	// members are the coordinates of group g, in the memory of place.
	members(place []int, g int) []int
	// inner sets dst to <a_g, b_g> for every group.
	inner(dst, a, b array.Batch)
	// scale sets dst_g = s_g v_g for every group. dst and v may be the same batch.
	scale(dst, v, s array.Batch)
	// scaleAlong sets dst_g = s_g z_g + c_g <u_g, z_g> u_g for every group. dst and z may be the same batch.
	scaleAlong(dst, z, s, c, u array.Batch)
	// spread sets sums to the numbers of the groups.
	spread(sums, numbers []float64)
	// some are the coordinates of some groups, in increasing order, and the partition of vectors of these alone.
	some(active []int) (set []int, of partition)
	// load puts on a device what the products take, before the first of them.
	load(dev array.Device, memory *array.Held)
}

// euclidean is r(b) = sum_g w_g ||b_g||_2 over the groups of a partition.
type euclidean struct {
	name string
	p    int
	by   partition
	w    coefficients // one of each group
	Known
}

func (p *euclidean) Dim() int { return p.p }

func (p *euclidean) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval(p.name, p.p, dst, v, t)
	dev := v.Device()
	s := dev.Alloc(v.K(), p.by.sums())
	defer s.Free()
	p.by.inner(s, v, v)
	dev.Shrink(s, s, p.w.on, vector.Times(t, p.w.One))
	p.by.scale(dst, v, s)
	return nil
}

// Linearize has J z = s_g z_g + c_g u_g <u_g, z_g> for every group, with the shrinkage factors s, the argument u, and
// c_g = t w_g/||u_g||^3, 0 where g is inactive.
func (p *euclidean) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize(p.name, p.p, dst, v, t)
	dev := v.Device()
	u, s, c := dev.Alloc(1, p.p), dev.Alloc(1, p.by.sums()), dev.Alloc(1, p.by.sums())
	p.by.inner(c, v, v)
	dev.Shrink(s, c, p.w.on, vector.Times(t, p.w.One))
	dev.ShrinkSlope(c, c, p.w.on, vector.Times(t, p.w.One))
	dev.Copy(u, v)
	p.by.scale(dst, v, s)
	return NewDerivative(p.name, p.p, func(dst, z array.Batch) { p.by.scaleAlong(dst, z, s, c, u) },
		func() *Model { return p.model(s, u, t) }, u, s, c), nil
}

// norms are ||b_g||.
func (p *euclidean) norms(b array.Batch) []float64 {
	q := b.Device().Alloc(1, p.by.sums())
	defer q.Free()
	p.by.inner(q, b, b)
	norms, squares := make([]float64, p.by.groups()), q.Read()
	for g := range norms {
		norms[g] = math.Sqrt(squares[p.by.at(g)])
	}
	return norms
}

func (p *euclidean) value(b array.Batch) float64 {
	vector.CheckValue(p.name, p.p, b)
	sum := 0.0
	for g, norm := range p.norms(b) {
		sum += vector.Times(p.w.At(g), norm)
	}
	return sum
}

// margin is the least | ||v_g|| - t w_g | of the groups that are penalized.
func (p *euclidean) margin(v array.Batch, t float64) float64 {
	least := math.Inf(1)
	for g, norm := range p.norms(v) {
		if w := p.w.At(g); w > 0 {
			least = min(least, math.Abs(norm-t*w))
		}
	}
	return least
}

// model restricts J to the active groups, where
//
//	Q_g = w_g/||b_g|| (I - v_g v_g*/||v_g||^2),   ||b_g|| = s_g ||v_g||.
func (p *euclidean) model(shrinkage, argument array.Batch, t float64) *Model {
	dev, s, v := argument.Device(), shrinkage.Read(), argument.Read()
	active := where(p.by.groups(), func(g int) bool { return s[p.by.at(g)] > 0 })
	set, on := p.by.some(active)
	m := &Model{Space: space.Coordinates(dev, p.p, set), Margin: func(v array.Batch) float64 { return p.margin(v, t) }}
	n := len(active)
	q, factor, unit, bent := make([]float64, n), make([]float64, n), make([]float64, len(set)), false
	var group []int
	for a, g := range active {
		factor[a] = 1
		if group = on.members(group, a); len(group) < 2 || p.w.At(g) == 0 {
			continue
		}
		norm := 0.0
		for _, k := range group {
			norm = math.Hypot(norm, v[set[k]])
		}
		factor[a], bent = s[p.by.at(g)], true
		q[a] = p.w.At(g) / (factor[a] * norm)
		for _, k := range group {
			unit[k] = v[set[k]] / norm
		}
	}
	if bent {
		c := newRadial(dev, on, q, factor, unit)
		m.Curvature, m.squares = c, c.squares
	}
	return m
}
