package linops

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/progress"
	"surepipe/space"
)

// Lines is a d x p matrix X that is read in blocks of lines, which are its rows or its columns, from
// a store slower than memory. The functions are safe for concurrent use.
type Lines struct {
	// Rows and Cols are d and p. ByRows says that the lines are rows.
	Rows, Cols int
	ByRows     bool
	// LineBytes is what reading a line costs, in bytes of the store.
	LineBytes int64
	// Block is the number of lines to read at a time, and Views says that Read returns views.
	Block int
	Views bool
	// Read returns the values of the lines from to to-1, row-major with a line a row: dst, which has
	// room for them, or a view that must not be modified and serves until the next call of Drop.
	Read func(dst []float64, from, to int) []float64
	// Pass calls f with all blocks of lines in order, until the context is done, and after each read
	// with the number of bytes that have been read.
	Pass func(ctx context.Context, read func(bytes int64), f func(from, to int)) error
	// Drop says that lines are not needed any more for now.
	Drop func(from, to int)
	// Products sets dst_i to the inner product of line from+i with z, where that takes less than
	// reading the lines; it reports whether it does. Nil where there is no such way.
	Products func(dst []float64, from int, z []float64) bool
	// Means are the means of X's columns, and Centered2 their squared lengths after the means have
	// been subtracted.
	Means, Centered2 []float64
	// Z is a vector of length d for which Product = X* Z is known; nil for none.
	Z, Product []float64
	// Passes is the number of passes before, such as that which found the means.
	Passes int
}

// OutOfCore is a matrix in a store, whose columns are centered and scaled on the fly,
//
//	A = (X - 1 m*) diag(s),   m the means of X's columns, or 0.
//
// A product reads all of X once: a pass, of which it keeps count ([Structure].Passes).
//
//	Forward: dst = A b        Adjoint: dst = A* z
//
// Of a product with b only the columns where b is not 0 are read, where lines are columns. On a set
// of coordinates A is a [Dense] matrix in memory.
type OutOfCore struct {
	knowing
	x        Lines
	centered bool
	scales   []float64 // nil for ones
	reading  *reading
	ctx      context.Context
}

// reading counts what operators that share a store have read.
type reading struct{ passes, bytes atomic.Int64 }

// Passes says what products cost where A is read from a store slower than memory. The zero value
// says that A is in memory.
type Passes struct {
	// Bytes is what a product with A or A* reads from the store, and ColumnBytes the memory that a
	// column takes which [Structure].On has put there.
	Bytes, ColumnBytes int64
	// Adjoint is the operator's, and Columns is On for a set of coordinates, both until the context
	// is done. They report how far they are (package progress).
	Adjoint func(ctx context.Context, dst, z array.Batch) error
	Columns func(ctx context.Context, dev array.Device, set []int) (Restricted, error)
	// Count is the number of passes so far, and the bytes read by these and by parts of passes.
	Count func() (passes, bytes int64)
}

// NewOutOfCore returns the operator of a store, with columns of mean 0 if centered is set. Products and
// restrictions end early when the context is done; their results are then NaN.
func NewOutOfCore(ctx context.Context, x Lines, centered bool) *OutOfCore {
	a := &OutOfCore{x: x, centered: centered, reading: new(reading), ctx: ctx}
	for range x.Passes {
		a.count(a.lines())
	}
	a.know()
	return a
}

func (a *OutOfCore) know() {
	a.structure = complete(a, Structure{
		Entries:      Known(float64(a.x.Rows * a.x.Cols)),
		ColumnNorms2: a.columnNorms2,
		ScaleColumns: a.scaleColumns,
		On:           a.onSpace,
		Passes: Passes{
			Bytes: a.x.LineBytes * int64(a.lines()), ColumnBytes: 8 * int64(a.x.Rows),
			Adjoint: a.adjoint, Columns: a.columns,
			Count: func() (passes, bytes int64) { return a.reading.passes.Load(), a.reading.bytes.Load() },
		},
	})
}

// Centered is the operator of the same store with columns of mean 0, and of the same scales.
func (a *OutOfCore) Centered() *OutOfCore {
	c := &OutOfCore{x: a.x, centered: true, scales: a.scales, reading: a.reading, ctx: a.ctx}
	c.know()
	return c
}

// Statistics are the means of X's columns and the squared lengths of the centered columns, in new
// slices.
func (a *OutOfCore) Statistics() (means, centered2 []float64) {
	return slices.Clone(a.x.Means), slices.Clone(a.x.Centered2)
}

// scaleColumns is A diag(s) by the same store.
func (a *OutOfCore) scaleColumns(_ array.Device, s []float64) Restricted {
	c := &OutOfCore{x: a.x, centered: a.centered, scales: slices.Clone(s), reading: a.reading, ctx: a.ctx}
	for j, v := range a.scales {
		c.scales[j] *= v
	}
	c.know()
	return c
}

