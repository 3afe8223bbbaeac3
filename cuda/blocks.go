//go:build cuda

package cuda

import (
	"fmt"

	"surepipe/array"
)

// blocks is the rows of the blocks along a diagonal, on the card.
type blocks struct {
	on                    *card
	rows, len, end        int
	at, low, size, starts *buffer // of every row
}

func (b *blocks) Len() int            { return b.len }
func (b *blocks) End() int            { return b.end }
func (b *blocks) Bytes() int64        { return 20 * int64(b.rows) }
func (b *blocks) buffers() [4]*buffer { return [...]*buffer{b.at, b.low, b.size, b.starts} }

func (b *blocks) Free() {
	if b.at == nil {
		return
	}
	for _, buf := range b.buffers() {
		b.on.drop(buf)
	}
	b.at = nil
}

// NewBlocks puts the blocks' places on the device.
func (d *Device) NewBlocks(first, size []int) array.Blocks {
	values, end := array.CheckBlocks(first, size)
	b := &blocks{on: d.card, len: values, end: end}
	for _, n := range size {
		b.rows += n
	}
	at, low, sizes, starts := make([]int32, 0, b.rows), make([]int32, 0, b.rows), make([]int32, 0, b.rows),
		make([]int64, 0, b.rows)
	start := 0
	for i, n := range size {
		for r := range n {
			at, low, sizes, starts = append(at, int32(first[i]+r)), append(low, int32(first[i])),
				append(sizes, int32(n)), append(starts, int64(start))
		}
		start += n * n
	}
	b.at, b.low, b.size, b.starts = put(d, "NewBlocks", at), put(d, "NewBlocks", low), put(d, "NewBlocks", sizes),
		put(d, "NewBlocks", starts)
	return b
}

// MulBlocks multiplies by the blocks, each entry summed in order.
func (d *Device) MulBlocks(dst array.Batch, a array.Blocks, values, x array.Batch) {
	d = d.into(dst, values, x)
	b, ok := a.(*blocks)
	if !ok || b.on != d.card {
		panic(fmt.Sprintf("array: MulBlocks on %q with blocks of another device, a %T", d.name, a))
	}
	if b.at == nil {
		panic(fmt.Sprintf("array: MulBlocks of blocks of %d values used after they were freed", b.len))
	}
	array.CheckMulBlocks(dst, b, values, x)
	for _, buf := range b.buffers() {
		d.need(buf)
	}
	if dst.K() == 0 || b.rows == 0 {
		return
	}
	k, n := int64(dst.K()), int64(b.rows)
	to, v, from := operandOf(dst), operandOf(values), operandOf(x)
	d.do("MulBlocks", dst, func() error {
		return d.kernels.launchBlocks(over(k, n), d.stream, to.at, to.stride, b.at.at, b.low.at, b.size.at,
			b.starts.at, v.at, from.at, from.stride, k, n)
	})
}
