package engine

import (
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/space"
)

// rooted is R A for a square matrix R on the host.
type rooted struct {
	rowMap
	root loss.Root
}

// NewRooted is R A. On a space it is a matrix where the columns of A there are one.
func NewRooted(a linops.Operator, root loss.Root) linops.Operator { return newRooted(a, root, nil) }

func newRooted(a linops.Operator, root loss.Root, own linops.Restricted) linops.Restricted {
	o := &rooted{rowMap{a: a, own: own}, root}
	known := o.know(o.dense)
	if known.On != nil {
		o.structure.On = func(dev array.Device, t space.Space) linops.Restricted {
			on := known.On(dev, t)
			if on == nil {
				return nil
			}
			d, n := on.Dims()
			s := linops.StructureOf(on)
			switch {
			case n == 0 || d*n > weightedEntries:
			case s.WeighRows != nil && !s.Stored.IsZero():
				rows := s.Stored.ToHost()
				root.Columns(rows, n)
				dev.Upload(s.Stored, rows)
				return on
			case s.SparseRows != nil && s.Dense != nil:
				x := s.Dense()
				on.Release()
				root.Columns(x.RawMatrix().Data, n)
				return linops.NewDense(dev, x)
			}
			return newRooted(on, root, on)
		}
	}
	return o
}

func (o *rooted) Forward(dst, b array.Batch) {
	o.a.Forward(dst, b)
	o.each(dst, dst, o.root.Forward)
}

func (o *rooted) Adjoint(dst, z array.Batch) {
	t := z.Device().Alloc(z.K(), z.N())
	defer t.Free()
	o.each(t, z, o.root.Adjoint)
	o.a.Adjoint(dst, t)
}

// each applies a map on the host to each vector.
func (o *rooted) each(dst, v array.Batch, of func(dst, v []float64)) {
	host := v.ToHost()
	for i := range v.K() {
		one := host[i*v.N():][:v.N()]
		of(one, one)
	}
	dst.Device().Upload(dst, host)
}

func (o *rooted) dense() *mat.Dense {
	x := mat.DenseCopyOf(linops.StructureOf(o.a).Dense())
	_, p := x.Dims()
	o.root.Columns(x.RawMatrix().Data, p)
	return x
}
