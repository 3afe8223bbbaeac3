package system

import (
	"surepipe/array"
	"surepipe/prox"
	"surepipe/space"
)

// coupling is the lower part of a saddle point system [[H, K* C], [C* K, -D]] on the images z of K.
type coupling interface {
	// size is the number of the unknowns s.
	size() int
	// spread sets dst = C s.
	spread(dst, s array.Batch)
	// gather sets dst = C* z - D s; z and dst do not overlap.
	gather(dst, z, s array.Batch)
	// normal sets dst = N z, for which C* z - D s = 0 has the same solutions where K* N K is added to H; dst
	// may be z.
	normal(dst, z array.Batch)
	// scale sets dst to about (D + C*C/c)^{-1} s, for a c such that K (H + rho K* N K)^{-1} K* is about I/c.
	scale(dst, s array.Batch)
	Resource
}

// coupled is the coupling by the model at the point where that has a root of its curvature, else by J. alone
// says that nothing is added to H.
func coupled(dev array.Device, j prox.Derivative, q int, t, c float64, alone bool) coupling {
	if m := j.Model(); m != nil && m.Space.Form().Orthonormal {
		if w := m.Root(); w != nil {
			return newByModel(dev, m.Space, *w, c)
		}
	}
	share := 0.5
	if alone {
		share = 0
	}
	return &byJacobian{j: j, q: q, t: t, share: share, c: c}
}

// byModel has s = (s_1, s_2) with C s = N s_1 + E W* s_2, the projection N on what is orthogonal to T = E R^n
// and W*W = Q, and D = diag(0, I): C* K u = D s says N K u = 0, and s_2 = W E* K u.
type byModel struct {
	t      space.Space
	q, n   int
	rows   int
	w, wt  array.CSR // nil where there is no curvature
	c      float64
	weight array.Batch // 1/(1 + size/c) for the squared sizes of W's rows
	Held
}

func newByModel(dev array.Device, t space.Space, w space.Rows, c float64) *byModel {
	m := &byModel{t: t, rows: len(w.Indptr) - 1, c: c}
	m.q, m.n = t.Dims()
	if m.rows == 0 {
		return m
	}
	back := space.Transpose(w, m.n)
	m.w = dev.NewCSR(m.rows, m.n, w.Indptr, w.Indices, w.Values)
	m.wt = dev.NewCSR(m.n, m.rows, back.Indptr, back.Indices, back.Values)
	weights := make([]float64, m.rows)
	for i := range weights {
		size2 := 0.0
		for u := w.Indptr[i]; u < w.Indptr[i+1]; u++ {
			size2 += w.Values[u] * w.Values[u]
		}
		weights[i] = 1 / (1 + size2/c)
	}
	m.weight = dev.Put(weights, 1, m.rows)
	m.Hold(sparse{m.w}, sparse{m.wt}, Batch{m.weight})
	return m
}

// sparse is a sparse matrix as a resource.
type sparse struct{ array.CSR }

func (s sparse) Release() { s.Free() }

func (m *byModel) size() int { return m.q + m.rows }

func (m *byModel) normal(dst, z array.Batch) {
	dev := dst.Device()
	t := dev.Alloc(z.K(), m.q)
	defer t.Free()
	m.t.Project(t, z)
	dev.Lin(dst, 1, z, -1, t)
}

func (m *byModel) spread(dst, s array.Batch) {
	m.normal(dst, s.Cols(0, m.q))
	if m.rows == 0 {
		return
	}
	dev := dst.Device()
	c, t := dev.Alloc(s.K(), m.n), dev.Alloc(s.K(), m.q)
	defer c.Free()
	defer t.Free()
	dev.MulCSR(c, m.wt, s.Cols(m.q, m.q+m.rows))
	m.t.Embed(t, c)
	dev.Lin(dst, 1, dst, 1, t)
}

func (m *byModel) gather(dst, z, s array.Batch) {
	m.normal(dst.Cols(0, m.q), z)
	if m.rows == 0 {
		return
	}
	dev := dst.Device()
	c := dev.Alloc(z.K(), m.n)
	defer c.Free()
	m.t.Coordinates(c, z)
	low := dst.Cols(m.q, m.q+m.rows)
	dev.MulCSR(low, m.w, c)
	dev.Lin(low, 1, low, -1, s.Cols(m.q, m.q+m.rows))
}

func (m *byModel) scale(dst, s array.Batch) {
	dev := dst.Device()
	dev.Lin(dst.Cols(0, m.q), m.c, s.Cols(0, m.q), 0, array.Batch{})
	if m.rows > 0 {
		dev.Mul(dst.Cols(m.q, m.q+m.rows), s.Cols(m.q, m.q+m.rows), m.weight)
	}
}

// byJacobian has C = (I - J)(I - share J) and D = t J C, for the derivative J at the step t.
type byJacobian struct {
	j        prox.Derivative
	q        int
	t, share float64
	c        float64
	Held
}

func (b *byJacobian) size() int { return b.q }

// less sets dst = z - share J z.
func (b *byJacobian) less(dst, z array.Batch, share float64) {
	dev := dst.Device()
	t := dev.Alloc(z.K(), z.N())
	defer t.Free()
	b.j.Apply(t, z)
	dev.Lin(dst, 1, z, -share, t)
}

func (b *byJacobian) normal(dst, z array.Batch) { b.less(dst, z, 1) }

func (b *byJacobian) spread(dst, s array.Batch) {
	b.less(dst, s, 1)
	if b.share > 0 {
		b.less(dst, dst, b.share)
	}
}

func (b *byJacobian) gather(dst, z, s array.Batch) {
	dev := dst.Device()
	t := dev.Alloc(z.K(), z.N())
	defer t.Free()
	b.j.Apply(t, s)
	dev.Lin(t, -b.t, t, 1, z)
	b.spread(dst, t)
}

func (b *byJacobian) scale(dst, s array.Batch) {
	dst.Device().Lin(dst, b.c, s, 0, array.Batch{})
}
