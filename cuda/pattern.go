//go:build cuda

package cuda

import (
	"fmt"

	"surepipe/array"
)

// pattern is the places of the entries of sparse matrices on the card: their rows and columns, and
// the entries of every row and every column.
type pattern struct {
	on           *card
	rows, cols   int
	len          int
	row, col     *buffer
	byRow, byCol lines
}

// lines lists the entries of a sparse matrix line by line, a line being a row or a column, as the
// host's adjacency does.
type lines struct{ ptr, entry, other *buffer }

func (p *pattern) Dims() (rows, cols int) { return p.rows, p.cols }
func (p *pattern) Len() int               { return p.len }

func (p *pattern) Free() {
	if p.row == nil {
		return
	}
	for _, b := range p.buffers() {
		p.on.drop(b)
	}
	p.row = nil
}

func (p *pattern) buffers() [8]*buffer {
	return [...]*buffer{p.row, p.col, p.byRow.ptr, p.byRow.entry, p.byRow.other, p.byCol.ptr, p.byCol.entry,
		p.byCol.other}
}

// NewPattern puts the places on the device.
func (d *Device) NewPattern(rows, cols int, places []int) array.Pattern {
	array.CheckPattern(rows, cols, places)
	i, j := make([]int32, len(places)), make([]int32, len(places))
	for e, p := range places {
		i[e], j[e] = int32(p/cols), int32(p%cols)
	}
	return &pattern{
		on: d.card, rows: rows, cols: cols, len: len(places),
		row: put(d, "NewPattern", i), col: put(d, "NewPattern", j),
		byRow: d.newLines(rows, i, j), byCol: d.newLines(cols, j, i),
	}
}

// newLines sorts entries by line; within a line they keep their order.
func (d *Device) newLines(n int, line, other []int32) lines {
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
	return lines{put(d, "NewPattern", ptr), put(d, "NewPattern", entries), put(d, "NewPattern", others)}
}

// pattern is p, which must be on the card; if its memory is missing, d fails.
func (d *Device) pattern(op string, p array.Pattern) *pattern {
	on, ok := p.(*pattern)
	if !ok || on.on != d.card {
		panic(fmt.Sprintf("array: %s on %q with a pattern of another device, a %T", op, d.name, p))
	}
	if on.row == nil {
		panic(fmt.Sprintf("array: %s in a pattern of %d places used after it was freed", op, on.len))
	}
	for _, buf := range on.buffers() {
		d.need(buf)
	}
	return on
}

// SampleProduct sets the entries of A_i B_i* in the pattern, each summed in order.
func (d *Device) SampleProduct(dst array.Batch, places array.Pattern, alpha float64, a, b array.Batch, beta float64) {
	d = d.into(dst, a, b)
	p := d.pattern("SampleProduct", places)
	r := array.PatternRank("SampleProduct", p, dst, a, b)
	if (a.K() != 1 && a.K() != dst.K()) || (b.K() != 1 && b.K() != dst.K()) {
		panic(fmt.Sprintf("array: SampleProduct of %s and %s into %s", a, b, dst))
	}
	if dst.K() == 0 || dst.N() == 0 {
		return
	}
	k, n := int64(dst.K()), int64(dst.N())
	to, u, v := operandOf(dst), operandOf(a), operandOf(b)
	d.do("SampleProduct", dst, func() error {
		return d.kernels.launchSample(over(k, n), d.stream, to.at, to.stride, alpha, p.row.at, p.col.at, u.at,
			u.stride, v.at, v.stride, beta, int64(r), k, n)
	})
}

// SpreadProduct sets C_i = alpha Z_i B_i + beta C_i, or with Z_i*.
func (d *Device) SpreadProduct(trans bool, alpha float64, places array.Pattern, z, b array.Batch, beta float64,
	c array.Batch) {
	d = d.into(c, z, b)
	p := d.pattern("SpreadProduct", places)
	left, right, by := c, b, p.byRow
	if trans {
		left, right, by = b, c, p.byCol
	}
	r := array.PatternRank("SpreadProduct", p, z, left, right)
	if (z.K() != 1 && z.K() != c.K()) || (b.K() != 1 && b.K() != c.K()) {
		panic(fmt.Sprintf("array: SpreadProduct of %s and %s into %s", z, b, c))
	}
	if c.K() == 0 || c.N() == 0 {
		return
	}
	k, n := int64(c.K()), int64(c.N())
	to, x, y := operandOf(c), operandOf(z), operandOf(b)
	d.do("SpreadProduct", c, func() error {
		return d.kernels.launchSpread(over(k, n), d.stream, to.at, to.stride, alpha, by.ptr.at, by.entry.at,
			by.other.at, x.at, x.stride, y.at, y.stride, beta, int64(r), k, n)
	})
}
