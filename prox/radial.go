package prox

import (
	"math"
	"sync"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// radialCurvature is Q = diag(Q_1, Q_2, ...), Q_g = q_g (I - u_g u_g*) with unit vectors u_g, on disjoint groups of
// coordinates that have curvature: that of multiples of the Euclidean norm. With the shrinkage factors s
//
//	J_g = (I + t Q_g)^{-1} = s_g I + (1 - s_g) u_g u_g*.
type radialCurvature struct {
	Plain
	q       []float64                       // of the groups
	members func(place []int, g int) []int  // of group g, in the memory of place
	u       []float64                       // of the coordinates
	put     func() func(dst, z array.Batch) // puts J on the device
	once    sync.Once
	apply   func(dst, z array.Batch) // J, put there when it is first asked for
}

// newRadial returns the curvature; sizes and s are the groups' numbers of coordinates and shrinkage factors.
func newRadial(q, u []float64, members func(place []int, g int) []int, size func(g int) int,
	s []float64) *radialCurvature {
	c := &radialCurvature{q: q, u: u, members: members}
	c.Sum, c.Squares, c.Summed = float64(len(u)), float64(len(u)), true
	for g, f := range s {
		others := float64(size(g) - 1)
		c.Sum -= others * (1 - f)
		c.Squares -= others * (1 - f*f)
	}
	return c
}

func (c *radialCurvature) Precondition(dst, image, z array.Batch) {
	c.once.Do(func() { c.apply = c.put() })
	c.apply(dst, z)
	vector.Rest(image, z, dst)
}

func (c *radialCurvature) Matrix() []float64 {
	n := len(c.u)
	m := vector.SquareMatrix(n)
	var group []int
	for g, q := range c.q {
		group = c.members(group, g)
		addRadial(m, n, group, q, lists.Pick(c.u, group))
	}
	return m
}

// addRadial adds q (I - u u*), the curvature of a multiple of the Euclidean norm in the direction of the unit
// vector u, at some places of an n x n matrix. It adds nothing to nil.
func addRadial(m []float64, n int, places []int, q float64, u []float64) {
	if m == nil {
		return
	}
	for a, i := range places {
		for b, k := range places {
			m[i*n+k] -= q * u[a] * u[b]
		}
		m[i*n+i] += q
	}
}

// root has a row less for every group than it has coordinates: sqrt(q_g) times the rows of the Householder reflection
// that takes u_g to a multiple of the first unit vector, but the first.
func (c *radialCurvature) root() *space.Rows {
	w := &space.Rows{Indptr: []int{0}}
	var group []int
	var h []float64
	for g, q := range c.q {
		group = c.members(group, g)
		h = append(h[:0], lists.Pick(c.u, group)...)
		h[0] += math.Copysign(1, h[0])
		sum := 0.0
		for _, x := range h {
			sum += x * x
		}
		size := math.Sqrt(q)
		for row := 1; row < len(h); row++ {
			for k, x := range h {
				v := -2 / sum * h[row] * x
				if k == row {
					v++
				}
				w.Indices, w.Values = append(w.Indices, group[k]), append(w.Values, size*v)
			}
			w.Indptr = append(w.Indptr, len(w.Values))
		}
	}
	return w
}
