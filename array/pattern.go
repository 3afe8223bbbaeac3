package array

import (
	"slices"

	"surepipe/array/internal/simd"
)

// Pattern is the places of the entries of sparse matrices, on a device. The entries themselves are
// vectors: a batch whose vector i has one value for each place is a batch of sparse matrices Z_i.
type Pattern interface {
	// Dims is the matrices' size.
	Dims() (rows, cols int)
	// Len is the number of entries.
	Len() int
	// Bytes is the device memory it holds.
	Bytes() int64
	// Free gives the memory back.
	Free()
}

// PatternVectors is how many vectors the products in patterns take together on the host, where one of the
// factors is the same for all: a vector then takes a half to a third of the time that it takes alone.
const PatternVectors = simd.Vectors

// hostPattern lists the entries by rows and by columns.
type hostPattern struct {
	rows, cols int
	byRow      adjacency
	byCol      adjacency
}

// adjacency lists the entries of a sparse matrix line by line, a line being a row or a column: for
// ptr[i] <= u < ptr[i+1], entry[u] is the index of a value in line i and other[u] its column or
// row. Where entry[u] is u for all, entry is nil.
type adjacency struct {
	ptr          []int32
	entry, other []int32
}

func (a *adjacency) bytes() int64 { return 4 * int64(len(a.ptr)+len(a.entry)+len(a.other)) }

// newAdjacency lists the entries. Each line keeps them in the given order; nil stands for their
// own.
func (h *Host) newAdjacency(lines int, line, other, order []int32) adjacency {
	a := adjacency{ptr: make([]int32, lines+1), entry: make([]int32, len(line)), other: make([]int32, len(line))}
	for _, i := range line {
		a.ptr[i+1]++
	}
	for i := range lines {
		a.ptr[i+1] += a.ptr[i]
	}
	next := append([]int32(nil), a.ptr[:lines]...)
	for k := range line {
		if k%listedAtOnce == 0 && h.stopped() {
			break // nothing will be computed with it
		}
		e := int32(k)
		if order != nil {
			e = order[k]
		}
		i := line[e]
		u := next[i]
		next[i]++
		a.entry[u], a.other[u] = e, other[e]
	}
	if slices.IsSorted(a.entry) && !h.stopped() {
		a.entry = nil
	}
	return a
}

// listedAtOnce is the number of entries that are listed between looks at whether the host has been
// stopped.
const listedAtOnce = 1 << 20

func (p *hostPattern) Dims() (rows, cols int) { return p.rows, p.cols }
func (p *hostPattern) Len() int               { return len(p.byRow.other) }
func (p *hostPattern) Free()                  {}
func (p *hostPattern) Bytes() int64           { return p.byRow.bytes() + p.byCol.bytes() }

func (h *Host) NewPattern(rows, cols int, places []int) Pattern {
	CheckPattern(rows, cols, places)
	i, j := make([]int32, len(places)), make([]int32, len(places))
	for e, p := range places {
		i[e], j[e] = int32(p/cols), int32(p%cols)
	}
	// Along a line the rows of the other factor are then read in the order of memory.
	var order []int32
	if !slices.IsSorted(places) {
		order = h.newAdjacency(cols, j, i, nil).entry
	}
	byRow := h.newAdjacency(rows, i, j, order)
	return &hostPattern{rows: rows, cols: cols, byRow: byRow, byCol: h.newAdjacency(cols, j, i, byRow.entry)}
}

// productGrain is the number of multiplications that one goroutine takes at a time.
const productGrain = 1 << 17

func (h *Host) SampleProduct(dst Batch, pattern Pattern, alpha float64, a, b Batch, beta float64) {
	p := h.pattern("SampleProduct", pattern, dst, a, b)
	r := PatternRank("SampleProduct", pattern, dst, dst, a, b)
	k := dst.k
	if k == 0 || p.Len() == 0 {
		return
	}
	if r == 0 {
		h.scale(dst, beta)
		return
	}
	// The lines are those of the factor that differs from vector to vector.
	lines, each, shared := &p.byRow, a, b
	if a.k == 1 && k > 1 {
		lines, each, shared = &p.byCol, b, a
	}
	together := k
	if shared.k > 1 {
		together = 1 // what the lines of one matrix share stays in the cache
	}
	if lines.entry == nil {
		h.runLines(sampleKernel, lines, k, together, r, dst, each, shared, alpha, beta)
		return
	}
	z := h.Alloc(k, dst.n)
	h.runLines(sampleKernel, lines, k, together, r, z, each, shared, 1, 0)
	t := h.newTask(scatterLinesKernel, k*dst.n, elementGrain)
	t.dst, t.x, t.a, t.b, t.idx = z, dst, alpha, beta, lines.entry
	t.run()
	h.Free(z)
}

