package linops

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops/internal/product"
	"surepipe/linops/internal/sparse"
	"surepipe/space"
)

// CSR is a sparse d x p matrix X, compressed by rows.
//
//	Forward: dst = X b        Adjoint: dst = X' z
//
// X' is stored as well, compressed by rows, so that both directions sum each entry of the result in
// a fixed order, in parallel over entries.
type CSR struct {
	base
	m, t     sparse.Matrix // host copy, and its transpose
	x, xt    array.CSR
	colNorms []float64
}

// NewCSR puts a sparse matrix on a device: row i has values[u] in column indices[u] for indptr[i]
// <= u < indptr[i+1]. Columns may come in any order; entries given twice add up. It returns an
// error where the three lists do not describe a matrix of that size or a value is not finite. The
// slices are copied.
func NewCSR(dev array.Device, rows, cols int, indptr, indices []int, values []float64) (*CSR, error) {
	if rows < 0 || cols < 0 || cols > math.MaxInt32 || rows > math.MaxInt32 {
		return nil, fmt.Errorf("linops: sparse matrix of size %d x %d", rows, cols)
	}
	if len(indptr) != rows+1 {
		return nil, fmt.Errorf("linops: sparse matrix of %d rows has %d row pointers, want %d", rows, len(indptr),
			rows+1)
	}
	if len(indices) != len(values) {
		return nil, fmt.Errorf("linops: sparse matrix has %d column indices and %d values", len(indices), len(values))
	}
	if indptr[0] != 0 || indptr[rows] != len(values) {
		return nil, fmt.Errorf("linops: sparse matrix's row pointers run from %d to %d, want 0 to %d", indptr[0],
			indptr[rows], len(values))
	}
	for i := range rows {
		if indptr[i+1] < indptr[i] {
			return nil, fmt.Errorf("linops: sparse matrix's row pointer %d is %d, less than %d before it", i+1,
				indptr[i+1], indptr[i])
		}
	}
	for i := range rows {
		for u := indptr[i]; u < indptr[i+1]; u++ {
			if c := indices[u]; c < 0 || c >= cols {
				return nil, fmt.Errorf("linops: sparse matrix's column index %d (row %d) is %d, want 0 to %d", u, i,
					c, cols-1)
			}
			if v := values[u]; math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("linops: sparse matrix's value %d (row %d, column %d) is %v", u, i, indices[u],
					v)
			}
		}
	}
	// Transposing sorts: twice, and every row is in order.
	return newCSRInOrder(dev, sparse.Matrix{D: rows, P: cols, Rows: space.Rows{Indptr: slices.Clone(indptr),
		Indices: slices.Clone(indices), Values: slices.Clone(values)}}), nil
}

// newCSRInOrder is that of a matrix whose rows may be in any order and have entries in the same place. It keeps the
// slices.
func newCSRInOrder(dev array.Device, m sparse.Matrix) *CSR {
	t := m.Transpose()
	if m.InOrder() {
		return newCSR(dev, m, t)
	}
	t = t.Merge()
	return newCSR(dev, t.Transpose(), t) // transposing sorts
}

// NewCSRBothWays puts a rows x cols matrix on a device that is at hand compressed by rows and by columns,
// the columns of a row in increasing order and each once. It keeps the slices, which must not be
// modified afterwards.
func NewCSRBothWays(dev array.Device, rows, cols int, byRows, byColumns space.Rows) *CSR {
	return newCSR(dev, sparse.Matrix{D: rows, P: cols, Rows: byRows}, sparse.Matrix{D: cols, P: rows, Rows: byColumns})
}

func newCSR(dev array.Device, m, t sparse.Matrix) *CSR {
	a := &CSR{
		m:        m,
		t:        t,
		x:        dev.NewCSR(m.D, m.P, m.Indptr, m.Indices, m.Values),
		xt:       dev.NewCSR(t.D, t.P, t.Indptr, t.Indices, t.Values),
		colNorms: make([]float64, m.P),
	}
	a.base = base{name: "CSR", d: m.D, p: m.P, run: func(w product.Direction, dst, x array.Batch) {
		matrix := a.x
		if w == product.Adjoint {
			matrix = a.xt
		}
		dst.Device().MulCSR(dst, matrix, x)
	}}
	a.Hold(a.x, a.xt)
	for u, c := range m.Indices {
		a.colNorms[c] += m.Values[u] * m.Values[u]
	}
	s := Structure{
		Entries:      Known(float64(len(m.Values))),
		ColumnNorms2: func() []float64 { return append([]float64(nil), a.colNorms...) },
		ScaleColumns: func(dev array.Device, s []float64) Restricted {
			return newCSR(dev, a.m.ScaleColumns(s), a.t.ScaleRows(s))
		},
		On: a.onSpace, Pairs: sync.OnceValue(func() *Pairs { return sparsePairs(a.m.Rows) }),
	}
	s.SparseRows, s.RowNorms2 = func() space.Rows { return a.m.Rows }, a.rowNorms2
	if m.D > 0 && m.P > 0 {
		s.Dense = a.Dense
	}
	a.structure = Complete(a, s)
	return a
}

// onSpace is the sparse matrix X E for a set of coordinates and for clusters, where E has one entry
// a row at most; nil for other spaces.
func (a *CSR) onSpace(dev array.Device, t space.Space) Restricted {
	switch f := t.Form(); f.Kind {
	case space.Subset:
		// The rows of X' are the columns of X.
		columns := a.t.Pick(f.Set)
		return newCSR(dev, columns.Transpose(), columns)
	case space.Cluster:
		rows := f.Average()
		average := sparse.Matrix{D: len(rows.Indptr) - 1, P: a.p, Rows: rows}
		merged := a.m.Times(average.Transpose()).Transpose().Merge()
		return newCSR(dev, merged.Transpose(), merged)
	}
	return nil
}

// Nonzeros is the number of stored entries.
func (a *CSR) Nonzeros() int { return len(a.m.Values) }

// Dense writes X as a matrix; nil if it has no rows or no columns.
func (a *CSR) Dense() *mat.Dense {
	if a.d == 0 || a.p == 0 {
		return nil
	}
	x := mat.NewDense(a.d, a.p, nil)
	for i := range a.d {
		row := x.RawRowView(i)
		for u := a.m.Indptr[i]; u < a.m.Indptr[i+1]; u++ {
			row[a.m.Indices[u]] = a.m.Values[u]
		}
	}
	return x
}
