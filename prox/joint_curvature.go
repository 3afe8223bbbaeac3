package prox

import (
	"math"
	"sync"

	"surepipe/array"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// jointCurvature is Q = diag(Q_1, Q_2, ...), Q_i = q_i (I - u_i u_i*), for the active groups. With the
// shrinkage factors s
//
//	J_i = (I + t Q_i)^{-1} = s_i I + (1 - s_i) u_i u_i*.
type jointCurvature struct {
	dev array.Device
	planeGroups
	q, factor []float64 // of the groups
	unit      []float64 // of the coordinates

	once              sync.Once
	shrinkage, onUnit array.Batch // s, and then 1 - s, of the entries of a plane
}

func (c *jointCurvature) upload() {
	c.once.Do(func() {
		c.shrinkage, c.onUnit = c.dev.Alloc(1, 2*c.n), c.dev.Alloc(1, len(c.unit))
		both := make([]float64, 2*c.n)
		for i := range c.n {
			s := c.factor[i/c.width]
			both[i], both[c.n+i] = s, 1-s
		}
		c.dev.Upload(c.shrinkage, both)
		c.dev.Upload(c.onUnit, c.unit)
	})
}

func (c *jointCurvature) Precondition(dst, image, z array.Batch) {
	c.upload()
	c.scaleAlong(dst, z, c.of(c.shrinkage, 0), c.of(c.shrinkage, 1), c.onUnit)
	vector.Rest(image, z, dst)
}

func (c *jointCurvature) Diagonal() []float64 { return nil }

func (c *jointCurvature) Matrix() []float64 {
	m := vector.SquareMatrix(len(c.unit))
	var group []int
	for i, q := range c.q {
		group = c.members(group, i)
		addRadial(m, len(c.unit), group, q, gather(c.unit, group))
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

func (c *jointCurvature) Trace() (trace, frobenius2 float64, ok bool) {
	others := float64(c.count*c.width - 1)
	for _, s := range c.factor {
		trace += 1 + others*s
		frobenius2 += 1 + others*s*s
	}
	return trace, frobenius2, true
}

func (c *jointCurvature) Bytes() int64 { return c.shrinkage.Bytes() + c.onUnit.Bytes() }

func (c *jointCurvature) Release() {
	c.shrinkage.Free()
	c.onUnit.Free()
}

// root has planes width - 1 rows for every group: sqrt(q_i) times the rows of the Householder reflection
// that takes u_i to a multiple of the first unit vector, but the first.
func (c *jointCurvature) root() *space.Rows {
	m, n := c.count*c.width, c.groups()
	w := &space.Rows{Indptr: make([]int, 1, n*(m-1)+1), Indices: make([]int, 0, n*m*(m-1)),
		Values: make([]float64, 0, n*m*(m-1))}
	h := make([]float64, m)
	group := make([]int, 0, m)
	for i, q := range c.q {
		group = c.members(group, i)
		for k, at := range group {
			h[k] = c.unit[at]
		}
		h[0] += math.Copysign(1, h[0])
		sum := 0.0
		for _, x := range h {
			sum += x * x
		}
		size := math.Sqrt(q)
		for row := 1; row < m; row++ {
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
