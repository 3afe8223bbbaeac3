package linops

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
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
			rows.Values = slices.Repeat([]float64{1}, n)
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

// Begins are the entries with which the rows of a matrix of p columns begin, where no two begin at the same column:
// they are independent then, whatever their condition. It is nil elsewhere, also where a row is 0.
func Begins(rows space.Rows, p int) []int {
	begins, taken := make([]int, len(rows.Indptr)-1), make([]bool, p)
	for i := range begins {
		first := -1
		for e := rows.Indptr[i]; e < rows.Indptr[i+1]; e++ {
			if rows.Values[e] != 0 && (first < 0 || rows.Indices[e] < rows.Indices[first]) {
				first = e
			}
		}
		if first < 0 || taken[rows.Indices[first]] {
			return nil
		}
		begins[i], taken[rows.Indices[first]] = first, true
	}
	return begins
}

// Shifted is a matrix S + u v*, where S has entries by rows and is the operator Sparse, or with more columns of zeros
// beside it; nil where only the entries are known. Left is u and Right is v; both are nil where u v* is 0. None may be
// modified.
type Shifted struct {
	space.Rows
	Sparse      Operator
	Left, Right []float64
}

// ShiftedOf is a sparse matrix, or [Storage].Shifted; nil for another.
func ShiftedOf(a Operator) *Shifted {
	switch known := StructureOf(a); {
	case known.SparseRows != nil:
		return &Shifted{Rows: known.SparseRows()}
	default:
		return known.Shifted
	}
}

// shifted is S + u v*, of which S acts on the first coordinates.
type shifted struct {
	base
	s           known
	left, right []float64
	u, v        array.Batch
}

// NewShifted returns S + u v* on dev, for vectors u and v, which it keeps. A sparse S, which must outlive it, acts on
// the first coordinates of b, and v on all.
//
//	Forward: dst = S b + (v*b) u        Adjoint: dst = S* z + (u*z) v
func NewShifted(dev array.Device, s Operator, u, v []float64) Restricted {
	d, p := len(u), len(v)
	a := &shifted{s: know(s), left: u, right: v, u: dev.Alloc(1, d), v: dev.Alloc(1, p)}
	a.Hold(a.u, a.v)
	dev.Upload(a.u, u)
	dev.Upload(a.v, v)
	a.base.name, a.d, a.p, a.run = "Shifted", d, p, a.multiply
	a.structure = Structure{Entries: a.s.s.Entries, On: a.on, ColumnNorms2: a.columnNorms2,
		ScaleColumns: a.scaleColumns}
	a.structure.PickRows = a.pickRows
	a.structure.Shifted = &Shifted{a.s.s.SparseRows(), s, u, v}
	return a
}

func (a *shifted) multiply(w product.Direction, dst, x array.Batch) {
	dev := dst.Device()
	_, q := a.s.Dims()
	from, to := a.v, a.u
	if w == product.Forward {
		a.s.Forward(dst, x.Cols(0, q))
	} else {
		from, to = a.u, a.v
		a.s.Adjoint(dst.Cols(0, q), x)
		dev.Fill(dst.Cols(q, a.p), 0)
	}
	t := dev.Alloc(x.K(), 1)
	defer t.Free()
	dev.Gemm(false, true, 1, x, from, 0, t)
	dev.Gemm(false, false, 1, t, to, 1, dst)
}

func (a *shifted) on(dev array.Device, t space.Space) Restricted {
	_, q := a.s.Dims()
	shares, own, ok := split(dev, t, []int{0, q, a.p})
	if !ok {
		return nil
	}
	s := restrict(dev, &a.s, shares[0])
	if s == nil {
		release(own)
		return nil
	}
	v := dev.Alloc(1, t.Dim())
	defer v.Free()
	if t.Dim() > 0 {
		t.Coordinates(v, a.v)
	}
	on := NewShifted(dev, s, a.left, v.ToHost())
	return &combined{Operator: on, parts: []Restricted{on, s}, spaces: own}
}

func (a *shifted) scaleColumns(dev array.Device, by []float64) Restricted {
	_, q := a.s.Dims()
	s := ScaleColumns(dev, a.s.Operator, by[:q])
	scaled := NewShifted(dev, s, a.left, floats.MulTo(make([]float64, a.p), a.right, by))
	return Owning(scaled, scaled, s)
}

func (a *shifted) pickRows(dev array.Device, rows []int) (Operator, func(), error) {
	s, release, err := Pick(dev, a.s.Operator, rows)
	if err != nil {
		return nil, nil, err
	}
	picked := NewShifted(dev, s, lists.Pick(a.left, rows), a.right)
	return picked, func() { picked.Release(); release() }, nil
}

func (a *shifted) columnNorms2() []float64 {
	norms, cross := make([]float64, a.p), make([]float64, a.p)
	s := a.structure.Shifted
	for i, u := range a.left {
		for t := s.Indptr[i]; t < s.Indptr[i+1]; t++ {
			j, v := s.Indices[t], s.Values[t]
			norms[j], cross[j] = norms[j]+v*v, cross[j]+u*v
		}
	}
	left2 := floats.Dot(a.left, a.left)
	for j, v := range a.right {
		norms[j] = max(norms[j]+v*(2*cross[j]+v*left2), 0)
	}
	return norms
}

// product sets out to A*B, row-major, for the columns of A's S.
func (s *Shifted) product(out []float64, columns space.Rows, b *Shifted, n int) {
	k := len(columns.Indptr) - 1
	low := make([]float64, n) // B*u, where v low* is part of the product
	if s.Left != nil {
		for i, u := range s.Left {
			for t := b.Indptr[i]; t < b.Indptr[i+1]; t++ {
				low[b.Indices[t]] += u * b.Values[t]
			}
		}
		if b.Left != nil {
			floats.AddScaled(low, floats.Dot(s.Left, b.Left), b.Right)
		}
	}
	parallel.Ranges(k, sparseColumns, func(lo, hi int) {
		for c := lo; c < hi; c++ {
			row, left := out[c*n:][:n], 0.0
			for u := columns.Indptr[c]; u < columns.Indptr[c+1]; u++ {
				i, v := columns.Indices[u], columns.Values[u]
				for t := b.Indptr[i]; t < b.Indptr[i+1]; t++ {
					row[b.Indices[t]] += v * b.Values[t]
				}
				if b.Left != nil {
					left += v * b.Left[i]
				}
			}
			if b.Left != nil {
				floats.AddScaled(row, left, b.Right)
			}
			if s.Left != nil {
				floats.AddScaled(row, s.Right[c], low)
			}
		}
	})
}

// sparseColumns is the number of columns that are one part of the work.
const sparseColumns = 16
