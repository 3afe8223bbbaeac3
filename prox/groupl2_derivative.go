package prox

import (
	"math"

	"surepipe/array"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// groupL2Derivative is J z = shrinkage ∘ z + u ∘ spread(c ∘ member(u ∘ z)): with u = v and
// c = t w_g/||v_g||^3, 0 where the group is inactive.
type groupL2Derivative struct {
	*groups
	t            float64
	shrinkage, u array.Batch // of each entry
	c            array.Batch // of each group
	LazyModel
}

func (j *groupL2Derivative) Apply(dst, z array.Batch) {
	vector.CheckApply("group l2", j.p, dst, z)
	dev := dst.Device()
	full := dev.Alloc(z.K(), j.p)
	part := dev.Alloc(z.K(), j.n)
	dev.Mul(full, j.u, z)
	dev.MulCSR(part, j.member, full)
	dev.Mul(part, j.c, part)
	dev.MulCSR(full, j.spread, part)
	dev.Mul(full, j.u, full)
	dev.Mul(dst, j.shrinkage, z)
	dev.Lin(dst, 1, dst, 1, full)
	full.Free()
	part.Free()
}

func (j *groupL2Derivative) Diagonal() array.Batch { return array.Batch{} }

func (j *groupL2Derivative) Bytes() int64 {
	return j.shrinkage.Bytes() + j.u.Bytes() + j.c.Bytes() + j.ModelBytes()
}

func (j *groupL2Derivative) Release() {
	j.FreeModel()
	j.shrinkage.Free()
	j.u.Free()
	j.c.Free()
}

func (j *groupL2Derivative) Model() *Model { return j.Get(j.build) }

// margin is the least | ||v_g|| - t w_g |.
func (j *groupL2Derivative) margin(v array.Batch) float64 {
	norm := make([]float64, j.n)
	for i, x := range vector.OnHost(v) {
		norm[j.owner[i]] = math.Hypot(norm[j.owner[i]], x)
	}
	least := math.Inf(1)
	for g, w := range j.wHost {
		if w > 0 {
			least = min(least, math.Abs(norm[g]-j.t*w))
		}
	}
	return least
}

// build restricts J to the active groups, where
//
//	Q_g = w_g/||b_g|| (I - v_g v_g*/||v_g||^2),   ||b_g|| = s_g ||v_g||.
func (j *groupL2Derivative) build() *Model {
	shrinkage, v := vector.OnHost(j.shrinkage), vector.OnHost(j.u)
	var set []int
	members := make([][]int, j.n) // places in set
	norm := make([]float64, j.n)
	for i, s := range shrinkage {
		if s > 0 {
			g := j.owner[i]
			members[g] = append(members[g], len(set))
			norm[g] = math.Hypot(norm[g], v[i])
			set = append(set, i)
		}
	}
	dev := j.u.Device()
	m := &Model{Space: space.Coordinates(dev, j.p, set), Margin: j.margin}
	c := &groupCurvature{n: len(set), indptr: []int{0}, trace: float64(len(set)), frobenius2: float64(len(set))}
	for g, places := range members {
		if len(places) < 2 || j.wHost[g] == 0 {
			continue
		}
		s := shrinkage[set[places[0]]]
		c.indices = append(c.indices, places...)
		c.indptr = append(c.indptr, len(c.indices))
		for _, i := range places {
			c.u = append(c.u, v[set[i]]/norm[g])
		}
		c.q = append(c.q, j.wHost[g]/(s*norm[g]))
		size := float64(len(places) - 1)
		c.trace -= size * (1 - s)
		c.frobenius2 -= size * (1 - s*s)
	}
	if len(c.q) > 0 {
		c.upload(dev, gather(shrinkage, set))
		m.Curvature = c
	}
	return m
}

// groupCurvature is Q = diag(Q_1, Q_2, ...), on the groups that have curvature, in the coordinates
// of the active groups. With the shrinkage factors s
//
//	J_g = (I + t Q_g)^{-1} = s_g I + (1 - s_g) u_g u_g*,   u_g = v_g/||v_g||.
type groupCurvature struct {
	n               int       // the number of coordinates
	indptr, indices []int     // the groups
	u               []float64 // of indices
	q               []float64 // w_g/||b_g||

	trace, frobenius2 float64

	member, spread array.CSR   // u_g* of each group, and the transpose, (1 - s_g) u_g
	shrinkage      array.Batch // 1 where a group has no curvature
}

// upload puts J on the device; s are the shrinkage factors at the coordinates.
func (c *groupCurvature) upload(dev array.Device, s []float64) {
	n, groups := len(s), len(c.q)
	factor := make([]float64, n)
	for i := range factor {
		factor[i] = 1
	}
	rows, places, values := make([]int, n+1), make([]int, 0, len(c.u)), make([]float64, 0, len(c.u))
	owner, share := make([]int, n), make([]float64, n)
	for g := range groups {
		for at := c.indptr[g]; at < c.indptr[g+1]; at++ {
			i := c.indices[at]
			factor[i], owner[i], share[i] = s[i], g, (1-s[i])*c.u[at]
			rows[i+1] = 1
		}
	}
	for i := range n {
		if rows[i+1] == 1 {
			places, values = append(places, owner[i]), append(values, share[i])
		}
		rows[i+1] += rows[i]
	}
	c.member = dev.NewCSR(groups, n, c.indptr, c.indices, c.u)
	c.spread = dev.NewCSR(n, groups, rows, places, values)
	c.shrinkage = dev.Alloc(1, n)
	dev.Upload(c.shrinkage, factor)
}

func (c *groupCurvature) Precondition(dst, image, z array.Batch) {
	dev := dst.Device()
	part := dev.Alloc(z.K(), len(c.q))
	defer part.Free()
	dev.MulCSR(part, c.member, z)
	dev.MulCSR(image, c.spread, part)
	dev.Mul(dst, c.shrinkage, z)
	dev.Lin(dst, 1, dst, 1, image)
	vector.Rest(image, z, dst)
}

func (c *groupCurvature) Diagonal() []float64 { return nil }

func (c *groupCurvature) Matrix() []float64 {
	m := vector.SquareMatrix(c.n)
	for g, q := range c.q {
		addRadial(m, c.n, c.indices[c.indptr[g]:c.indptr[g+1]], q, c.u[c.indptr[g]:c.indptr[g+1]])
	}
	return m
}

func (c *groupCurvature) Trace() (trace, frobenius2 float64, ok bool) {
	return c.trace, c.frobenius2, true
}

func (c *groupCurvature) Bytes() int64 {
	return c.member.Bytes() + c.spread.Bytes() + c.shrinkage.Bytes()
}

func (c *groupCurvature) Release() {
	c.member.Free()
	c.spread.Free()
	c.shrinkage.Free()
}
