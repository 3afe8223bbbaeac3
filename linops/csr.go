package linops

import (
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/space"
)

// CSR is a sparse d x p matrix X, compressed by rows.
//
//	Forward: dst = X b        Adjoint: dst = X' z
//
// X' is stored as well, compressed by rows, so that both directions sum each entry of the result in
// a fixed order, in parallel over entries.
type CSR struct {
	knowing
	m        compressed        // host copy
	t        func() compressed // its transpose, from the first time on that columns are taken
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
		return nil, fmt.Errorf("linops: sparse matrix of %d rows has %d row pointers, want %d", rows, len(indptr), rows+1)
	}
	if len(indices) != len(values) {
		return nil, fmt.Errorf("linops: sparse matrix has %d column indices and %d values", len(indices), len(values))
	}
	if indptr[0] != 0 || indptr[rows] != len(values) {
		return nil, fmt.Errorf("linops: sparse matrix's row pointers run from %d to %d, want 0 to %d", indptr[0], indptr[rows], len(values))
	}
	for i := range rows {
		if indptr[i+1] < indptr[i] {
			return nil, fmt.Errorf("linops: sparse matrix's row pointer %d is %d, less than %d before it", i+1, indptr[i+1], indptr[i])
		}
	}
	for i := range rows {
		for u := indptr[i]; u < indptr[i+1]; u++ {
			if c := indices[u]; c < 0 || c >= cols {
				return nil, fmt.Errorf("linops: sparse matrix's column index %d (row %d) is %d, want 0 to %d", u, i, c, cols-1)
			}
			if v := values[u]; math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("linops: sparse matrix's value %d (row %d, column %d) is %v", u, i, indices[u], v)
			}
		}
	}
	// Transposing sorts: twice, and every row is in order.
	t := compressed{rows, cols, indptr, indices, values}.transpose().merge()
	return newCSR(dev, t.transpose(), t), nil
}

// newCSR puts m and its transpose t on the device.
func newCSR(dev array.Device, m, t compressed) *CSR {
	a := &CSR{
		m:        m,
		t:        sync.OnceValue(m.transpose),
		x:        dev.NewCSR(m.rows, m.cols, m.indptr, m.indices, m.values),
		xt:       dev.NewCSR(t.rows, t.cols, t.indptr, t.indices, t.values),
		colNorms: make([]float64, m.cols),
	}
	for u, c := range m.indices {
		a.colNorms[c] += m.values[u] * m.values[u]
	}
	s := Structure{
		Entries:      Known(float64(len(m.values))),
		ColumnNorms2: func() []float64 { return append([]float64(nil), a.colNorms...) },
		ScaleColumns: func(dev array.Device, s []float64) Restricted {
			return newCSR(dev, a.m.scaleColumns(s), a.t().scaleRows(s))
		},
		On: a.onSpace, Pairs: sync.OnceValue(a.m.pairs),
		SparseRows: func() space.Rows { return space.Rows{Indptr: a.m.indptr, Indices: a.m.indices, Values: a.m.values} },
	}
	if m.rows > 0 && m.cols > 0 {
		s.Dense = a.Dense
	}
	a.structure = complete(a, s)
	return a
}

// onSpace is the sparse matrix X E for a set of coordinates and for clusters, where E has one entry
// a row at most; nil for other spaces.
func (a *CSR) onSpace(dev array.Device, t space.Space) Restricted {
	switch f := t.Form(); f.Kind {
	case space.Subset:
		// The rows of X' are the columns of X.
		columns := a.t().pick(f.Set)
		return newCSR(dev, columns.transpose(), columns)
	case space.Cluster:
		average := compressed{len(f.Average.Indptr) - 1, a.m.cols, f.Average.Indptr, f.Average.Indices, f.Average.Values}
		merged := a.m.times(average.transpose()).transpose().merge()
		return newCSR(dev, merged.transpose(), merged)
	}
	return nil
}

// Bytes is the size of X and X' on the device.
func (a *CSR) Bytes() int64 {
	return 2*16*int64(len(a.m.values)) + 8*int64(a.m.rows+a.m.cols+2)
}

