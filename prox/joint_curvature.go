package prox

import (
	"math"
	"sync"

	"surepipe/array"
	"surepipe/space"
)

// jointCurvature is Q = diag(Q_1, Q_2, ...), Q_i = q_i (I - u_i u_i*), for n active places in each of
// some planes: coordinate k n + i is place i of plane k. With the shrinkage factors s
//
//	J_i = (I + t Q_i)^{-1} = s_i I + (1 - s_i) u_i u_i*.
type jointCurvature struct {
	dev       array.Device
	t         float64
	n, planes int
	q, factor []float64 // of the places
	unit      []float64 // of the coordinates

	once    sync.Once
	on      array.Batch // the shrinkage factors, and then the rest 1 - s: 1 x 2n
	onUnits array.Batch
}

func (c *jointCurvature) upload() {
	c.once.Do(func() {
		c.on, c.onUnits = c.dev.Alloc(1, 2*c.n), c.dev.Alloc(1, len(c.unit))
		both := make([]float64, 2*c.n)
		for i, s := range c.factor {
			both[i], both[c.n+i] = s, 1-s
		}
		c.dev.Upload(c.on, both)
		c.dev.Upload(c.onUnits, c.unit)
	})
}

func (c *jointCurvature) Precondition(dst, image, z array.Batch) {
	c.upload()
	dev, n := dst.Device(), c.n
	along, t := dev.Alloc(z.K(), n), dev.Alloc(z.K(), n)
	defer along.Free()
	defer t.Free()
	plane := func(b array.Batch, k int) array.Batch { return b.Cols(k*n, (k+1)*n) }
	dev.Mul(along, plane(z, 0), plane(c.onUnits, 0))
	for k := 1; k < c.planes; k++ {
		dev.Mul(t, plane(z, k), plane(c.onUnits, k))
		dev.Lin(along, 1, along, 1, t)
	}
	dev.Mul(along, along, c.on.Cols(n, 2*n))
	for k := range c.planes {
		to := plane(dst, k)
		dev.Mul(t, along, plane(c.onUnits, k))
		dev.Mul(to, plane(z, k), c.on.Cols(0, n))
		dev.Lin(to, 1, to, 1, t)
	}
	rest(image, z, dst)
}

func (c *jointCurvature) Diagonal() []float64 { return nil }

func (c *jointCurvature) Matrix() []float64 {
	size := len(c.unit)
	m := squareMatrix(size)
	if m == nil {
		return nil
	}
	for i, q := range c.q {
		for k := i; k < size; k += c.n {
			for l := i; l < size; l += c.n {
				m[k*size+l] = -q * c.unit[k] * c.unit[l]
			}
			m[k*size+k] += q
		}
	}
	return m
}

func (c *jointCurvature) Trace() (trace, frobenius2 float64, ok bool) {
	others := float64(c.planes - 1)
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

// root has planes - 1 rows for every place: sqrt(q_i) times the rows of the Householder reflection
// that takes u_i to a multiple of the first unit vector, but the first.
func (c *jointCurvature) root() *space.Rows {
	m, n := c.planes, c.n
	w := &space.Rows{Indptr: make([]int, 1, n*(m-1)+1), Indices: make([]int, 0, n*m*(m-1)), Values: make([]float64, 0, n*m*(m-1))}
	h := make([]float64, m)
	for i, q := range c.q {
		for k := range m {
			h[k] = c.unit[k*n+i]
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
				w.Indices, w.Values = append(w.Indices, k*n+i), append(w.Values, size*v)
			}
			w.Indptr = append(w.Indptr, len(w.Values))
		}
	}
	return w
}
