package linopstest

import (
	"math"
	"slices"

	"surepipe/linops"
)

// pairs tests that every row of A is the difference that the pairs say.
func (c *checker) pairs() {
	if c.s.Pairs == nil {
		return
	}
	p := c.s.Pairs()
	if p == nil {
		return
	}
	if len(p.Plus) != c.d || len(p.Minus) != c.d || p.Weights != nil && len(p.Weights) != c.d {
		c.failf("Pairs: %d, %d and %d entries for %d rows", len(p.Plus), len(p.Minus), len(p.Weights), c.d)
		return
	}
	b := gaussian(c.p, 660)
	got := c.apply(c.a.Forward, c.d, 1, b)
	for i, v := range got {
		want := 0.0
		if j := p.Plus[i]; j >= 0 {
			want += p.Weight(i) * b[j]
		}
		if j := p.Minus[i]; j >= 0 {
			want -= p.Weight(i) * b[j]
		}
		if !(math.Abs(v-want) <= tol*math.Max(norm(b), math.Abs(want))) {
			c.failf("Pairs: entry %d of A b is %g, but that of its pair %g", i, v, want)
			return
		}
	}
}

// sparseRows tests that A's entries are those of its products.
func (c *checker) sparseRows() {
	if c.s.SparseRows != nil {
		c.rows("SparseRows", linops.Shifted{Rows: c.s.SparseRows()})
	}
	if c.s.Shifted != nil {
		c.rows("Shifted", *c.s.Shifted)
	}
	if c.s.Listed == nil {
		return
	}
	if rows, ok := c.s.Listed(math.MaxInt); ok {
		c.rows("Listed", linops.Shifted{Rows: rows})
	}
}

// rows tests entries against a product.
func (c *checker) rows(name string, rows linops.Shifted) {
	if len(rows.Indptr) != c.d+1 {
		c.failf("%s: %d pointers for %d rows", name, len(rows.Indptr), c.d)
		return
	}
	b := gaussian(c.p, 661)
	for i, v := range c.apply(c.a.Forward, c.d, 1, b) {
		want := 0.0
		for j, right := range rows.Right {
			want += rows.Left[i] * right * b[j]
		}
		for u := rows.Indptr[i]; u < rows.Indptr[i+1]; u++ {
			want += rows.Values[u] * b[rows.Indices[u]]
		}
		if !(math.Abs(v-want) <= tol*math.Max(norm(b), math.Abs(want))) {
			c.failf("%s: entry %d of A b is %g, but that of its row %g", name, i, v, want)
			return
		}
	}
}

// pickRows tests some rows, in another order, against a product.
func (c *checker) pickRows() {
	if c.s.PickRows == nil || c.d == 0 {
		return
	}
	rows := []int{c.d - 1, 0}[:min(c.d, 2)]
	some, free, err := c.s.PickRows(c.dev, rows)
	if err != nil {
		c.failf("PickRows: %v", err)
	}
	if err != nil || some == nil {
		return
	}
	defer free()
	if d, p := some.Dims(); d != len(rows) || p != c.p {
		c.failf("PickRows: %d x %d, expected %d x %d", d, p, len(rows), c.p)
		return
	}
	b := gaussian(c.p, 662)
	all := c.apply(c.a.Forward, c.d, 1, b)
	for k, v := range c.apply(some.Forward, len(rows), 1, b) {
		if want := all[rows[k]]; !(math.Abs(v-want) <= tol*math.Max(norm(b), math.Abs(want))) {
			c.failf("PickRows: entry %d of A b is %g, but that of the picked row %g", rows[k], want, v)
			return
		}
	}
}

// rowNorms tests that there is a number for each row: those of parts without entries are bounds.
func (c *checker) rowNorms() {
	if c.s.RowNorms2 == nil {
		return
	}
	n := c.s.RowNorms2(nil)
	if n != nil && len(n) != c.d || slices.ContainsFunc(n, func(v float64) bool { return !(v >= 0) }) {
		c.failf("RowNorms2 is %g, expected the squared lengths of %d rows", n, c.d)
	}
}
