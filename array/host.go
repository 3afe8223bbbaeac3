package array

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"surepipe/array/internal/simd"
)

// The host's granularity. It is part of the definition of the results' bits, and
// of nothing but shapes.
const (
	// elementGrain is how many values one goroutine takes at a time in an
	// elementwise operation: 128 KiB, enough to hide the hand-over.
	elementGrain = 1 << 14
	// dotBlock is the length over which a dot product is summed before blocks
	// are added up in order.
	dotBlock = 1 << 12
)

// Host is the device that computes on this machine's processors, with gonum and
// the BLAS registered there. It needs no opening: use [NewHost].
type Host struct {
	mu    sync.Mutex
	pool  map[int][]*hostBuffer
	stats Stats
}

// maxValues is the most values that a batch can have: their bytes, rounded up
// to a pool's size, are a number.
const maxValues = math.MaxInt / 16

// maxPooledBytes bounds what the host keeps for reuse.
const maxPooledBytes = 2 << 30

type hostBuffer struct {
	data    []float64
	freed   bool
	adopted bool // somebody else's memory: not for the pool
}

func (b *hostBuffer) Len() int { return len(b.data) }

// NewHost returns a host device with a memory pool of its own.
func NewHost() *Host {
	useNativeBLAS()
	return &Host{pool: map[int][]*hostBuffer{}}
}

// Name is "cpu".
func (h *Host) Name() string { return "cpu" }

// capacity rounds a size up so that buffers of nearly equal sizes are shared:
// to a multiple of 1/8 of its leading power of two.
func capacity(n int) int {
	if n <= 64 {
		return 64
	}
	step := 8
	for step*16 < n {
		step *= 2
	}
	return (n + step - 1) / step * step
}

// Alloc returns k contiguous vectors of length n with undefined contents.
func (h *Host) Alloc(k, n int) Batch {
	if k < 0 || n < 0 || (n > 0 && k > maxValues/n) {
		panic(fmt.Sprintf("array: a batch of shape %d x %d", k, n))
	}
	size := capacity(k * n)
	h.mu.Lock()
	h.stats.Live++
	h.stats.LiveBytes += 8 * int64(size)
	h.stats.PeakBytes = max(h.stats.PeakBytes, h.stats.LiveBytes)
	var buf *hostBuffer
	if free := h.pool[size]; len(free) > 0 {
		buf = free[len(free)-1]
		free[len(free)-1] = nil
		h.pool[size] = free[:len(free)-1]
		h.stats.PooledBytes -= 8 * int64(size)
		buf.freed = false
	}
	h.mu.Unlock()
	if buf == nil {
		buf = &hostBuffer{data: make([]float64, size)}
	}
	return NewBatch(h, buf, k, n)
}

// Adopt makes a batch of k vectors of length n out of the row-major slice itself.
func (h *Host) Adopt(data []float64, k, n int) Batch {
	if len(data) != k*n {
		panic(fmt.Sprintf("array: %d values adopted as %d x %d", len(data), k, n))
	}
	h.mu.Lock()
	h.stats.Live++
	h.stats.LiveBytes += 8 * int64(len(data))
	h.stats.PeakBytes = max(h.stats.PeakBytes, h.stats.LiveBytes)
	h.mu.Unlock()
	return NewBatch(h, &hostBuffer{data: data, adopted: true}, k, n)
}

// Free returns b's memory to the pool. Freeing twice panics, and so does any
// later use that comes before the memory is out on loan again.
func (h *Host) Free(b Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	buf := h.own(b)
	size := len(buf.data)
	buf.freed = true
	h.stats.Live--
	h.stats.LiveBytes -= 8 * int64(size)
	if !buf.adopted && h.stats.PooledBytes+8*int64(size) <= maxPooledBytes {
		h.stats.PooledBytes += 8 * int64(size)
		h.pool[size] = append(h.pool[size], buf)
	}
}

// Stats counts the memory held.
func (h *Host) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stats
}

// Err is always nil: the host has no asynchronous faults.
func (h *Host) Err() error { return nil }

// Sync does nothing: the host's operations end before they return.
func (h *Host) Sync() error { return nil }

