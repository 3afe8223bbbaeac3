package linops

import (
	"fmt"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
)

// copiedColumns is the number of entries up to which a dense matrix with scaled columns is a
// matrix of its own, with a matrix's closed forms.
const copiedColumns = 1 << 24

// ScaleColumns returns A diag(s), the columns of A in other units.
//
//	Forward: dst = A (s ∘ b)        Adjoint: dst = s ∘ (A* z)
//
// A sparse matrix, and a dense one of up to 16 million entries, is scaled in a copy on dev.
// The scales must be finite. The result is the caller's to release, and holds a.
func ScaleColumns(dev array.Device, a Operator, s []float64) Restricted {
	d, p := a.Dims()
	if len(s) != p {
		panic(fmt.Sprintf("linops: ScaleColumns of a %d x %d operator by %d numbers", d, p, len(s)))
	}
	switch a := a.(type) {
	case *Dense:
		if a.x != nil && d*p <= copiedColumns {
			return NewDense(dev, scaledColumns(a.x, s))
		}
	case *CSR:
		return newCSR(dev, a.m.scaleColumns(s), a.m.transpose().scaleRows(s))
	}
	c := &columns{a: a, s: dev.Alloc(1, p), host: s}
	dev.Upload(c.s, s)
	return c
}

// scaledColumns is x diag(s).
func scaledColumns(x *mat.Dense, s []float64) *mat.Dense {
	c := mat.DenseCopyOf(x)
	d, _ := x.Dims()
	for i := range d {
		for j, row := 0, c.RawRowView(i); j < len(row); j++ {
			row[j] *= s[j]
		}
	}
	return c
}

// scaleColumns is the matrix times diag(s).
func (m compressed) scaleColumns(s []float64) compressed {
	values := make([]float64, len(m.values))
	for u, v := range m.values {
		values[u] = v * s[m.indices[u]]
	}
	m.values = values
	return m
}

// scaleRows is diag(s) times the matrix.
func (m compressed) scaleRows(s []float64) compressed {
	values := make([]float64, len(m.values))
	for i := range m.rows {
		for u := m.indptr[i]; u < m.indptr[i+1]; u++ {
			values[u] = m.values[u] * s[i]
		}
	}
	m.values = values
	return m
}

// columns is A diag(s) by products with A.
type columns struct {
	a    Operator
	s    array.Batch // 1 x p
	host []float64
	part Restricted // a, where it is the columns' own
}

func (c *columns) Dims() (d, p int) { return c.a.Dims() }

func (c *columns) Forward(dst, b array.Batch) {
	d, p := c.Dims()
	checkForward("ScaleColumns", d, p, dst, b)
	t := dst.Device().Alloc(b.K(), p)
	defer t.Free()
	dst.Device().Mul(t, b, c.s)
	c.a.Forward(dst, t)
}

func (c *columns) Adjoint(dst, z array.Batch) {
	d, p := c.Dims()
	checkAdjoint("ScaleColumns", d, p, dst, z)
	c.a.Adjoint(dst, z)
	dst.Device().Mul(dst, dst, c.s)
}

// ColumnNorms2 is that of A times s^2; nil where A cannot tell.
func (c *columns) ColumnNorms2() []float64 {
	norms := columnNorms2(c.a)
	for j := range norms {
		norms[j] *= c.host[j] * c.host[j]
	}
	return norms
}

// Dense writes A diag(s) down, where A can be.
func (c *columns) Dense() *mat.Dense {
	if a, ok := c.a.(Densifier); ok {
		if x := a.Dense(); x != nil {
			return scaledColumns(x, c.host)
		}
	}
	return nil
}

// Restrict scales A's columns at the coordinates of set: a matrix's in place.
func (c *columns) Restrict(set []int) Restricted {
	r := Restrict(c.a, set)
	if r == nil {
		return nil
	}
	host := make([]float64, len(set))
	for i, j := range set {
		host[i] = c.host[j]
	}
	dev := c.s.Device()
	s := dev.Alloc(1, len(set))
	dev.Upload(s, host)
	if x, ok := r.(*Dense); ok {
		dev.Mul(x.on, x.on, s)
		s.Free()
		return x
	}
	return &columns{a: r, s: s, host: host, part: r}
}

// Bytes counts the scales, and A where it belongs to them.
func (c *columns) Bytes() int64 {
	bytes := c.s.Bytes()
	if c.part != nil {
		bytes += c.part.Bytes()
	}
	return bytes
}

// Release frees them.
func (c *columns) Release() {
	c.s.Free()
	if c.part != nil {
		c.part.Release()
	}
}
