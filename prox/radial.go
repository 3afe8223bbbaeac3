package prox

import (
	"sync"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// radialCurvature is Q = diag(Q_1, Q_2, ...), Q_g = q_g (I - u_g u_g*) with unit vectors u_g, on the groups of a
// partition; q_g = 0 and u_g = 0 where a group has no curvature. With the shrinkage factors s, 1 there,
//
//	J_g = (I + t Q_g)^{-1} = s_g I + (1 - s_g) u_g u_g*.
type radialCurvature struct {
	Plain
	dev     array.Device
	by      partition
	q, s    []float64 // of the groups
	u       []float64 // of the coordinates
	once    sync.Once
	factors array.Batch // s and then 1 - s as vectors of sums, and u, put on the device when first needed
	units   array.Batch
}

func newRadial(dev array.Device, by partition, q, s, u []float64) *radialCurvature {
	c := &radialCurvature{dev: dev, by: by, q: q, s: s, u: u}
	c.Sum, c.Squares, c.Summed = float64(len(u)), float64(len(u)), true
	var group []int
	for g, f := range s {
		group = by.members(group, g)
		others := float64(len(group) - 1)
		c.Sum -= others * (1 - f)
		c.Squares -= others * (1 - f*f)
	}
	return c
}

func (c *radialCurvature) put() {
	n := c.by.sums()
	both := make([]float64, 2*n)
	c.by.spread(both[:n], c.s)
	for i, s := range both[:n] {
		both[n+i] = 1 - s
	}
	c.factors, c.units = c.dev.Alloc(1, 2*n), c.dev.Alloc(1, len(c.u))
	c.dev.Upload(c.factors, both)
	c.dev.Upload(c.units, c.u)
	c.Hold(c.factors, c.units)
	c.by.load(c.dev, &c.Held)
}

func (c *radialCurvature) Precondition(dst, image, z array.Batch) {
	c.once.Do(c.put)
	n := c.by.sums()
	c.by.scaleAlong(dst, z, c.factors.Cols(0, n), c.factors.Cols(n, 2*n), c.units)
	vector.Rest(image, z, dst)
}

func (c *radialCurvature) Matrix() []float64 {
	n := len(c.u)
	m := vector.SquareMatrix(n)
	var group []int
	for g, q := range c.q {
		group = c.by.members(group, g)
		addRadial(m, n, group, q, lists.Pick(c.u, group))
	}
	return m
}

// addRadial adds q (I - u u*), the curvature of a multiple of the Euclidean norm in the direction of the unit
// vector u, at some places of an n x n matrix. It adds nothing to nil, or for q = 0.
func addRadial(m []float64, n int, places []int, q float64, u []float64) {
	if m == nil || q == 0 {
		return
	}
	for a, i := range places {
		for b, k := range places {
			m[i*n+k] -= q * u[a] * u[b]
		}
		m[i*n+i] += q
	}
}

// squares has a row for every coordinate of a group with curvature, and one of a negative weight along u_g; of two
// coordinates one across u_g.
func (c *radialCurvature) squares() *Squares {
	entries, rows := len(c.u), len(c.q)
	if entries > 2*rows {
		entries, rows = 2*entries, rows+entries
	}
	w := &Squares{space.Rows{Indptr: make([]int, 1, rows+1), Indices: make([]int, 0, entries),
		Values: make([]float64, 0, entries)}, make([]float64, 0, rows)}
	var group []int
	for g, q := range c.q {
		if q == 0 {
			continue
		}
		if group = c.by.members(group, g); len(group) == 2 {
			w.add(group[0], -c.u[group[1]])
			w.add(group[1], c.u[group[0]])
			w.end(q)
			continue
		}
		for _, k := range group {
			w.add(k, 1)
			w.end(q)
		}
		for _, k := range group {
			w.add(k, c.u[k])
		}
		w.end(-q)
	}
	return w
}
