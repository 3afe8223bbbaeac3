//go:build cuda

package cuda

import "surepipe/array"

// blocks is the blocks along a diagonal, on the card: of every row of a block its coordinate, that of the block's first
// row, the block's size and where its values begin.
type blocks struct {
	lists
	rows, len, end int
}

func (b *blocks) Len() int { return b.len }
func (b *blocks) End() int { return b.end }

func (d *Device) NewBlocks(first, size []int) array.Blocks {
	values, end := array.CheckBlocks(first, size)
	var at, low, sizes []int32
	var starts []int64
	start := 0
	for i, n := range size {
		for r := range n {
			at, low, sizes, starts = append(at, int32(first[i]+r)), append(low, int32(first[i])),
				append(sizes, int32(n)), append(starts, int64(start))
		}
		start += n * n
	}
	b := &blocks{rows: len(at), len: values, end: end}
	for _, list := range [][]int32{at, low, sizes} {
		put(d, &b.lists, "NewBlocks", list)
	}
	put(d, &b.lists, "NewBlocks", starts)
	return b
}

// MulBlocks sets the coordinates of every block in dst_i to the block's product with those in x_i, each entry summed
// in order.
func (d *Device) MulBlocks(dst array.Batch, a array.Blocks, values, x array.Batch) {
	d = d.into(dst, values, x)
	b := onCard[*blocks](d, "MulBlocks", a)
	array.CheckMulBlocks(dst, b, values, x)
	d.entries("MulBlocks", dst, dst.K(), b.rows, func(g grid, k, n int64) error {
		return d.launchBlocks(g, operandOf(dst), b.at(0), b.at(1), b.at(2), b.at(3), at(values), operandOf(x), k, n)
	})
}
