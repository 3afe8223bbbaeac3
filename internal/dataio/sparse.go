package dataio

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/sublist"
)

// Sparse is a sparse matrix in compressed rows: row i has the values
// Values[IndPtr[i]:IndPtr[i+1]] in the columns Indices[IndPtr[i]:IndPtr[i+1]], which
// increase. Entries that the file gives as 0 are kept.
type Sparse struct {
	Rows, Cols int
	IndPtr     []int
	Indices    []int
	Values     []float64
	// Duplicates counts the entries given for a place that already had one. They are added to it,
	// as is usual for matrices; where entries are observations it should be 0.
	Duplicates int
}

// Triplets are the entries of a sparse matrix in any order: Values[k] at row Row[k] and column Col[k]. They
// take no memory for rows and columns without an entry.
type Triplets struct {
	Rows, Cols int
	Row, Col   []int
	Values     []float64
}

// A matrix may have emptyLines rows and columns, and more where it has an entry for every linesPerEntry of them:
// vectors take memory for all of them, and a header of a few bytes states their number.
const (
	emptyLines    = 1 << 20
	linesPerEntry = 64
)

// checkLines rejects a matrix with next to no entry in a row, or in a column.
func checkLines(rows, cols, entries int) error {
	for _, axis := range []struct {
		name  string
		lines int
	}{{"rows", rows}, {"columns", cols}} {
		if axis.lines > emptyLines && axis.lines/linesPerEntry > entries {
			return fmt.Errorf("the sparse matrix has %d %s for %d entries, expected an entry for every %d of them",
				axis.lines, axis.name, entries, linesPerEntry)
		}
	}
	return nil
}

// Sparse is the matrix in compressed rows.
func (t *Triplets) Sparse() (*Sparse, error) {
	if err := checkLines(t.Rows, t.Cols, len(t.Row)); err != nil {
		return nil, err
	}
	return compress(t.Rows, t.Cols, t.Row, t.Col, t.Values), nil
}

// Entries are the different places of the row-major matrix in increasing order, and their values. duplicates
// counts the entries given for a place that already had one, to which they are added.
func (t *Triplets) Entries() (places []int, values []float64, duplicates int) {
	row := slices.Clone(t.Row)
	rows := sublist.Number(row, t.Rows)
	m := compress(len(rows), t.Cols, row, t.Col, t.Values)
	places = make([]int, len(m.Indices))
	for i, r := range rows {
		for k, j := range m.Indices[m.IndPtr[i]:m.IndPtr[i+1]] {
			places[m.IndPtr[i]+k] = r*t.Cols + j
		}
	}
	return places, m.Values, m.Duplicates
}

// compress builds compressed rows from triplets. It keeps none of the slices.
func compress(rows, cols int, row, col []int, values []float64) *Sparse {
	m := &Sparse{Rows: rows, Cols: cols, IndPtr: make([]int, rows+1)}
	for _, i := range row {
		m.IndPtr[i+1]++
	}
	for i := range rows {
		m.IndPtr[i+1] += m.IndPtr[i]
	}
	type cell struct {
		col   int
		value float64
	}
	cells := make([]cell, len(row))
	next := slices.Clone(m.IndPtr[:rows])
	for k, i := range row {
		cells[next[i]] = cell{col[k], values[k]}
		next[i]++
	}
	m.Indices, m.Values = make([]int, 0, len(row)), make([]float64, 0, len(row))
	for i := range rows {
		line := cells[m.IndPtr[i]:m.IndPtr[i+1]]
		// Stable, so that a sum of duplicates is the same whatever else is in the row.
		slices.SortStableFunc(line, func(a, b cell) int { return a.col - b.col })
		m.IndPtr[i] = len(m.Indices)
		for k, c := range line {
			if k > 0 && c.col == line[k-1].col {
				m.Values[len(m.Values)-1] += c.value
				m.Duplicates++
				continue
			}
			m.Indices, m.Values = append(m.Indices, c.col), append(m.Values, c.value)
		}
	}
	m.IndPtr[rows] = len(m.Indices)
	return m
}

// checkSize rejects matrices whose row-major places overflow.
func checkSize(rows, cols int64) error {
	if rows < 1 || cols < 1 {
		return fmt.Errorf("has %d rows and %d columns, expected at least 1", rows, cols)
	}
	if cols > math.MaxInt/rows {
		return fmt.Errorf("has %d rows and %d columns, more than can be addressed", rows, cols)
	}
	return nil
}

// IsSparse reports whether the file is a sparse matrix: Matrix Market's coordinates, or a
// .npz archive as scipy.sparse.save_npz writes it.
func (s *Set) IsSparse() bool {
	return s.triplets != nil || s.format == "npz" && s.Has("format") && s.Has("shape") && s.Has("data")
}

// Sparse reads the sparse matrix in the file.
func (s *Set) Sparse() (*Sparse, error) {
	t, err := s.Triplets()
	if err != nil {
		return nil, err
	}
	return t.Sparse()
}

