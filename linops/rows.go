package linops

import (
	"math"

	"surepipe/space"
)

// RowsOf returns the entries of an operator by rows, which the caller must not modify, where it is a
// sparse matrix or its rows are differences of pairs; ok is false elsewhere.
func RowsOf(a Operator) (rows space.Rows, ok bool) {
	known := StructureOf(a)
	if known.SparseRows != nil {
		return known.SparseRows(), true
	}
	if known.Pairs == nil {
		return space.Rows{}, false
	}
	p := known.Pairs()
	if p == nil {
		return space.Rows{}, false
	}
	rows.Indptr = make([]int, 1, len(p.Plus)+1)
	for i, plus := range p.Plus {
		minus, w := p.Minus[i], p.Weight(i)
		if plus != minus {
			if plus >= 0 {
				rows.Indices, rows.Values = append(rows.Indices, int(plus)), append(rows.Values, w)
			}
			if minus >= 0 {
				rows.Indices, rows.Values = append(rows.Indices, int(minus)), append(rows.Values, -w)
			}
		}
		rows.Indptr = append(rows.Indptr, len(rows.Indices))
	}
	return rows, true
}

// Neighbours is RowsOf where every row reads coordinates that are at most so far apart; ok is false elsewhere.
func Neighbours(a Operator, most int) (rows space.Rows, ok bool) {
	known := StructureOf(a)
	if known.SparseRows == nil && known.Pairs != nil {
		if p := known.Pairs(); p != nil {
			for i, plus := range p.Plus {
				if minus := p.Minus[i]; plus >= 0 && minus >= 0 && int(max(plus-minus, minus-plus)) > most {
					return space.Rows{}, false
				}
			}
		}
	}
	if rows, ok = RowsOf(a); !ok {
		return space.Rows{}, false
	}
	for i := range len(rows.Indptr) - 1 {
		low, high := math.MaxInt, -1
		for _, j := range rows.Indices[rows.Indptr[i]:rows.Indptr[i+1]] {
			low, high = min(low, j), max(high, j)
		}
		if high-low > most {
			return space.Rows{}, false
		}
	}
	return rows, true
}

