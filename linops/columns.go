package linops

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops/internal/product"
	"surepipe/space"
)

// ScaleColumns returns A diag(s), which expresses the columns of A in other units.
//
//	Forward: dst = A (s ∘ b)        Adjoint: dst = s ∘ (A* z)
//
// An operator that can scale its own columns ([Structure].ScaleColumns), such as a sparse matrix or
// a dense one of up to 16 million entries, is copied to dev and scaled there. The scales must be
// finite. The caller releases the result, which holds a.
func ScaleColumns(dev array.Device, a Operator, s []float64) Restricted {
	d, p := a.Dims()
	if len(s) != p {
		panic(fmt.Sprintf("linops: ScaleColumns of a %d x %d operator by %d numbers", d, p, len(s)))
	}
	if scale := StructureOf(a).ScaleColumns; scale != nil {
		return scale(dev, s)
	}
	return newColumns(dev, a, slices.Clone(s))
}

func newColumns(dev array.Device, a Operator, s []float64) *columns {
	d, p := a.Dims()
	c := &columns{a: know(a), s: dev.Alloc(1, len(s)), host: s}
	dev.Upload(c.s, s)
	c.base = base{name: "ScaleColumns", d: d, p: p, run: c.multiply}
	c.Hold(c.s)
	c.structure = Complete(c, columnsStructure(c))
	return c
}

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

// columns is A diag(s) by products with A.
type columns struct {
	base
	a    known
	s    array.Batch // 1 x p
	host []float64
}

func (c *columns) multiply(w product.Direction, dst, x array.Batch) {
	if w == product.Adjoint {
		c.a.Adjoint(dst, x)
		dst.Device().Mul(dst, dst, c.s)
		return
	}
	t := dst.Device().Alloc(x.K(), c.p)
	defer t.Free()
	dst.Device().Mul(t, x, c.s)
	c.a.Forward(dst, t)
}

// on scales A's columns at a set of coordinates: those of a matrix in place. It returns nil on
// other spaces.
func (c *columns) on(dev array.Device, t space.Space) Restricted {
	if t.Form().Kind == space.Subset {
		if r := restrict(dev, &c.a, t); r != nil {
			return c.at(dev, t, r)
		}
	}
	return nil
}

func (c *columns) at(dev array.Device, t space.Space, r Restricted) Restricted {
	host := lists.Pick(c.host, t.Form().Set)
	if x, ok := r.(*Dense); ok {
		s := dev.Alloc(1, len(host))
		dev.Upload(s, host)
		dev.Mul(x.on, x.on, s)
		s.Free()
		return x
	}
	scaled := newColumns(dev, r, host)
	return Owning(scaled, scaled, r)
}
