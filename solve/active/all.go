package active

import (
	"context"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/progress"
	"surepipe/solve/engine"
	"surepipe/solve/restrict"
	"surepipe/space"
)

// mostAll is the number of columns up to which the Gram matrix of all is computed, and rowsPerColumn how many rows a
// column has at least.
const (
	mostAll       = 512
	rowsPerColumn = 8
)

// manyRows reports that A may be a dense matrix of many more rows than columns.
func manyRows(a linops.Operator) bool {
	d, p := a.Dims()
	known := linops.StructureOf(a)
	return 0 < p && p <= mostAll && rowsPerColumn*p <= d && known.On != nil && known.Products == nil &&
		known.Passes.Bytes == 0 && known.SparseRows == nil &&
		(known.Dense != nil || known.Entries == linops.Known(float64(d)*float64(p)))
}

// allColumns are all columns of a matrix, with their Gram matrix, for solves at any y and of any regularizer at once.
// Each of those who hold it releases it.
type allColumns struct {
	mu    sync.Mutex
	holds int
	tried bool // to make part
	part  *restrict.Columns
	gram  []float64 // p x p
	norms []float64 // of the columns
	begun []start   // the last ones
}

// start has observations, and the gradient at b = 0.
type start struct{ y, at []float64 }

// start is the gradient at b = 0, nil where it is not known.
func (a *allColumns) start(y []float64) []float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.IndexFunc(a.begun, func(s start) bool { return slices.Equal(s.y, y) }); i >= 0 {
		return a.begun[i].at
	}
	return nil
}

// began keeps a gradient at b = 0, one for each that holds the columns.
func (a *allColumns) began(y, at []float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun = append(a.begun[max(len(a.begun)-max(a.holds, 1)+1, 0):], start{y, at})
}

func (a *allColumns) hold() *allColumns {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holds++
	return a
}

func (a *allColumns) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.holds--; a.holds > 0 {
		return
	}
	if a.part != nil {
		a.part.Release()
	}
	a.part, a.gram, a.begun, a.tried = nil, nil, nil, false
}

// columns are the columns of a problem's A, which are multiplied when they are first asked for; nil where its
// structure does not have their entries.
func (a *allColumns) columns(ctx context.Context, p engine.Problem) (*restrict.Columns, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tried {
		return a.part, nil
	}
	dev := p.Device.Request() // a lack of memory fails the solve that met it
	_, n := p.A.Dims()
	set := lists.Upto(n)
	t := space.All(n)
	if linops.StructureOf(p.A).Stored.IsZero() {
		t = space.Coordinates(dev, n, set)
	}
	op, _ := linops.On(dev, p.A, t)
	part := &restrict.Columns{Confined: &restrict.Confined{Problem: engine.Problem{A: op, Device: dev}, Op: op, Set: t},
		Set: set}
	done := false
	defer func() {
		if !done { // also where A panics
			part.Release()
		}
	}()
	stored := linops.StructureOf(op).Stored
	if err := dev.Err(); err != nil || stored.IsZero() || !stored.Contiguous() {
		a.tried = err == nil
		return nil, err
	}
	gram, err := gramByRows(ctx, dev, stored)
	if err != nil {
		return nil, err
	}
	done, a.tried = true, true
	a.part = part
	a.set(gram, n)
	return part, nil
}

func (a *allColumns) set(gram []float64, n int) {
	a.gram, a.norms = gram, make([]float64, n)
	for j := range a.norms {
		a.norms[j] = math.Sqrt(gram[j*n+j])
	}
}

// unheld takes the Gram matrix of columns that are not in memory, where it is known.
func (a *allColumns) unheld(p engine.Problem) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tried {
		return nil
	}
	dev := p.Device.Request()
	gram := linops.GramOf(dev, p.A)
	if err := dev.Err(); err != nil {
		return err
	}
	_, n := p.A.Dims()
	a.tried = true
	a.set(gram, n)
	return nil
}

// gradient sets g to the gradient where b is given on a set, of that at 0, and returns the sum of the lengths of the
// terms of A b.
func (a *allColumns) gradient(g, at0 []float64, set []int, b []float64) (size float64) {
	copy(g, at0)
	for i, j := range set {
		if b[i] != 0 {
			floats.AddScaled(g, b[i], a.row(j))
			size += a.norms[j] * math.Abs(b[i])
		}
	}
	return size
}

// rowsAtOnce is the number of rows whose products are added between two looks at the context.
const rowsAtOnce = 1 << 14

// gramByRows is X*X, by some rows at a time.
func gramByRows(ctx context.Context, dev array.Device, x array.Batch) ([]float64, error) {
	n := x.N()
	sum := dev.Alloc(1, n*n)
	defer sum.Free()
	report := progress.From(ctx)
	for from := 0; from < x.K(); from += rowsAtOnce {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		report(progress.Report{Stage: progress.Gram, Step: from, Steps: x.K()})
		rows := x.Rows(from, min(from+rowsAtOnce, x.K()))
		shape, flat := array.Shape{Rows: rows.K(), Cols: n}, rows.Reshape(1, rows.K()*n)
		dev.GemmEach(true, false, 1, flat, shape, flat, shape, min(float64(from), 1), sum)
	}
	return sum.ToHost(), dev.Err()
}

// row is row j of the Gram matrix, after columns.
func (a *allColumns) row(j int) []float64 { return a.gram[j*len(a.norms) : (j+1)*len(a.norms)] }
