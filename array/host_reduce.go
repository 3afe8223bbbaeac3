package array

import (
	"fmt"
	"math"

	"surepipe/array/internal/simd"
	"surepipe/internal/parallel"
)

// dotBlock is the length of the blocks of a vector that are reduced one by one; the blocks'
// results are merged in order. The bits of a result depend on it.
const dotBlock = 1 << 12

// Dot sets out_i = <x_i, y_i>, in blocks of fixed length added in order.
func (h *Host) Dot(out []float64, x, y Batch) {
	h.own(x)
	h.own(y)
	CheckDot(out, x, y)
	h.reduce(out, dotKernel, func(s, v float64) float64 { return s + v }, x, y)
}

func dotKernel(t *task, lo, hi int) {
	for u := lo; u < hi; u++ {
		i, p, q := t.block(u)
		t.out[u] = simd.Dot(t.x.row(i)[p:q], t.y.row(i)[p:q])
	}
}

// reduce sets out_i to the kernel's results for the blocks of vector i, combined by merge in order.
func (h *Host) reduce(out []float64, kernel func(*task, int, int), merge func(a, b float64) float64, x, y Batch) {
	blocks := max(1, parallel.Parts(x.n, dotBlock))
	t := h.newTask(kernel, len(out)*blocks, max(1, elementGrain/max(1, min(x.n, dotBlock))))
	t.x, t.y, t.width, t.out = x, y, blocks, out
	defer h.unknown(out)
	if blocks == 1 {
		t.run()
		return
	}
	partial := h.Alloc(1, len(out)*blocks)
	t.out = partial.data()
	t.run()
	for i, v := range partial.data() {
		if i%blocks == 0 {
			out[i/blocks] = v
		} else {
			out[i/blocks] = merge(out[i/blocks], v)
		}
	}
	h.Free(partial)
}

func (t *task) block(u int) (i, p, q int) {
	i = u / t.width
	p = u % t.width * dotBlock
	return i, p, min(p+dotBlock, t.x.n)
}

func (h *Host) MaxAbs(out []float64, x Batch) {
	h.own(x)
	if len(out) != x.k {
		panic(fmt.Sprintf("array: MaxAbs of %s into %d values", x, len(out)))
	}
	h.reduce(out, maxAbsKernel, func(s, v float64) float64 { return max(s, v) }, x, Batch{})
}

// maxAbsKernel compares the bits of absolute values: as integers they have the order of the
// numbers, with NaN above infinity.
func maxAbsKernel(t *task, lo, hi int) {
	for u := lo; u < hi; u++ {
		i, p, q := t.block(u)
		var m0, m1 uint64
		x := t.x.row(i)[p:q]
		for len(x) >= 2 {
			m0 = max(m0, math.Float64bits(math.Abs(x[0])))
			m1 = max(m1, math.Float64bits(math.Abs(x[1])))
			x = x[2:]
		}
		if len(x) == 1 {
			m0 = max(m0, math.Float64bits(math.Abs(x[0])))
		}
		t.out[u] = math.Float64frombits(max(m0, m1))
	}
}
