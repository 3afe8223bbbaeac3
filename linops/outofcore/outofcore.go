package outofcore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/linops/internal/product"
	"surepipe/space"
)

// Lines is a d x p matrix X that is read in blocks of lines, which are its rows or its columns, from
// a store slower than memory. The functions are safe for concurrent use.
type Lines struct {
	// Rows and Cols are d and p. ByRows says that the lines are rows.
	Rows, Cols int
	ByRows     bool
	// Size is what reading the lines from to to-1 costs, in bytes of the store.
	Size func(from, to int) int64
	// Block is the number of lines to read at a time, and Views says that Read returns views.
	Block int
	Views bool
	// Read returns the values of the lines from to to-1, row-major with a line a row: dst, which has
	// room for them, or a view that must not be modified and serves until the next call of Drop.
	Read func(dst []float64, from, to int) []float64
	// Pass calls f with all blocks of lines in order, until the context is done, and after each read
	// with the number of bytes that have been read.
	Pass func(ctx context.Context, read func(bytes int64), f func(from, to int)) error
	// Guard runs f, and returns the error of a store that ends where f reads it outside of Pass; nil for none.
	Guard func(f func()) error
	// Drop says that lines are not needed any more for now.
	Drop func(from, to int)
	// Products sets dst_i to the inner product of line from+i with z, where that takes less than
	// reading the lines; it reports whether it does. Nil where there is no such way.
	Products func(dst []float64, from int, z []float64) bool
	// Entries are the entries of the lines from to to-1 of a sparse matrix, in the slices of e where
	// these have room; nil for a matrix that is read. Nonzeros is the number of entries in each column.
	Entries  func(e *LineEntries, from, to int)
	Nonzeros []int64
	// Means are the means of X's columns, and Centered2 their squared lengths after the means have
	// been subtracted.
	Means, Centered2 []float64
	// Gram are the products of two columns after the means have been subtracted, p x p; nil where they are not known.
	Gram []float64
	// Z is a vector of length d for which Product = X* Z is known; nil for none.
	Z, Product []float64
	// Passes is the number of passes before, such as that which found the means.
	Passes int
}

// LineEntries are those of a few lines of a sparse matrix: line i of them has Values[u] at Indices[u], which
// increase, for Indptr[i] <= u < Indptr[i+1].
type LineEntries struct {
	Indptr  []int
	Indices []int32
	Values  []float64
}

// OutOfCore is a matrix in a store, whose columns are centered and scaled on the fly,
//
//	A = (X - 1 m*) diag(s),   m the means of X's columns, or 0.
//
// A product reads all of X once: a pass, of which it keeps count ([linops.Structure].Passes).
//
//	Forward: dst = A b        Adjoint: dst = A* z
//
// Of a product with b only the columns where b is not 0 are read, where lines are columns. On a set
// of coordinates A is a matrix in memory, [linops.Dense] or, as X is, sparse.
type OutOfCore struct {
	structure linops.Structure
	*source
	products lineProducts
	centered bool
	scales   []float64 // nil for ones
}

// source is the X that several operators share, with a count of what has been read.
type source struct {
	x             Lines
	ctx           context.Context
	passes, bytes atomic.Int64
}

// lineProducts are the products with X, neither centered nor scaled.
type lineProducts interface {
	forward(dst, b array.Batch) error
	transposed(ctx context.Context, dst, z array.Batch) error
	// columns puts columns of A into memory, in one pass where lines are rows.
	columns(ctx context.Context, dev array.Device, set []int, u units) (linops.Restricted, error)
	// columnBytes is the memory that a column takes there.
	columnBytes(j int) int64
}

// units are those of A's columns, (X - 1 m*) diag(s).
type units struct {
	means, scales []float64 // nil for zeros and ones
}

func (u units) entry(x float64, j int) float64 {
	if u.means != nil {
		x -= u.means[j]
	}
	return u.scaled(x, j)
}

func (u units) scaled(x float64, j int) float64 {
	if u.scales != nil {
		x *= u.scales[j]
	}
	return x
}

// NewOutOfCore returns the operator of a store, with columns of mean 0 if centered is set. Products and
// restrictions end early when the context is done; their results are then NaN.
func NewOutOfCore(ctx context.Context, x Lines, centered bool) *OutOfCore {
	a := &OutOfCore{source: &source{x: x, ctx: ctx}, centered: centered}
	a.products = denseLines{a.source}
	if x.Entries != nil {
		a.products = sparseLines{a.source}
	}
	for range x.Passes {
		a.count(0, a.lines())
	}
	a.know()
	return a
}