func (h *Host) SpreadProduct(trans bool, alpha float64, pattern Pattern, z, b Batch, beta float64, c Batch) {
	p := h.pattern("SpreadProduct", pattern, z, b, c)
	left, right, lines := c, b, &p.byRow
	if trans {
		left, right, lines = b, c, &p.byCol
	}
	r := PatternRank("SpreadProduct", pattern, c, z, left, right)
	k := c.k
	if k == 0 || c.n == 0 {
		return
	}
	if lines.entry != nil {
		sorted := h.Alloc(z.k, z.n)
		defer h.Free(sorted)
		t := h.newTask(gatherKernel, z.k*z.n, elementGrain)
		t.dst, t.x, t.idx = sorted, z, lines.entry
		t.run()
		z = sorted
	}
	together := k
	if z.k != k || b.k > 1 {
		together = 1
	}
	h.runLines(spreadKernel, lines, k, together, r, c, z, b, alpha, beta)
}

func (h *Host) pattern(op string, pattern Pattern, bs ...Batch) *hostPattern {
	for _, b := range bs {
		h.own(b)
	}
	return onHost[*hostPattern](op, pattern)
}

// runLines runs a kernel over the lines of a pattern, for all vectors at a time or for one after the
// other: together is their number.
func (h *Host) runLines(kernel func(*task, int, int), lines *adjacency, k, together, r int, dst, x, y Batch,
	alpha, beta float64) {
	t := h.newTask(kernel, k/together*(len(lines.ptr)-1), lines.grain(together*r))
	t.on, t.sc = lines, Shape{together, r}
	t.dst, t.x, t.y, t.a, t.b = dst, x, y, alpha, beta
	t.run()
}

// grain is the number of lines that one goroutine takes at a time, where an entry takes work
// multiplications.
func (a *adjacency) grain(work int) int {
	perLine := max(1, work*max(len(a.other), 1)/max(len(a.ptr)-1, 1))
	return max(1, productGrain/perLine)
}

// eachVector splits a range of lines of matrices, one after the other, by matrices.
func (t *task) eachVector(lo, hi int, do func(v, from, to int)) {
	n := len(t.on.(*adjacency).ptr) - 1
	for lo < hi {
		v := lo / n
		end := min(hi, (v+1)*n)
		do(v, lo-v*n, end-v*n)
		lo = end
	}
}

func (b Batch) from(v, i int) []float64 {
	if b.n == 0 {
		return nil
	}
	if b.k == 1 {
		v = 0
	}
	return b.data()[v*b.stride+i:]
}

// sampleBlock is the number of entries that are computed at a time.
const sampleBlock = 64

func sampleKernel(t *task, lo, hi int) {
	w, r, lines := t.sc.Rows, t.sc.Cols, t.on.(*adjacency)
	var out []float64
	if t.a != 1 || t.b != 0 {
		h := t.dst.dev.(*Host)
		mem := h.Alloc(1, w*sampleBlock)
		defer h.Free(mem)
		out = mem.row(0)
	}
	t.eachVector(lo, hi, func(v, first, last int) {
		y := t.y.from(v, 0)
		for i := first; i < last; i++ {
			for u, end := int(lines.ptr[i]), int(lines.ptr[i+1]); u < end; u += sampleBlock {
				other := lines.other[u:min(u+sampleBlock, end)]
				if out == nil {
					simd.Products(t.dst.from(v, u), t.dst.stride, t.x.from(v, i*r), t.x.stride, w, y, other, r)
					continue
				}
				simd.Products(out, sampleBlock, t.x.from(v, i*r), t.x.stride, w, y, other, r)
				for s := range w {
					d := t.dst.from(v+s, u)
					for l, x := range out[s*sampleBlock:][:len(other)] {
						x *= t.a
						if t.b != 0 {
							x += t.b * d[l]
						}
						d[l] = x
					}
				}
			}
		}
	})
}

// scatterLinesKernel sets x[idx_j] = a dst_j + b x[idx_j].
func scatterLinesKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		from, to, idx := t.dst.row(i)[p:q], t.x.row(i), t.idx[p:q]
		for j, c := range idx {
			x := t.a * from[j]
			if t.b != 0 {
				x += t.b * to[c]
			}
			to[c] = x
		}
		lo += q - p
	}
}

// spreadBlock is the number of rows of B that are added up at a time, for all vectors of a tile.
const spreadBlock = 128

func spreadKernel(t *task, lo, hi int) {
	w, r, lines := t.sc.Rows, t.sc.Cols, t.on.(*adjacency)
	t.eachVector(lo, hi, func(v, first, last int) {
		y := t.y.from(v, 0)
		for i := first; i < last; i++ {
			for s := range w {
				c := t.dst.from(v+s, i*r)[:r]
				if t.b == 0 {
					clear(c)
				} else if t.b != 1 {
					for l := range c {
						c[l] *= t.b
					}
				}
			}
			for u, end := int(lines.ptr[i]), int(lines.ptr[i+1]); u < end; u += spreadBlock {
				other := lines.other[u:min(u+spreadBlock, end)]
				simd.Sums(t.dst.from(v, i*r), t.dst.stride, w, t.a, t.x.from(v, u), t.x.stride, y, other, r)
			}
		}
	})
}