// Bytes counts the scales: the matrix is elsewhere.
func (a *OutOfCore) Bytes() int64 { return 0 }

// Release does nothing.
func (a *OutOfCore) Release() {}

// Dims is the size of X.
func (a *OutOfCore) Dims() (d, p int) { return a.x.Rows, a.x.Cols }

func (a *OutOfCore) lines() int {
	if a.x.ByRows {
		return a.x.Rows
	}
	return a.x.Cols
}

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

// count notes what has been read.
func (a *OutOfCore) count(lines int) {
	if lines == a.lines() {
		a.reading.passes.Add(1)
	}
	a.reading.bytes.Add(int64(lines) * a.x.LineBytes)
}

// report reports how far a pass is.
func (a *OutOfCore) report(ctx context.Context) func(bytes int64) {
	report, all := progress.From(ctx), a.x.LineBytes*int64(a.lines())
	return func(bytes int64) {
		report(progress.Report{Stage: progress.Pass, Step: int(bytes), Steps: int(all)})
	}
}

// pass is a pass in which every block is a batch on the device.
func (a *OutOfCore) pass(ctx context.Context, dev array.Device, f func(block array.Batch, from, to int)) error {
	a.count(a.lines())
	buf := a.buffer(a.x.Block)
	return a.x.Pass(ctx, a.report(ctx), func(from, to int) {
		block := dev.Put(a.x.Read(buf, from, to), to-from, a.length())
		f(block, from, to)
		dev.Sync()
		block.Free()
	})
}

func (a *OutOfCore) length() int {
	if a.x.ByRows {
		return a.x.Cols
	}
	return a.x.Rows
}

// Forward sets dst = A b.
func (a *OutOfCore) Forward(dst, b array.Batch) {
	checkForward("OutOfCore", a.x.Rows, a.x.Cols, dst, b)
	dev := dst.Device()
	t := dev.Alloc(b.K(), b.N())
	defer t.Free()
	dev.Copy(t, b)
	a.scale(t)
	if err := a.forward(dst, t); err != nil {
		dev.Fill(dst, math.NaN())
		return
	}
	if a.centered {
		a.center(dst)
	}
}

// forward is X b.
func (a *OutOfCore) forward(dst, b array.Batch) error {
	dev := dst.Device()
	if a.x.ByRows {
		return a.pass(a.ctx, dev, func(block array.Batch, from, to int) {
			dev.Gemm(false, true, 1, b, block, 0, dst.Cols(from, to))
		})
	}
	dev.Fill(dst, 0)
	host := b.ToHost()
	need := make([]bool, b.N())
	for i, v := range host {
		need[i%b.N()] = need[i%b.N()] || v != 0
	}
	buf := a.buffer(1)
	lines := 0
	for j, some := range need {
		if !some {
			continue
		}
		if err := a.ctx.Err(); err != nil {
			return err
		}
		column := dev.Put(a.x.Read(buf, j, j+1), 1, a.length())
		dev.Gemm(false, false, 1, b.Cols(j, j+1), column, 1, dst)
		dev.Sync()
		column.Free()
		a.x.Drop(j, j+1)
		lines++
	}
	a.count(lines)
	return nil
}

// Adjoint sets dst = A* z.
func (a *OutOfCore) Adjoint(dst, z array.Batch) {
	if err := a.adjoint(a.ctx, dst, z); err != nil {
		dst.Device().Fill(dst, math.NaN())
	}
}

// adjoint is A* z, with z's means subtracted first where A's columns are centered.
func (a *OutOfCore) adjoint(ctx context.Context, dst, z array.Batch) error {
	checkAdjoint("OutOfCore", a.x.Rows, a.x.Cols, dst, z)
	dev := dst.Device()
	t := dev.Alloc(z.K(), z.N())
	defer t.Free()
	dev.Copy(t, z)
	if a.centered {
		a.center(t)
	}
	if !a.known(dst, t) {
		if err := a.transposed(ctx, dst, t); err != nil {
			return err
		}
	}
	a.scale(dst)
	return nil
}

// known sets dst = X* z where that is known from before, and reports whether it is.
func (a *OutOfCore) known(dst, z array.Batch) bool {
	if z.K() != 1 || a.x.Z == nil {
		return false
	}
	same, opposite := true, true
	for i, v := range z.ToHost() {
		same, opposite = same && v == a.x.Z[i], opposite && v == -a.x.Z[i]
	}
	if same || opposite {
		dst.Device().Upload(dst, a.x.Product)
	}
	if opposite && !same {
		dst.Device().Lin(dst, -1, dst, 0, array.Batch{})
	}
	return same || opposite
}

