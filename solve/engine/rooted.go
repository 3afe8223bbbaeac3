package engine

import (
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/space"
)

// rooted is R A for a square matrix R on the host.
type rooted struct {
	rowMap
	root   loss.Root
	square func() []float64 // the blocks of R*R, nil where R has none
}

// NewRooted is R A. On a space it is a matrix where the columns of A there are one and R has no blocks.
func NewRooted(a linops.Operator, root loss.Root) linops.Operator { return newRooted(a, root, nil) }

func newRooted(a linops.Operator, root loss.Root, own linops.Restricted) linops.Restricted {
	square := root.Square()
	if square != nil {
		square = sync.OnceValue(square)
	}
	return rootedBy(a, root, own, square)
}

func rootedBy(a linops.Operator, root loss.Root, own linops.Restricted, square func() []float64) linops.Restricted {
	o := &rooted{rowMap{a: a, own: own}, root, square}
	known := o.know(o.dense)
	if square != nil {
		o.structure.Products = o.products
		if known.Blocks != nil {
			o.structure.Blocks = func(p []float64, order int) []float64 {
				return o.blocks(known.Blocks(p, order), order)
			}
		}
		o.structure.Gram = func(dst array.Batch) {
			if !o.products(dst, o) {
				images := linops.Images(dst.Device(), o)
				dst.Device().Gemm(false, true, 1, images, images, 0, dst)
				images.Free()
			}
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
			case n == 0 || square != nil || d*n > linops.MostDense:
			case s.WeighRows != nil && !s.Stored.IsZero():
				rows, host := s.Stored.Reshape(1, d*n).HostRow(0)
				if !host {
					rows = s.Stored.ToHost()
				}
				if root.Columns(rows, n); !host {
					dev.Upload(s.Stored, rows)
				}
				return on
			case s.SparseRows != nil && s.Dense != nil:
				x := s.Dense()
				on.Release()
				root.Columns(x.RawMatrix().Data, n)
				return linops.NewDense(dev, x)
			}
			return rootedBy(on, root, on, square)
		}
	}
	return o
}

func (o *rooted) products(dst array.Batch, b linops.Operator) bool {
	other, ok := b.(*rooted)
	return ok && other.root == o.root && linops.BlockProducts(dst, o.a, other.a, o.square())
}

// blocks are R_i V_i R_i* for symmetric blocks V_i, which they replace.
func (o *rooted) blocks(v []float64, order int) []float64 {
	if v == nil {
		return nil
	}
	o.root.Columns(v, order)
	for block := range slices.Chunk(v, order*order) {
		for i := range order {
			for j := range i {
				block[i*order+j], block[j*order+i] = block[j*order+i], block[i*order+j]
			}
		}
	}
	o.root.Columns(v, order)
	return v
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

func (o *rooted) each(dst, v array.Batch, of func(dst, v []float64)) {
	one := make([]float64, v.N())
	for i := range v.K() {
		v.Device().Download(one, v.Rows(i, i+1))
		of(one, one)
		dst.Device().Upload(dst.Rows(i, i+1), one)
	}
}

// Unrooted is A of an R A that keeps it; nil for others.
func Unrooted(a linops.Operator) linops.Operator {
	if o, ok := a.(*rooted); ok {
		return o.a
	}
	return nil
}

func (o *rooted) dense() *mat.Dense {
	x := mat.DenseCopyOf(linops.StructureOf(o.a).Dense())
	_, p := x.Dims()
	o.root.Columns(x.RawMatrix().Data, p)
	return x
}
