package engine

import (
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/space"
)

// rowMap is a square matrix times A, but for its products.
type rowMap struct {
	a         linops.Operator
	own       linops.Restricted // a, where it is to be released; or nil
	structure linops.Structure
}

// know takes the matrix into the structure where A's is known, which it returns.
func (o *rowMap) know(dense func() *mat.Dense) linops.Structure {
	known := linops.StructureOf(o.a)
	if known.Dense != nil {
		o.structure.Dense = dense
		if d, p := o.a.Dims(); d*p <= linops.MostDense {
			o.structure.ColumnNorms2 = func() []float64 { return columnSquares(dense()) }
		}
	}
	return known
}

func (o *rowMap) Structure() linops.Structure { return o.structure }

func (o *rowMap) Dims() (d, p int) { return o.a.Dims() }

func (o *rowMap) Bytes() int64 {
	if o.own == nil {
		return 0
	}
	return o.own.Bytes()
}

func (o *rowMap) Release() {
	if o.own != nil {
		o.own.Release()
	}
}

// WeightedRows is diag(root) A.
type WeightedRows struct {
	rowMap
	root array.Batch // 1 x d
	host []float64
}

// NewWeightedRows keeps the structure of A's columns.
func NewWeightedRows(a linops.Operator, root array.Batch, host []float64, own linops.Restricted) *WeightedRows {
	o := &WeightedRows{rowMap{a: a, own: own}, root, host}
	wrap := func(a linops.Restricted) linops.Restricted {
		if a == nil {
			return nil
		}
		if weigh := linops.StructureOf(a).WeighRows; weigh != nil && weigh(host) {
			return a
		}
		return NewWeightedRows(a, root, host, a)
	}
	known := o.know(o.dense)
	if known.On != nil {
		o.structure.On = func(dev array.Device, t space.Space) linops.Restricted {
			if all := o.all(dev, t, known.Stored); all != nil {
				return all
			}
			return wrap(known.On(dev, t))
		}
	}
	if own != nil { // columns of a matrix, as active sets take them
		if entries := known.SparseRows; entries != nil {
			o.structure.SparseRows = sync.OnceValue(func() space.Rows { return o.sparse(entries()) })
		}
		if known.Shifted != nil {
			o.structure.Shifted = o.shifted(known.Shifted)
		}
	}
	if picked := known.Picked; picked != nil && !slices.Contains(host, 0) {
		o.structure.Picked = func(shape array.Shape) *linops.Picked { return o.picked(picked(shape)) }
	}
	if known.ScaleColumns != nil {
		o.structure.ScaleColumns = func(dev array.Device, s []float64) linops.Restricted {
			return wrap(known.ScaleColumns(dev, s))
		}
	}
	return o
}

// all are all columns of a matrix, weighed as they are copied; nil for other spaces and operators.
func (o *WeightedRows) all(dev array.Device, t space.Space, stored array.Batch) linops.Restricted {
	d, p := o.a.Dims()
	f := t.Form()
	if stored.IsZero() || stored.K() != d || stored.N() != p || f.Kind != space.Subset || len(f.Set) != p {
		return nil
	}
	rows := dev.Alloc(d, p)
	dev.LinEach(rows, o.host, stored, nil, array.Batch{})
	return linops.DenseOf(rows)
}

func (o *WeightedRows) Forward(dst, b array.Batch) {
	o.a.Forward(dst, b)
	dst.Device().Mul(dst, dst, o.root)
}

func (o *WeightedRows) Adjoint(dst, z array.Batch) {
	dev := z.Device()
	t := dev.Alloc(z.K(), z.N())
	defer t.Free()
	dev.Mul(t, z, o.root)
	o.a.Adjoint(dst, t)
}

// picked are the entries that A picks, with weights.
func (o *WeightedRows) picked(p *linops.Picked) *linops.Picked {
	if p == nil || p.Weights != nil {
		return nil
	}
	p.Oblique = false // the weights are those of the projection (package rewrite)
	p.Weights = make([]float64, len(o.host))
	floats.MulTo(p.Weights, o.host, o.host)
	if remove := p.Remove; remove != nil {
		p.Remove = func(z array.Batch) {
			dev := z.Device()
			inverse := dev.Alloc(1, len(o.host))
			defer inverse.Free()
			roots := lists.Map(o.host, func(v float64) float64 { return 1 / v })
			dev.Upload(inverse, roots)
			dev.Mul(z, z, inverse)
			remove(z)
			dev.Mul(z, z, o.root)
		}
	}
	return p
}

func (o *WeightedRows) dense() *mat.Dense {
	x := mat.DenseCopyOf(linops.StructureOf(o.a).Dense())
	x.Apply(func(i, _ int, v float64) float64 { return o.host[i] * v }, x)
	return x
}

func (o *WeightedRows) sparse(rows space.Rows) space.Rows {
	weighted := slices.Clone(rows.Values)
	for i, w := range o.host {
		floats.Scale(w, weighted[rows.Indptr[i]:rows.Indptr[i+1]])
	}
	rows.Values = weighted
	return rows
}

func (o *WeightedRows) shifted(s *linops.Shifted) *linops.Shifted {
	return &linops.Shifted{Rows: o.sparse(s.Rows), Left: floats.MulTo(make([]float64, len(s.Left)), s.Left, o.host),
		Right: s.Right}
}

// Unweighted returns the operator A of diag(root) A, and root; nil for an operator without weights.
func Unweighted(a linops.Operator) (inner linops.Operator, root []float64) {
	if w, weighted := a.(*WeightedRows); weighted {
		return w.a, w.host
	}
	return a, nil
}