// transposed is X* z.
func (a *OutOfCore) transposed(ctx context.Context, dst, z array.Batch) error {
	dev := dst.Device()
	if a.x.ByRows {
		dev.Fill(dst, 0)
		return a.pass(ctx, dev, func(block array.Batch, from, to int) {
			dev.Gemm(false, false, 1, z.Cols(from, to), block, 1, dst)
		})
	}
	if a.x.Products != nil && z.K() == 1 {
		host, out := z.ToHost(), make([]float64, a.x.Block)
		served := true // a single vector: for more a product of matrices is faster
		a.count(a.lines())
		err := a.x.Pass(ctx, a.report(ctx), func(from, to int) {
			if served = served && a.x.Products(out[:to-from], from, host); served {
				dev.Upload(dst.Cols(from, to), out[:to-from])
			}
		})
		if served || err != nil {
			return err
		}
	}
	return a.pass(ctx, dev, func(block array.Batch, from, to int) {
		dev.Gemm(false, true, 1, z, block, 0, dst.Cols(from, to))
	})
}

// scale multiplies the coordinates of every vector by the scales.
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

// center subtracts the mean from every vector.
func (a *OutOfCore) center(z array.Batch) {
	host := z.ToHost()
	for i := range z.K() {
		row := host[i*z.N() : (i+1)*z.N()]
		sum := 0.0
		for _, v := range row {
			sum += v
		}
		if mean := sum / float64(len(row)); math.Abs(mean) > centeredAlready*maxAbs(row) {
			for j := range row {
				row[j] -= mean
			}
		}
	}
	z.Device().Upload(z, host)
}

// centeredAlready is the mean, relative to the largest value, that rounding errors leave: such a
// vector is kept as it is.
const centeredAlready = 0x1p-50

func maxAbs(x []float64) float64 {
	most := 0.0
	for _, v := range x {
		most = max(most, math.Abs(v))
	}
	return most
}

// onSpace is A at a set of coordinates; nil for other spaces.
func (a *OutOfCore) onSpace(dev array.Device, t space.Space) Restricted {
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
		return NewDense(dev, x)
	}
	return r
}

// columns puts columns into memory, in one pass where lines are rows.
func (a *OutOfCore) columns(ctx context.Context, dev array.Device, set []int) (Restricted, error) {
	d, n := a.x.Rows, len(set)
	if n == 0 || d == 0 {
		none := &Dense{d: d, on: dev.Alloc(d, 0)}
		none.know()
		return none, nil
	}
	if last := set[n-1]; last >= a.x.Cols {
		panic(fmt.Sprintf("linops: column %d of a %d x %d OutOfCore", last, d, a.x.Cols))
	}
	out := make([]float64, d*n)
	buf := a.buffer(a.x.Block)
	if a.x.ByRows {
		a.count(a.lines())
		err := a.x.Pass(ctx, a.report(ctx), func(from, to int) {
			block := a.x.Read(buf, from, to)
			each(to-from, func(i int) {
				row, x := out[(from+i)*n:][:n], block[i*a.x.Cols:]
				for k, j := range set {
					row[k] = a.entry(x[j], j)
				}
			})
		})
		if err != nil {
			return nil, err
		}
		return NewDense(dev, mat.NewDense(d, n, out)), nil
	}
	// Consecutive columns are read together, a few at a time, and turned.
	for lo := 0; lo < n; lo += turned {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		some := set[lo:min(lo+turned, n)]
		lines := make([][]float64, len(some))
		for k, j := range some {
			lines[k] = a.x.Read(a.buffer(1), j, j+1)
		}
		each((d+turned-1)/turned, func(t int) {
			for i := t * turned; i < min((t+1)*turned, d); i++ {
				row := out[i*n+lo:]
				for k, j := range some {
					row[k] = a.entry(lines[k][i], j)
				}
			}
		})
		for _, j := range some {
			a.x.Drop(j, j+1)
		}
	}
	a.count(n)
	return NewDense(dev, mat.NewDense(d, n, out)), nil
}

// turned is the side of the squares in which columns are turned into rows.
const turned = 64

// buffer is room for lines, nil where they need none.
func (a *OutOfCore) buffer(lines int) []float64 {
	if a.x.Views {
		return nil
	}
	return make([]float64, lines*a.length())
}

// each calls f for 0 to n-1 on all processors.
func each(n int, f func(i int)) { inParallel(n, part(f)) }

// part is a loop whose parts are calls.
type part func(i int)

func (f part) part(i int) { f(i) }

// entry is that of A.
func (a *OutOfCore) entry(x float64, j int) float64 {
	if a.centered {
		x -= a.x.Means[j]
	}
	if a.scales != nil {
		x *= a.scales[j]
	}
	return x
}
