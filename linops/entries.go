package linops

import (
	"math"

	"surepipe/internal/lists"
	"surepipe/linops/internal/product"
	"surepipe/space"
)

// Entries returns the entries of an operator by rows, which the caller must not modify, where it is
// made of sparse matrices, differences of pairs, selections, diagonals and convolutions, by products,
// multiples, and by putting them beside and on top of each other; ok is false elsewhere, and where
// there are more than a number of them. A row may have several entries in one column, which add up.
func Entries(a Operator, most int) (rows space.Rows, ok bool) {
	known := StructureOf(a)
	if known.Listed != nil {
		return known.Listed(most)
	}
	if d, _ := a.Dims(); known.SparseRows == nil && d > most {
		return space.Rows{}, false
	}
	rows, ok = RowsOf(a)
	return rows, ok && len(rows.Indices) <= most
}

// listed is [Storage].Listed of n rows with one entry each: value v[i], or 1, in column at[i], or i.
func listed(n int, at []int, v []float64) func(most int) (space.Rows, bool) {
	return func(most int) (rows space.Rows, ok bool) {
		if n > most {
			return rows, false
		}
		rows = space.Rows{Indptr: lists.Upto(n + 1), Indices: at, Values: v}
		if at == nil {
			rows.Indices = rows.Indptr[:n]
		}
		if v == nil {
			rows.Values = product.Constant(n, 1)
		}
		return rows, true
	}
}

func (s *scaled) entries(most int) (rows space.Rows, ok bool) {
	rows, ok = Entries(s.a.Operator, most)
	rows.Values = lists.Map(rows.Values, func(v float64) float64 { return s.alpha * v })
	return rows, ok
}

func (a *stack) entries(most int) (space.Rows, bool) {
	parts := make([]space.Rows, len(a.parts))
	for i := range parts {
		var ok bool
		if parts[i], ok = Entries(a.parts[i].Operator, most); !ok {
			return space.Rows{}, false
		}
		most -= len(parts[i].Indices)
	}
	all := space.Rows{Indptr: make([]int, 1, a.d+1)}
	add := func(part, row int) {
		from, to := parts[part].Indptr[row], parts[part].Indptr[row+1]
		for u := from; u < to; u++ {
			j := parts[part].Indices[u]
			if a.cols != nil {
				j += a.cols[part]
			}
			all.Indices, all.Values = append(all.Indices, j), append(all.Values, parts[part].Values[u])
		}
	}
	next := func() { all.Indptr = append(all.Indptr, len(all.Indices)) }
	if a.rows == nil { // they share their rows
		for row := range a.d {
			for part := range parts {
				add(part, row)
			}
			next()
		}
		return all, true
	}
	for part := range parts {
		for row := range len(parts[part].Indptr) - 1 {
			add(part, row)
			next()
		}
	}
	return all, true
}

func (c *compose) entries(most int) (space.Rows, bool) {
	last := len(c.parts) - 1
	right, ok := Entries(c.parts[last].Operator, most)
	for i := last - 1; ok && i >= 0; i-- {
		var left space.Rows
		if left, ok = Entries(c.parts[i].Operator, most); ok {
			_, p := c.parts[last].Dims()
			right, ok = multiplied(left, right, p, most)
		}
	}
	return right, ok
}

func multiplied(a, b space.Rows, n, most int) (space.Rows, bool) {
	c := space.Rows{Indptr: make([]int, 1, len(a.Indptr))}
	seen := make([]int, n) // where the entry of the row is, plus 1
	for i := range len(a.Indptr) - 1 {
		from := len(c.Indices)
		for u := a.Indptr[i]; u < a.Indptr[i+1]; u++ {
			row := a.Indices[u]
			for v := b.Indptr[row]; v < b.Indptr[row+1]; v++ {
				j := b.Indices[v]
				if seen[j] <= from {
					c.Indices, c.Values = append(c.Indices, j), append(c.Values, 0)
					seen[j] = len(c.Indices)
				}
				c.Values[seen[j]-1] += a.Values[u] * b.Values[v]
			}
		}
		if len(c.Indices) > most {
			return space.Rows{}, false
		}
		c.Indptr = append(c.Indptr, len(c.Indices))
	}
	return c, true
}

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
