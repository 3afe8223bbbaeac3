package linops

import (
	"slices"

	"surepipe/array"
	"surepipe/internal/sublist"
	"surepipe/linops/internal/sparse"
)

// Part is a part of an operator that picks entries of matrices: the rows and columns of the matrix on which
// it depends, and the rows of the operator that depend on them.
type Part struct {
	// Rows and Columns are the lines of the matrix, and Entries the rows of A, in increasing order.
	Rows, Columns, Entries []int
	// Operator is A of the part, for matrices of len(Rows) x len(Columns), and what frees it.
	Operator func() (a Operator, release func(), err error)
}

// Shape is that of the part's matrices.
func (p *Part) Shape() array.Shape { return array.Shape{Rows: len(p.Rows), Cols: len(p.Columns)} }

// Parts divides the entries at the given places of a row-major matrix. Rows and columns without an entry
// are in no part. With split the parts are the connected components of the graph whose nodes are rows and
// columns and whose edges are the entries, in the order of their first rows; else there is one.
// It takes O(d log d) for d places, whatever the shape.
func Parts(places []int, shape array.Shape, split bool) []Part {
	if len(places) == 0 {
		return nil
	}
	inRow, inColumn := make([]int, len(places)), make([]int, len(places))
	for e, c := range places {
		inRow[e], inColumn[e] = c/shape.Cols, c%shape.Cols
	}
	rows, columns := sublist.Number(inRow, shape.Rows), sublist.Number(inColumn, shape.Cols)
	of, n := make([]int, len(rows)+len(columns)), 1
	if split {
		of, n = sparse.Components(len(rows), len(columns), inRow, inColumn)
	}
	parts := make([]Part, n)
	for i, r := range rows {
		p := &parts[of[i]]
		p.Rows = append(p.Rows, r)
	}
	for j, c := range columns {
		p := &parts[of[len(rows)+j]]
		p.Columns = append(p.Columns, c)
	}
	for e, i := range inRow {
		p := &parts[of[i]]
		p.Entries = append(p.Entries, e)
	}
	return parts
}

func (a *Selection) wholeParts(shape array.Shape, split bool) []Part {
	return a.PartsWith(shape, split, func(s *Selection, _ *Part) (Operator, func(), error) { return s, s.Release, nil })
}

// PartsWith are the parts of a selection of a matrix's entries, nil where the only part is the whole matrix.
// on makes the operator of a part from the part's selection.
func (a *Selection) PartsWith(shape array.Shape, split bool, on func(s *Selection, p *Part) (Operator, func(),
	error)) []Part {
	if shape.Len() != a.p || shape.Rows < 1 || shape.Cols < 1 {
		return nil
	}
	parts := Parts(a.idx, shape, split)
	if len(parts) == 0 || len(parts) == 1 && parts[0].Shape() == shape {
		return nil
	}
	for k := range parts {
		p := &parts[k]
		p.Operator = func() (Operator, func(), error) {
			s, err := NewSelection(a.dev, p.Shape().Len(), p.Places(a.idx, shape))
			if err != nil {
				return nil, nil, err
			}
			return on(s, p)
		}
	}
	return parts
}

// Places are those of the part's entries in its own matrix, from all places in the whole one.
func (p *Part) Places(places []int, shape array.Shape) []int {
	own := make([]int, len(p.Entries))
	for i, e := range p.Entries {
		r, _ := slices.BinarySearch(p.Rows, places[e]/shape.Cols)
		c, _ := slices.BinarySearch(p.Columns, places[e]%shape.Cols)
		own[i] = r*len(p.Columns) + c
	}
	return own
}
