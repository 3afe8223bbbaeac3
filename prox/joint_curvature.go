package prox

import (
	"math"
	"sync"

	"surepipe/array"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// jointCurvature is Q = diag(Q_1, Q_2, ...), Q_i = q_i (I - u_i u_i*), for n active groups, each of some
// neighbours in each of some planes: coordinate (k n + i) width + c is number c of group i in plane k.
// With the shrinkage factors s
//
//	J_i = (I + t Q_i)^{-1} = s_i I + (1 - s_i) u_i u_i*.
type jointCurvature struct {
	dev       array.Device
	t         float64
	n, planes int
	width     int
	q, factor []float64 // of the groups
	unit      []float64 // of the coordinates

	once    sync.Once
	on      array.Batch // the shrinkage factors of the entries of a plane, and then the rest 1 - s
	onUnits array.Batch
}

func (c *jointCurvature) upload() {
	c.once.Do(func() {
		n := c.n * c.width
		c.on, c.onUnits = c.dev.Alloc(1, 2*n), c.dev.Alloc(1, len(c.unit))
		both := make([]float64, 2*n)
		for i := range n {
			s := c.factor[i/c.width]
			both[i], both[n+i] = s, 1-s
		}
		c.dev.Upload(c.on, both)
		c.dev.Upload(c.onUnits, c.unit)
	})
}

func (c *jointCurvature) Precondition(dst, image, z array.Batch) {
	c.upload()
	dev, n := dst.Device(), c.n*c.width
	along, t := dev.Alloc(z.K(), n), dev.Alloc(z.K(), n)
	defer along.Free()
	defer t.Free()
	plane := func(b array.Batch, k int) array.Batch { return b.Cols(k*n, (k+1)*n) }
	dev.Mul(along, plane(z, 0), plane(c.onUnits, 0))
	for k := 1; k < c.planes; k++ {
		dev.Mul(t, plane(z, k), plane(c.onUnits, k))
		dev.Lin(along, 1, along, 1, t)
	}
	couple(along, t, c.width)
	dev.Mul(along, along, c.on.Cols(n, 2*n))
	for k := range c.planes {
		to := plane(dst, k)
		dev.Mul(t, along, plane(c.onUnits, k))
		dev.Mul(to, plane(z, k), c.on.Cols(0, n))
		dev.Lin(to, 1, to, 1, t)
	}
	vector.Rest(image, z, dst)
}

func (c *jointCurvature) Diagonal() []float64 { return nil }

func (c *jointCurvature) Matrix() []float64 {
	size := len(c.unit)
	m := vector.SquareMatrix(size)
	if m == nil {
		return nil
	}
	var group []int
	for i, q := range c.q {
		group = c.group(group, i)
		for _, k := range group {
			for _, l := range group {
				m[k*size+l] = -q * c.unit[k] * c.unit[l]
			}
			m[k*size+k] += q
		}
	}
	return m
}

// group are the coordinates of group i, in place of what all holds.
func (c *jointCurvature) group(all []int, i int) []int {
	all = all[:0]
	for at := i * c.width; at < len(c.unit); at += c.n * c.width {
		for k := at; k < at+c.width; k++ {
			all = append(all, k)
		}
	}
	return all
}

func (c *jointCurvature) Trace() (trace, frobenius2 float64, ok bool) {
	others := float64(c.planes*c.width - 1)
	for _, s := range c.factor {
		trace += 1 + others*s
		frobenius2 += 1 + others*s*s
	}
	return trace, frobenius2, true
}

func (c *jointCurvature) Bytes() int64 { return c.on.Bytes() + c.onUnits.Bytes() }

func (c *jointCurvature) Release() {
	c.on.Free()
	c.onUnits.Free()
}

// root has planes width - 1 rows for every group: sqrt(q_i) times the rows of the Householder reflection
// that takes u_i to a multiple of the first unit vector, but the first.
func (c *jointCurvature) root() *space.Rows {
	m, n := c.planes*c.width, c.n
	w := &space.Rows{Indptr: make([]int, 1, n*(m-1)+1), Indices: make([]int, 0, n*m*(m-1)),
		Values: make([]float64, 0, n*m*(m-1))}
	h := make([]float64, m)
	group := make([]int, 0, m)
	for i, q := range c.q {
		group = c.group(group, i)
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