func (a *OutOfCore) know() {
	entries := float64(a.x.Rows * a.x.Cols)
	if a.x.Entries != nil {
		entries = 0
		for _, n := range a.x.Nonzeros {
			entries += float64(n)
		}
	}
	var gram func(dst array.Batch)
	var normal func(dst, b array.Batch)
	if a.x.Gram != nil {
		gram, normal = a.gram, a.normal
	}
	a.structure = linops.Complete(a, linops.Structure{
		Entries:      linops.Known(entries),
		ColumnNorms2: a.columnNorms2,
		ScaleColumns: a.scaleColumns,
		On:           a.onSpace,
		Gram:         gram,
		Normal:       normal,
		Passes: linops.Passes{
			Bytes: a.x.Size(0, a.lines()), ColumnBytes: a.products.columnBytes,
			Adjoint: a.adjoint, Columns: a.at,
			Count: func() (passes, bytes int64) { return a.passes.Load(), a.bytes.Load() },
		},
	})
}

// Centered is the operator of the same store with columns of mean 0, and of the same scales.
func (a *OutOfCore) Centered() *OutOfCore {
	c := &OutOfCore{source: a.source, products: a.products, centered: true, scales: a.scales}
	c.know()
	return c
}

// Statistics are the means of X's columns and the squared lengths of the centered columns, in new
// slices.
func (a *OutOfCore) Statistics() (means, centered2 []float64) {
	return slices.Clone(a.x.Means), slices.Clone(a.x.Centered2)
}

func (a *OutOfCore) scaleColumns(_ array.Device, s []float64) linops.Restricted {
	c := &OutOfCore{source: a.source, products: a.products, centered: a.centered, scales: slices.Clone(s)}
	for j, v := range a.scales {
		c.scales[j] *= v
	}
	c.know()
	return c
}

func (a *OutOfCore) Structure() linops.Structure { return a.structure }

// Bytes counts the scales: the matrix is elsewhere.
func (a *OutOfCore) Bytes() int64 { return 0 }

func (a *OutOfCore) Release()         {}
func (a *OutOfCore) Dims() (d, p int) { return a.x.Rows, a.x.Cols }

func (a *OutOfCore) columnNorms2() []float64 {
	norms := slices.Clone(a.x.Centered2)
	for j := range norms {
		if !a.centered {
			norms[j] += float64(a.x.Rows) * a.x.Means[j] * a.x.Means[j]
		}
		if a.scales != nil {
			norms[j] *= a.scales[j] * a.scales[j]
		}
	}
	return norms
}

func (a *OutOfCore) gram(dst array.Batch) {
	p := a.x.Cols
	if dst.K() != p || dst.N() != p {
		panic(fmt.Sprintf("linops: Gram of a %d x %d OutOfCore into %s", a.x.Rows, p, dst))
	}
	g, u := slices.Clone(a.x.Gram), units{scales: a.scales}
	for i, m := range a.x.Means {
		for j, v := range g[i*p : (i+1)*p] {
			if !a.centered {
				v += float64(a.x.Rows) * m * a.x.Means[j]
			}
			g[i*p+j] = u.scaled(u.scaled(v, i), j)
		}
	}
	dst.Device().Upload(dst, g)
}

// normal applies A*A by the products of the columns, which are known in other units.
func (a *OutOfCore) normal(dst, b array.Batch) {
	product.CheckNormal("OutOfCore", a.x.Cols, dst, b)
	dev, p, means := dst.Device(), a.x.Cols, a.x.Means
	dev.Copy(dst, b)
	a.scale(dst)
	x := blas64.General{Rows: b.K(), Cols: p, Stride: p, Data: dst.ToHost()}
	z := blas64.General{Rows: b.K(), Cols: p, Stride: p, Data: make([]float64, b.K()*p)}
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, x, blas64.General{Rows: p, Cols: p, Stride: p, Data: a.x.Gram}, 0, z)
	for k := 0; k < x.Rows && !a.centered; k++ {
		floats.AddScaled(z.Data[k*p:(k+1)*p], float64(a.x.Rows)*floats.Dot(means, x.Data[k*p:(k+1)*p]), means)
	}
	dev.Upload(dst, z.Data)
	a.scale(dst)
}