// Close drops the pool. Batches still out on loan stay usable.
func (h *Host) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pool = map[int][]*hostBuffer{}
	h.stats.PooledBytes = 0
	return nil
}

func (h *Host) own(b Batch) *hostBuffer {
	buf, ok := b.buf.(*hostBuffer)
	if !ok || b.dev != Device(h) {
		name := "none"
		if b.dev != nil {
			name = fmt.Sprintf("%q", b.dev.Name())
		}
		panic(fmt.Sprintf("array: a batch %s of device %s used on %q, or on another of its name", b, name, h.Name()))
	}
	if buf.freed {
		panic(fmt.Sprintf("array: a batch %s used after it was freed", b))
	}
	return buf
}

// HostRow is vector i of a batch that lives on the host, as a slice of the
// batch's own memory; ok is false for a batch on another device.
func (b Batch) HostRow(i int) (row []float64, ok bool) {
	buf, ok := b.buf.(*hostBuffer)
	if !ok {
		return nil, false
	}
	if i < 0 || i >= b.k {
		panic(fmt.Sprintf("array: vector %d of a batch %s", i, b))
	}
	return buf.data[b.off+i*b.stride:][:b.n:b.n], true
}

// row is HostRow where the place is known; a batch of one vector is broadcast.
func (b *Batch) row(i int) []float64 {
	if b.k == 1 {
		i = 0
	}
	return b.buf.(*hostBuffer).data[b.off+i*b.stride:][:b.n:b.n]
}

// flat reports whether the batch is k vectors without gaps, or not given.
func (b *Batch) flat(k int) bool { return b.dev == nil || (b.k == k && b.stride == b.n) }

// same panics unless x has dst's shape or is a single vector of its length.
func (h *Host) same(op string, dst Batch, xs ...Batch) {
	h.own(dst)
	for _, x := range xs {
		h.own(x)
		if x.n != dst.n || (x.k != dst.k && x.k != 1) {
			panic(fmt.Sprintf("array: %s of %s into %s", op, x, dst))
		}
	}
}

// Upload copies the row-major values of src into dst.
func (h *Host) Upload(dst Batch, src []float64) {
	h.own(dst)
	if len(src) != dst.k*dst.n {
		panic(fmt.Sprintf("array: upload of %d values into %s", len(src), dst))
	}
	for i := range dst.k {
		copy(dst.row(i), src[i*dst.n:])
	}
}

// Download copies src into the row-major slice dst.
func (h *Host) Download(dst []float64, src Batch) {
	h.own(src)
	if len(dst) != src.k*src.n {
		panic(fmt.Sprintf("array: download of %s into %d values", src, len(dst)))
	}
	for i := range src.k {
		copy(dst[i*src.n:], src.row(i))
	}
}

// elementwise runs a kernel over all values. The kernel sees chunk bounds in
// units of values of the flattened k x n matrix; segment cuts a chunk at the
// ends of vectors. Where every operand is one block of memory there are none.
func (h *Host) elementwise(kernel func(*task, int, int), dst, x, y, z Batch, a, b float64) {
	t := newTask(kernel, dst.k*dst.n, elementGrain)
	t.dst, t.x, t.y, t.z, t.a, t.b = dst, x, y, z, a, b
	if dst.k > 1 && t.dst.flat(dst.k) && t.x.flat(dst.k) && t.y.flat(dst.k) && t.z.flat(dst.k) {
		for _, v := range [...]*Batch{&t.dst, &t.x, &t.y, &t.z} {
			v.n, v.k, v.stride = v.n*v.k, 1, v.n*v.k
		}
	}
	t.run()
}

// segment is the stretch of the flattened range [lo, hi) that lies in one
// vector: vector i, coordinates [p, q).
func (t *task) segment(lo, hi int) (i, p, q int) {
	if t.dst.k == 1 {
		return 0, lo, hi
	}
	i = lo / t.dst.n
	p = lo - i*t.dst.n
	return i, p, min(t.dst.n, p+hi-lo)
}

// Copy sets dst = src.
func (h *Host) Copy(dst, src Batch) {
	h.same("copy", dst, src)
	h.elementwise(copyKernel, dst, src, Batch{}, Batch{}, 0, 0)
}

func copyKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		copy(t.dst.row(i)[p:q], t.x.row(i)[p:q])
		lo += q - p
	}
}

// Fill sets every value of dst to a.
func (h *Host) Fill(dst Batch, a float64) {
	h.own(dst)
	h.elementwise(fillKernel, dst, Batch{}, Batch{}, Batch{}, a, 0)
}

func fillKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		d := t.dst.row(i)[p:q]
		if t.a == 0 {
			clear(d)
		} else {
			for j := range d {
				d[j] = t.a
			}
		}
		lo += q - p
	}
}

// Lin sets dst = a x + c y.
func (h *Host) Lin(dst Batch, a float64, x Batch, c float64, y Batch) {
	if y.IsZero() {
		h.same("Lin", dst, x)
		h.elementwise(scaleKernel, dst, x, Batch{}, Batch{}, a, 0)
		return
	}
	h.same("Lin", dst, x, y)
	h.elementwise(linKernel, dst, x, y, Batch{}, a, c)
}

func scaleKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		a := t.a
		if t.as != nil {
			a = t.as[i]
		}
		d, x := t.dst.row(i)[p:q], t.x.row(i)[p:q]
		x = x[:len(d)]
		for j := range d {
			d[j] = a * x[j]
		}
		lo += q - p
	}
}

func linKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		a, c := t.a, t.b
		if t.as != nil {
			a, c = t.as[i], t.bs[i]
		}
		lin(t.dst.row(i)[p:q], a, t.x.row(i)[p:q], c, t.y.row(i)[p:q])
		lo += q - p
	}
}

func lin(d []float64, a float64, x []float64, c float64, y []float64) {
	x, y = x[:len(d)], y[:len(d)]
	switch {
	case a == 1 && c == 1:
		for j := range d {
			d[j] = x[j] + y[j]
		}
	case a == 1 && c == -1:
		for j := range d {
			d[j] = x[j] - y[j]
		}
	default:
		for j := range d {
			d[j] = a*x[j] + c*y[j]
		}
	}
}

// LinEach sets dst_i = a_i x_i + c_i y_i.
func (h *Host) LinEach(dst Batch, a []float64, x Batch, c []float64, y Batch) {
	if len(a) != dst.k || (!y.IsZero() && len(c) != dst.k) {
		panic(fmt.Sprintf("array: LinEach with %d and %d coefficients into %s", len(a), len(c), dst))
	}
	kernel := linKernel
	if y.IsZero() {
		kernel = scaleKernel
		h.same("LinEach", dst, x)
	} else {
		h.same("LinEach", dst, x, y)
	}
	t := newTask(kernel, dst.k*dst.n, elementGrain)
	t.dst, t.x, t.y, t.as, t.bs = dst, x, y, a, c
	t.run()
}

// Mul sets dst = x ∘ y.
func (h *Host) Mul(dst, x, y Batch) {
	h.same("Mul", dst, x, y)
	h.elementwise(mulKernel, dst, x, y, Batch{}, 0, 0)
}

func mulKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		d, x, y := t.dst.row(i)[p:q], t.x.row(i)[p:q], t.y.row(i)[p:q]
		x, y = x[:len(d)], y[:len(d)]
		for j := range d {
			d[j] = x[j] * y[j]
		}
		lo += q - p
	}
}

// Dot sets out_i = <x_i, y_i>, in blocks of fixed length added in order.
func (h *Host) Dot(out []float64, x, y Batch) {
	h.own(x)
	h.own(y)
	if x.n != y.n || (x.k != len(out) && x.k != 1) || (y.k != len(out) && y.k != 1) {
		panic(fmt.Sprintf("array: Dot of %s and %s into %d values", x, y, len(out)))
	}
	h.reduce(out, dotKernel, func(s, v float64) float64 { return s + v }, x, y)
}

func dotKernel(t *task, lo, hi int) {
	for u := lo; u < hi; u++ {
		i, p, q := t.block(u)
		t.out[u] = simd.Dot(t.x.row(i)[p:q], t.y.row(i)[p:q])
	}
}

