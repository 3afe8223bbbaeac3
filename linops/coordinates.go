package linops

import (
	"fmt"
	"math"

	"surepipe/array"
)

// NewCSRFromCoords puts a sparse matrix given by coordinates on a device: it has v[u] in row i[u]
// and column j[u], in any order; entries given twice add up, in the order given. This is the format
// of Matrix Market files and of scipy's coo_matrix, with indices from 0. It returns an error where
// the lengths of the lists differ, an index lies outside of the matrix or a value is not finite.
// The slices are copied.
func NewCSRFromCoords(dev array.Device, rows, cols int, i, j []int, v []float64) (*CSR, error) {
	if rows < 0 || cols < 0 || rows > math.MaxInt32 || cols > math.MaxInt32 {
		return nil, fmt.Errorf("linops: sparse matrix of size %d x %d", rows, cols)
	}
	if len(i) != len(v) || len(j) != len(v) {
		return nil, fmt.Errorf("linops: sparse matrix has %d row indices, %d column indices and %d values", len(i), len(j), len(v))
	}
	m := compressed{rows, cols, make([]int, rows+1), make([]int, len(v)), make([]float64, len(v))}
	for u, r := range i {
		switch c := j[u]; {
		case r < 0 || r >= rows:
			return nil, fmt.Errorf("linops: sparse matrix's row index %d is %d, want 0 to %d", u, r, rows-1)
		case c < 0 || c >= cols:
			return nil, fmt.Errorf("linops: sparse matrix's column index %d is %d, want 0 to %d", u, c, cols-1)
		case math.IsNaN(v[u]) || math.IsInf(v[u], 0):
			return nil, fmt.Errorf("linops: sparse matrix's value %d (row %d, column %d) is %v", u, r, c, v[u])
		}
		m.indptr[r+1]++
	}
	for r := range rows {
		m.indptr[r+1] += m.indptr[r]
	}
	next := append([]int(nil), m.indptr[:rows]...)
	for u, r := range i {
		m.indices[next[r]], m.values[next[r]] = j[u], v[u]
		next[r]++
	}
	return NewCSR(dev, rows, cols, m.indptr, m.indices, m.values)
}