func (a *OutOfCore) Forward(dst, b array.Batch) {
	product.CheckForward("OutOfCore", a.x.Rows, a.x.Cols, dst, b)
	dev := dst.Device()
	t := dev.Alloc(b.K(), b.N())
	defer t.Free()
	dev.Copy(t, b)
	a.scale(t)
	if err := a.guarded(func() error { return a.products.forward(dst, t) }); err != nil {
		dev.Fill(dst, math.NaN())
		return
	}
	if a.centered {
		a.center(dst)
	}
}

func (a *OutOfCore) Adjoint(dst, z array.Batch) {
	if err := a.adjoint(a.ctx, dst, z); err != nil {
		dst.Device().Fill(dst, math.NaN())
	}
}

// adjoint is A* z, with z's means subtracted first where A's columns are centered.
func (a *OutOfCore) adjoint(ctx context.Context, dst, z array.Batch) error {
	product.CheckAdjoint("OutOfCore", a.x.Rows, a.x.Cols, dst, z)
	dev := dst.Device()
	if a.centered {
		t := dev.Alloc(z.K(), z.N())
		defer t.Free()
		dev.Copy(t, z)
		a.center(t)
		z = t
	}
	if !a.known(dst, z) {
		if err := a.guarded(func() error { return a.products.transposed(ctx, dst, z) }); err != nil {
			return err
		}
	}
	a.scale(dst)
	return nil
}

func (s *source) guarded(f func() error) (err error) {
	if s.x.Guard == nil {
		return f()
	}
	if lost := s.x.Guard(func() { err = f() }); lost != nil {
		return lost
	}
	return err
}

// known sets dst = X* z where that is known from before, and reports whether it is.
func (a *OutOfCore) known(dst, z array.Batch) bool {
	if z.K() != 1 || a.x.Z == nil {
		return false
	}
	return product.Known{Z: a.x.Z, Product: a.x.Product}.Recall(dst, z.ToHost())
}

func (a *OutOfCore) scale(b array.Batch) {
	if a.scales == nil {
		return
	}
	dev := b.Device()
	s := dev.Alloc(1, len(a.scales))
	defer s.Free()
	dev.Upload(s, a.scales)
	dev.Mul(b, b, s)
}

func (a *OutOfCore) center(z array.Batch) {
	dev, row := z.Device(), make([]float64, z.N())
	for i := range z.K() {
		dev.Download(row, z.Rows(i, i+1))
		sum := 0.0
		for _, v := range row {
			sum += v
		}
		if mean := sum / float64(len(row)); math.Abs(mean) > centeredAlready*lists.MaxAbs(row) {
			for j := range row {
				row[j] -= mean
			}
			dev.Upload(z.Rows(i, i+1), row)
		}
	}
}

// centeredAlready is the mean, relative to the largest value, that rounding errors leave: such a
// vector is kept as it is.
const centeredAlready = 0x1p-50

func (a *OutOfCore) onSpace(dev array.Device, t space.Space) linops.Restricted {
	f := t.Form()
	if f.Kind != space.Subset {
		return nil
	}
	r, err := a.columns(a.ctx, dev, f.Set)
	if err != nil {
		x := mat.NewDense(a.x.Rows, max(len(f.Set), 1), nil)
		for i := range x.RawMatrix().Data {
			x.RawMatrix().Data[i] = math.NaN()
		}
		return linops.NewDense(dev, x)
	}
	return r
}

func (a *OutOfCore) at(ctx context.Context, dev array.Device, t space.Space) (linops.Restricted, error) {
	return a.columns(ctx, dev, t.Form().Set)
}

func (a *OutOfCore) columns(ctx context.Context, dev array.Device, set []int) (linops.Restricted, error) {
	if len(set) == 0 || a.x.Rows == 0 {
		return linops.DenseOf(dev.Alloc(a.x.Rows, 0)), nil
	}
	if last := set[len(set)-1]; last >= a.x.Cols {
		panic(fmt.Sprintf("linops: column %d of a %d x %d OutOfCore", last, a.x.Rows, a.x.Cols))
	}
	u := units{scales: a.scales}
	if a.centered {
		u.means = a.x.Means
	}
	var on linops.Restricted
	err := a.guarded(func() (err error) {
		on, err = a.products.columns(ctx, dev, set, u)
		return err
	})
	if err != nil {
		return nil, err
	}
	return on, nil
}