// reduce sets out_i to what merge makes, in order, of a kernel's results for the
// blocks of vector i.
func (h *Host) reduce(out []float64, kernel func(*task, int, int), merge func(a, b float64) float64, x, y Batch) {
	blocks := max(1, parts(x.n, dotBlock))
	t := newTask(kernel, len(out)*blocks, max(1, elementGrain/max(1, min(x.n, dotBlock))))
	t.x, t.y, t.width, t.out = x, y, blocks, out
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

// block is vector i and the coordinates [p, q) of a reduction's block u.
func (t *task) block(u int) (i, p, q int) {
	i = u / t.width
	p = u % t.width * dotBlock
	return i, p, min(p+dotBlock, t.x.n)
}

// MaxAbs sets out_i = ||x_i||_inf.
func (h *Host) MaxAbs(out []float64, x Batch) {
	h.own(x)
	if len(out) != x.k {
		panic(fmt.Sprintf("array: MaxAbs of %s into %d values", x, len(out)))
	}
	h.reduce(out, maxAbsKernel, func(s, v float64) float64 { return max(s, v) }, x, Batch{})
}

// maxAbsKernel compares the bits of absolute values: as integers they have the
// order of the numbers, with the NaNs above infinity.
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

// held is memory that is no batch: counted when taken, and once when freed.
type held struct {
	host  *Host
	bytes int64
	free  sync.Once
}

func (h *Host) hold(bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stats.LiveBytes += bytes
	h.stats.PeakBytes = max(h.stats.PeakBytes, h.stats.LiveBytes)
}

func (m *held) Bytes() int64 { return m.bytes }
func (m *held) Free()        { m.free.Do(func() { m.host.hold(-m.bytes) }) }

type hostIndex struct {
	held
	idx []int32
	// end is one more than the largest coordinate.
	end int
}

func (x *hostIndex) Len() int { return len(x.idx) }

// NewIndex puts a list of coordinates on the device. A coordinate must not be
// negative nor exceed the largest int32.
func (h *Host) NewIndex(idx []int) Index {
	x := &hostIndex{idx: make([]int32, len(idx))}
	for i, v := range idx {
		if v < 0 || v > math.MaxInt32 {
			panic(fmt.Sprintf("array: coordinate %d at place %d of an index, expected 0 to %d", v, i, math.MaxInt32))
		}
		x.idx[i] = int32(v)
		x.end = max(x.end, v+1)
	}
	x.host, x.bytes = h, 4*int64(len(idx))
	h.hold(x.bytes)
	return x
}

func (h *Host) index(op string, dst, x, long Batch, idx Index) *hostIndex {
	ix, ok := idx.(*hostIndex)
	if !ok {
		panic(fmt.Sprintf("array: %s on %q with an index of another device, a %T", op, h.Name(), idx))
	}
	if ix.end > long.n {
		panic(fmt.Sprintf("array: %s of %s into %s at coordinate %d", op, x, dst, ix.end-1))
	}
	return ix
}

// Gather sets dst_ij = x_i[idx_j].
func (h *Host) Gather(dst, x Batch, idx Index) {
	h.own(dst)
	h.own(x)
	if dst.k != x.k || dst.n != idx.Len() {
		panic(fmt.Sprintf("array: Gather of %s at %d coordinates into %s", x, idx.Len(), dst))
	}
	ix := h.index("Gather", dst, x, x, idx)
	t := newTask(gatherKernel, dst.k*dst.n, elementGrain)
	t.dst, t.x, t.idx = dst, x, ix.idx
	t.run()
}

func gatherKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		d, x, idx := t.dst.row(i)[p:q], t.x.row(i), t.idx[p:q]
		for j, c := range idx {
			d[j] = x[c]
		}
		lo += q - p
	}
}

// Scatter sets dst = 0, then dst_i[idx_j] = x_ij.
func (h *Host) Scatter(dst, x Batch, idx Index) {
	h.own(dst)
	h.own(x)
	if dst.k != x.k || x.n != idx.Len() {
		panic(fmt.Sprintf("array: Scatter of %s at %d coordinates into %s", x, idx.Len(), dst))
	}
	ix := h.index("Scatter", dst, x, dst, idx)
	h.Fill(dst, 0)
	t := newTask(scatterKernel, dst.k*x.n, elementGrain)
	t.dst, t.x, t.idx = x, dst, ix.idx // segments run over x
	t.run()
}

