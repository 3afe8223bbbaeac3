package engine

import (
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/space"
)

// rooted is R A for a square matrix R on the host.
type rooted struct {
	a         linops.Operator
	root      loss.Root
	own       linops.Restricted // a, where it is to be released; or nil
	structure linops.Structure
}

// NewRooted is R A. On a space it is a matrix where the columns of A there are one.
func NewRooted(a linops.Operator, root loss.Root) linops.Operator { return newRooted(a, root, nil) }

func newRooted(a linops.Operator, root loss.Root, own linops.Restricted) linops.Restricted {
	o := &rooted{a: a, root: root, own: own}
	known := linops.StructureOf(a)
	if known.Dense != nil {
		o.structure.Dense = o.dense
		if d, p := a.Dims(); d*p <= weightedEntries {
			o.structure.ColumnNorms2 = func() []float64 { return columnSquares(o.dense()) }
		}
	}
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
				rootColumns(rows, n, root)
				dev.Upload(s.Stored, rows)
				return on
			case s.SparseRows != nil && s.Dense != nil:
				x := s.Dense()
				on.Release()
				rootColumns(x.RawMatrix().Data, n, root)
				return linops.NewDense(dev, x)
			}
			return newRooted(on, root, on)
		}
	}
	return o
}

// Structure has the matrix, and A on subspaces.
func (o *rooted) Structure() linops.Structure { return o.structure }

func (o *rooted) Dims() (d, p int) { return o.a.Dims() }

// Forward sets dst_i = R A b_i.
func (o *rooted) Forward(dst, b array.Batch) {
	o.a.Forward(dst, b)
	o.each(dst, dst, o.root.Forward)
}

// Adjoint sets dst_i = A* R* z_i.
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

// together is the number of columns of a matrix that are taken out at a time.
const together = 16

// rootColumns applies R to the columns of a matrix of n columns, row by row in x.
func rootColumns(x []float64, n int, root loss.Root) {
	if rows, ok := root.(loss.RowRoot); ok {
		rows.Columns(x, n)
		return
	}
	d := len(x) / n
	parallel.Ranges(n, together, func(lo, hi int) {
		columns := make([]float64, together*d)
		for ; lo < hi; lo += together {
			some := min(together, hi-lo)
			for i := range d {
				for j, v := range x[i*n+lo:][:some] {
					columns[j*d+i] = v
				}
			}
			for j := range some {
				column := columns[j*d:][:d]
				root.Forward(column, column)
			}
			for i := range d {
				for j := range some {
					x[i*n+lo+j] = columns[j*d+i]
				}
			}
		}
	})
}

func (o *rooted) dense() *mat.Dense {
	x := mat.DenseCopyOf(linops.StructureOf(o.a).Dense())
	_, p := x.Dims()
	rootColumns(x.RawMatrix().Data, p, o.root)
	return x
}

func (o *rooted) Bytes() int64 {
	if o.own == nil {
		return 0
	}
	return o.own.Bytes()
}

func (o *rooted) Release() {
	if o.own != nil {
		o.own.Release()
	}
}