// Triplets reads the entries of the sparse matrix in the file, in one of the formats csr, csc and coo.
func (s *Set) Triplets() (*Triplets, error) {
	if s.triplets != nil {
		return s.triplets, nil
	}
	if !s.IsSparse() {
		return nil, errors.New("is not a sparse matrix, expected a coordinate .mtx file or .npz as " +
			"scipy.sparse.save_npz writes it")
	}
	format, rows, cols, err := s.sparseShape()
	if err != nil {
		return nil, err
	}
	// A matrix of any size without entries cannot be read, because its arrays are empty.
	data, err := s.Floats("data")
	if err != nil {
		return nil, err
	}
	if err := data.CheckFinite(); err != nil {
		return nil, err
	}
	if len(data.Shape) != 1 {
		return nil, fmt.Errorf("array \"data\" has shape %s, expected (entries,)", ndarray.ShapeString(data.Shape))
	}
	return s.readTriplets(format, rows, cols, data.Data)
}

// sparseShape reads the format and the size of the sparse matrix in an archive.
func (s *Set) sparseShape() (format string, rows, cols int, err error) {
	name, err := s.Texts("format")
	if err != nil {
		return "", 0, 0, err
	}
	if len(name.Texts) != 1 {
		return "", 0, 0, fmt.Errorf("array \"format\" has shape %s, expected the name of a sparse format",
			ndarray.ShapeString(name.Shape))
	}
	format = name.Texts[0]
	if format != "csr" && format != "csc" && format != "coo" {
		return "", 0, 0, fmt.Errorf("is a sparse matrix of format %.20q, expected csr, csc or coo; convert it "+
			"with its tocsr method", format)
	}
	size, err := s.indices("shape")
	if err != nil {
		return "", 0, 0, err
	}
	if len(size) != 2 {
		return "", 0, 0, fmt.Errorf("array \"shape\" has shape (%d,), expected (2,)", len(size))
	}
	if err := checkSize(size[0], size[1]); err != nil {
		return "", 0, 0, fmt.Errorf("the sparse matrix %w", err)
	}
	return format, int(size[0]), int(size[1]), nil
}

func (s *Set) readTriplets(format string, rows, cols int, values []float64) (*Triplets, error) {
	index := func(name string, n int) ([]int, error) {
		places, err := s.indices(name)
		if err != nil {
			return nil, err
		}
		if len(places) != len(values) {
			return nil, fmt.Errorf("array %q has %d entries, \"data\" has %d", name, len(places), len(values))
		}
		out := make([]int, len(places))
		for k, v := range places {
			if v < 0 || v >= int64(n) {
				return nil, fmt.Errorf("array %q holds %d at [%d], expected 0 to %d in a matrix of shape %s", name, v,
					k, n-1, ndarray.ShapeString([]int{rows, cols}))
			}
			out[k] = int(v)
		}
		return out, nil
	}
	if format == "coo" {
		row, err := index("row", rows)
		if err != nil {
			return nil, err
		}
		col, err := index("col", cols)
		if err != nil {
			return nil, err
		}
		return &Triplets{rows, cols, row, col, values}, nil
	}
	major, minor := rows, cols
	if format == "csc" {
		major, minor = cols, rows
	}
	indices, err := index("indices", minor)
	if err != nil {
		return nil, err
	}
	expanded, err := s.expand(major, len(indices))
	if err != nil {
		return nil, err
	}
	// There may be room for more entries than there are.
	indices, values = indices[:len(expanded)], values[:len(expanded)]
	if format == "csc" {
		return &Triplets{rows, cols, indices, expanded, values}, nil
	}
	return &Triplets{rows, cols, expanded, indices, values}, nil
}

// pointers reads the pointers to the lines of a compressed axis.
func (s *Set) pointers(major, entries int) ([]int64, error) {
	ptr, err := s.indices("indptr")
	if err != nil {
		return nil, err
	}
	if len(ptr) != major+1 {
		return nil, fmt.Errorf("array \"indptr\" has shape (%d,), expected (%d,)", len(ptr), major+1)
	}
	if ptr[0] != 0 {
		return nil, fmt.Errorf("array \"indptr\" begins with %d, expected 0", ptr[0])
	}
	for i := range major {
		if ptr[i+1] < ptr[i] || ptr[i+1] > int64(entries) {
			return nil, fmt.Errorf("array \"indptr\" holds %d at [%d], expected %d to %d", ptr[i+1], i+1, ptr[i],
				entries)
		}
	}
	return ptr, nil
}

// expand turns the pointers of a compressed axis into the index of each entry on it.
func (s *Set) expand(major, entries int) ([]int, error) {
	ptr, err := s.pointers(major, entries)
	if err != nil {
		return nil, err
	}
	expanded := make([]int, ptr[major])
	for i := range major {
		for k := ptr[i]; k < ptr[i+1]; k++ {
			expanded[k] = i
		}
	}
	return expanded, nil
}

func (s *Set) indices(name string) ([]int64, error) {
	a, err := s.Ints(name)
	if err != nil {
		return nil, err
	}
	if len(a.Shape) != 1 {
		return nil, fmt.Errorf("array %q has shape %s, expected one axis", name, ndarray.ShapeString(a.Shape))
	}
	return a.Ints, nil
}