func scatterKernel(t *task, lo, hi int) {
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		x, d, idx := t.dst.row(i)[p:q], t.x.row(i), t.idx[p:q]
		for j, c := range idx {
			d[c] = x[j]
		}
		lo += q - p
	}
}

type hostCSR struct {
	held
	rows, cols int
	indptr     []int
	indices    []int32
	values     []float64
}

func (a *hostCSR) Dims() (int, int) { return a.rows, a.cols }
func (a *hostCSR) Nonzeros() int    { return len(a.values) }

// NewCSR puts a sparse matrix on the device. The slices are copied. Column
// indices must not exceed the largest int32.
func (h *Host) NewCSR(rows, cols int, indptr, indices []int, values []float64) CSR {
	if rows < 0 || cols < 0 || cols > math.MaxInt32 || len(indptr) != rows+1 || indptr[0] != 0 ||
		len(indices) != len(values) || indptr[rows] != len(values) {
		panic(fmt.Sprintf("array: a CSR matrix of %d x %d with %d row pointers, %d indices, %d values", rows, cols, len(indptr), len(indices), len(values)))
	}
	for r := range rows {
		if indptr[r+1] < indptr[r] {
			panic(fmt.Sprintf("array: row %d of a CSR matrix starts at %d and ends at %d", r, indptr[r], indptr[r+1]))
		}
	}
	m := &hostCSR{rows: rows, cols: cols, indptr: slices.Clone(indptr), values: slices.Clone(values)}
	m.indices = make([]int32, len(indices))
	for i, v := range indices {
		if v < 0 || v >= cols {
			panic(fmt.Sprintf("array: column %d in a CSR matrix of %d columns", v, cols))
		}
		m.indices[i] = int32(v)
	}
	m.host, m.bytes = h, 8*int64(len(indptr))+12*int64(len(values))
	h.hold(m.bytes)
	return m
}

// MulCSR sets dst_i = A x_i.
func (h *Host) MulCSR(dst Batch, a CSR, x Batch) {
	h.own(dst)
	h.own(x)
	m, ok := a.(*hostCSR)
	if !ok {
		panic(fmt.Sprintf("array: MulCSR on %q with a matrix of another device, a %T", h.Name(), a))
	}
	if x.n != m.cols || dst.n != m.rows || x.k != dst.k {
		panic(fmt.Sprintf("array: MulCSR of a %d x %d matrix and %s into %s", m.rows, m.cols, x, dst))
	}
	perRow := 1 + len(m.values)/max(m.rows, 1)
	t := newTask(csrKernel, parts(dst.k, csrVectors)*dst.n, max(1, elementGrain/csrVectors/perRow))
	t.dst, t.x, t.csr = dst, x, m
	t.run()
}

// csrVectors is how many vectors share one reading of the matrix.
const csrVectors = 4

// csrKernel sums along the rows of A for csrVectors vectors at once; each sum
// runs in the order of the row, whoever stands beside it.
func csrKernel(t *task, lo, hi int) {
	m := t.csr
	for u := lo; u < hi; u++ {
		i, r := u/m.rows*csrVectors, u%m.rows
		from, to := m.indptr[r], m.indptr[r+1]
		indices, values := m.indices[from:to], m.values[from:to]
		values = values[:len(indices)]
		if i+csrVectors > t.dst.k {
			for ; i < t.dst.k; i++ {
				x, s := t.x.row(i), 0.0
				for j, c := range indices {
					s += values[j] * x[c]
				}
				t.dst.row(i)[r] = s
			}
			continue
		}
		x0, x1, x2, x3 := t.x.row(i), t.x.row(i+1), t.x.row(i+2), t.x.row(i+3)
		x1, x2, x3 = x1[:len(x0)], x2[:len(x0)], x3[:len(x0)]
		var s0, s1, s2, s3 float64
		for j, c := range indices {
			v := values[j]
			s0 += v * x0[c]
			s1 += v * x1[c]
			s2 += v * x2[c]
			s3 += v * x3[c]
		}
		t.dst.row(i)[r], t.dst.row(i + 1)[r], t.dst.row(i + 2)[r], t.dst.row(i + 3)[r] = s0, s1, s2, s3
	}
}
