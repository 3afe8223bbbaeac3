package array

import "surepipe/array/internal/simd"

// hostBlocks is the places of blocks along a diagonal.
type hostBlocks struct {
	held
	first, size []int32
	start       []int   // of each block's values
	rows        []int32 // the numbers from 0 to the size of the largest block
	end         int
}

func (b *hostBlocks) Len() int { return b.start[len(b.size)] }
func (b *hostBlocks) End() int { return b.end }

func (h *Host) NewBlocks(first, size []int) Blocks {
	_, end := CheckBlocks(first, size)
	b := &hostBlocks{first: make([]int32, len(first)), size: make([]int32, len(size)),
		start: make([]int, len(size)+1), end: end}
	most := 0
	for i, n := range size {
		b.first[i], b.size[i], b.start[i+1] = int32(first[i]), int32(n), b.start[i]+n*n
		most = max(most, n)
	}
	b.rows = make([]int32, most)
	for i := range b.rows {
		b.rows[i] = int32(i)
	}
	b.held = h.hold(4*int64(2*len(size)+most) + 8*int64(len(b.start)))
	return b
}

func (h *Host) MulBlocks(dst Batch, blocks Blocks, values, x Batch) {
	h.own(dst)
	h.own(values)
	h.own(x)
	b := onHost[*hostBlocks]("MulBlocks", blocks)
	CheckMulBlocks(dst, b, values, x)
	if dst.k == 0 || len(b.size) == 0 {
		return
	}
	t := h.newTask(blocksKernel, len(b.size), productGrain/max(1, dst.k*b.Len()/len(b.size)))
	t.dst, t.x, t.y, t.on = dst, x, values, b
	t.run()
}

// blocksKernel multiplies all vectors by the blocks lo to hi-1.
func blocksKernel(t *task, lo, hi int) {
	b, values := t.on.(*hostBlocks), t.y.row(0)
	for i := lo; i < hi; i++ {
		n, from := int(b.size[i]), int(b.first[i])
		if n == 0 {
			continue
		}
		simd.Products(t.dst.from(0, from), t.dst.stride, t.x.from(0, from), t.x.stride, t.dst.k,
			values[b.start[i]:b.start[i+1]], b.rows[:n:n], n)
	}
}