// Release frees the device memory. The operator is dead afterwards.
func (a *CSR) Release() {
	if a.x != nil {
		a.x.Free()
		a.xt.Free()
		a.x, a.xt = nil, nil
	}
}

// Dims is the size of X.
func (a *CSR) Dims() (d, p int) { return a.m.rows, a.m.cols }

// Nonzeros is the number of stored entries.
func (a *CSR) Nonzeros() int { return len(a.m.values) }

// Forward sets dst = X b.
func (a *CSR) Forward(dst, b array.Batch) {
	checkForward("CSR", a.m.rows, a.m.cols, dst, b)
	dst.Device().MulCSR(dst, a.x, b)
}

// Adjoint sets dst = X' z.
func (a *CSR) Adjoint(dst, z array.Batch) {
	checkAdjoint("CSR", a.m.rows, a.m.cols, dst, z)
	dst.Device().MulCSR(dst, a.xt, z)
}

// Dense writes X as a matrix; nil if it has no rows or no columns.
func (a *CSR) Dense() *mat.Dense {
	if a.m.rows == 0 || a.m.cols == 0 {
		return nil
	}
	x := mat.NewDense(a.m.rows, a.m.cols, nil)
	for i := range a.m.rows {
		row := x.RawRowView(i)
		for u := a.m.indptr[i]; u < a.m.indptr[i+1]; u++ {
			row[a.m.indices[u]] = a.m.values[u]
		}
	}
	return x
}

// compressed is a sparse matrix in CSR form on the host.
type compressed struct {
	rows, cols int
	indptr     []int
	indices    []int
	values     []float64
}

// transpose returns the transposed matrix, each row's columns in order.
func (m compressed) transpose() compressed {
	t := compressed{m.cols, m.rows, make([]int, m.cols+1), make([]int, len(m.indices)), make([]float64, len(m.values))}
	for _, c := range m.indices {
		t.indptr[c+1]++
	}
	for c := range m.cols {
		t.indptr[c+1] += t.indptr[c]
	}
	next := append([]int(nil), t.indptr[:m.cols]...)
	for i := range m.rows {
		for u := m.indptr[i]; u < m.indptr[i+1]; u++ {
			c := m.indices[u]
			t.indices[next[c]], t.values[next[c]] = i, m.values[u]
			next[c]++
		}
	}
	return t
}

// pick returns the rows of a list.
func (m compressed) pick(list []int) compressed {
	c := compressed{rows: len(list), cols: m.cols, indptr: make([]int, 1, len(list)+1)}
	for _, i := range list {
		lo, hi := m.indptr[i], m.indptr[i+1]
		c.indices = append(c.indices, m.indices[lo:hi]...)
		c.values = append(c.values, m.values[lo:hi]...)
		c.indptr = append(c.indptr, len(c.indices))
	}
	return c
}

// times returns the product with a matrix that has one entry a row at most. Entries of the result
// that fall in the same place are not added up.
func (m compressed) times(e compressed) compressed {
	c := compressed{rows: m.rows, cols: e.cols, indptr: make([]int, 1, m.rows+1)}
	for i := range m.rows {
		for u := m.indptr[i]; u < m.indptr[i+1]; u++ {
			if at := e.indptr[m.indices[u]]; at < e.indptr[m.indices[u]+1] {
				c.indices = append(c.indices, e.indices[at])
				c.values = append(c.values, m.values[u]*e.values[at])
			}
		}
		c.indptr = append(c.indptr, len(c.indices))
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

// merge adds up neighbours in the same place, in m's own memory.
func (m compressed) merge() compressed {
	n, start := 0, 0
	for i := range m.rows {
		end := m.indptr[i+1]
		first := n
		for u := start; u < end; u++ {
			if n > first && m.indices[n-1] == m.indices[u] {
				m.values[n-1] += m.values[u]
				continue
			}
			m.indices[n], m.values[n] = m.indices[u], m.values[u]
			n++
		}
		start = end
		m.indptr[i+1] = n
	}
	m.indices, m.values = m.indices[:n], m.values[:n]
	return m
}
