//go:build cuda

package cuda

import "surepipe/array"

// pattern is the places of the entries of sparse matrices on the card: their rows and columns, and
// the entries of every row and of every column. These are as in the host's adjacency: where each row's begin,
// their numbers and their columns; and the same of columns.
type pattern struct {
	lists
	rows, cols, len int
}

// The first list of the entries of rows and of columns.
const byRow, byColumn = 2, 5

func (p *pattern) Dims() (rows, cols int) { return p.rows, p.cols }
func (p *pattern) Len() int               { return p.len }

func (d *Device) NewPattern(rows, cols int, places []int) array.Pattern {
	array.CheckPattern(rows, cols, places)
	i, j := make([]int32, len(places)), make([]int32, len(places))
	for e, p := range places {
		i[e], j[e] = int32(p/cols), int32(p%cols)
	}
	p := &pattern{rows: rows, cols: cols, len: len(places)}
	put(d, &p.lists, "NewPattern", i)
	put(d, &p.lists, "NewPattern", j)
	p.sort(d, rows, i, j)
	p.sort(d, cols, j, i)
	return p
}

// sort puts the entries of n lines on the card; within a line they keep their order.
func (p *pattern) sort(d *Device, n int, line, other []int32) {
	ptr := make([]int64, n+1)
	for _, i := range line {
		ptr[i+1]++
	}
	for i := range n {
		ptr[i+1] += ptr[i]
	}
	entries, others := make([]int32, len(line)), make([]int32, len(line))
	next := append([]int64(nil), ptr[:n]...)
	for e, i := range line {
		entries[next[i]], others[next[i]] = int32(e), other[e]
		next[i]++
	}
	put(d, &p.lists, "NewPattern", ptr)
	put(d, &p.lists, "NewPattern", entries)
	put(d, &p.lists, "NewPattern", others)
}

// SampleProduct sets the entries of A_i B_i* in the pattern, each summed in order.
func (d *Device) SampleProduct(dst array.Batch, places array.Pattern, alpha float64, a, b array.Batch, beta float64) {
	d = d.into(dst, a, b)
	p := onCard[*pattern](d, "SampleProduct", places)
	r := int64(array.PatternRank("SampleProduct", p, dst, dst, a, b))
	d.entries("SampleProduct", dst, dst.K(), dst.N(), func(g grid, k, n int64) error {
		return d.launchSample(g, operandOf(dst), alpha, p.at(0), p.at(1), operandOf(a), operandOf(b), beta, r, k, n)
	})
}

func (d *Device) SpreadProduct(trans bool, alpha float64, places array.Pattern, z, b array.Batch, beta float64,
	c array.Batch) {
	d = d.into(c, z, b)
	p := onCard[*pattern](d, "SpreadProduct", places)
	left, right, by := c, b, byRow
	if trans {
		left, right, by = b, c, byColumn
	}
	r := int64(array.PatternRank("SpreadProduct", p, c, z, left, right))
	d.entries("SpreadProduct", c, c.K(), c.N(), func(g grid, k, n int64) error {
		return d.launchSpread(g, operandOf(c), alpha, p.at(by), p.at(by+1), p.at(by+2), operandOf(z), operandOf(b),
			beta, r, k, n)
	})
}
