package array

import (
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// The host's granularity. Every constant below is part of the definition of the
// results' bits: chunks and tiles depend on shapes, never on the machine.
const (
	// elementGrain is how many values one goroutine takes at a time in an
	// elementwise operation: 128 KiB, enough to hide the hand-over.
	elementGrain = 1 << 14
	// dotBlock is the length over which a dot product is summed before blocks
	// are added up in order.
	dotBlock = 1 << 12
	// gemmRows is the number of rows that a GEMM call sees, always: a shorter
	// tile is padded. BLAS libraries switch kernels with the number of rows, and
	// so a row's last bits; with one number they cannot. 24 is a whole number of
	// every register tile in use (4, 6, 8, 12, 24 rows) and reaches 85% of the
	// speed of large tiles.
	gemmRows = 24
	// gemmCols is the width of the panel of C that one GEMM call computes.
	gemmCols = 512
)

// Host is the device that computes on this machine's processors, with gonum and
// the BLAS registered there. It needs no opening: use [NewHost].
type Host struct {
	mu    sync.Mutex
	pool  map[int][]*hostBuffer
	stats Stats
	err   error
}

// maxPooledBytes bounds what the host keeps for reuse.
const maxPooledBytes = 2 << 30

type hostBuffer struct {
	data  []float64
	freed bool
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
	if k < 0 || n < 0 {
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

// Free returns b's memory to the pool. Freeing twice panics.
func (h *Host) Free(b Batch) {
	buf := h.own(b)
	size := len(buf.data)
	h.mu.Lock()
	defer h.mu.Unlock()
	if buf.freed {
		panic(fmt.Sprintf("array: batch %s freed twice", b))
	}
	buf.freed = true
	h.stats.Live--
	h.stats.LiveBytes -= 8 * int64(size)
	if h.stats.PooledBytes+8*int64(size) <= maxPooledBytes {
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
func (h *Host) Err() error { return h.err }

// Sync does nothing: the host's operations end before they return.
func (h *Host) Sync() error { return h.err }

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
		panic(fmt.Sprintf("array: a batch %s of device %v used on %q", b, b.dev, h.Name()))
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
	return buf.data[b.off+i*b.stride:][:b.n:b.n], true
}

// row is HostRow where the place is known; a batch of one vector is broadcast.
func (b *Batch) row(i int) []float64 {
	if b.k == 1 {
		i = 0
	}
	return b.buf.(*hostBuffer).data[b.off+i*b.stride:][:b.n:b.n]
}

// flat reports whether the batch can be walked as one long vector.
func (b *Batch) flat(k int) bool { return b.k == k && b.Contiguous() }

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

// elementwise runs a kernel over all values: as one long vector where every
// operand allows it, else in chunks of each vector. The kernel sees chunk
// bounds in units of values of the flattened k x n matrix; segment yields the
// slices.
func (h *Host) elementwise(kernel func(*task, int, int), dst, x, y, z Batch, a, b float64) {
	t := newTask(kernel, dst.k*dst.n, elementGrain)
	t.dst, t.x, t.y, t.z, t.a, t.b = dst, x, y, z, a, b
	t.run()
}

// segments calls f for each stretch of the flattened range [lo, hi) that lies
// in one vector: vector i, coordinates [p, q).
func (t *task) segment(lo, hi int) (i, p, q int) {
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
	blocks := (x.n + dotBlock - 1) / dotBlock
	if blocks <= 1 {
		for i := range out {
			out[i] = dot(x.row(i), y.row(i))
		}
		return
	}
	part := h.Alloc(len(out), blocks)
	t := newTask(dotKernel, len(out)*blocks, 4)
	t.dst, t.x, t.y = part, x, y
	t.run()
	for i := range out {
		s := 0.0
		for _, v := range part.row(i) {
			s += v
		}
		out[i] = s
	}
	h.Free(part)
}

func dotKernel(t *task, lo, hi int) {
	blocks := t.dst.n
	for u := lo; u < hi; u++ {
		i, b := u/blocks, u%blocks
		x, y := t.x.row(i), t.y.row(i)
		p, q := b*dotBlock, min((b+1)*dotBlock, len(x))
		t.dst.buf.(*hostBuffer).data[t.dst.off+u] = dot(x[p:q], y[p:q])
	}
}

// dot sums with four accumulators; the bits depend on the length alone.
func dot(x, y []float64) float64 {
	y = y[:len(x)]
	var s0, s1, s2, s3 float64
	j := 0
	for ; j+4 <= len(x); j += 4 {
		s0 += x[j] * y[j]
		s1 += x[j+1] * y[j+1]
		s2 += x[j+2] * y[j+2]
		s3 += x[j+3] * y[j+3]
	}
	for ; j < len(x); j++ {
		s0 += x[j] * y[j]
	}
	return (s0 + s1) + (s2 + s3)
}

// MaxAbs sets out_i = ||x_i||_inf.
func (h *Host) MaxAbs(out []float64, x Batch) {
	h.own(x)
	if len(out) != x.k {
		panic(fmt.Sprintf("array: MaxAbs of %s into %d values", x, len(out)))
	}
	t := newTask(maxAbsKernel, x.k, max(1, elementGrain/max(x.n, 1)))
	t.x, t.out = x, out
	t.run()
}

func maxAbsKernel(t *task, lo, hi int) {
	for i := lo; i < hi; i++ {
		m := 0.0
		for _, v := range t.x.row(i) {
			m = max(m, math.Abs(v))
		}
		t.out[i] = m
	}
}

func flag(trans bool) blas.Transpose {
	if trans {
		return blas.Trans
	}
	return blas.NoTrans
}

// Gemm sets C = alpha op(A) op(B) + beta C.
func (h *Host) Gemm(transA, transB bool, alpha float64, a, b Batch, beta float64, c Batch) {
	h.own(a)
	h.own(b)
	h.own(c)
	sa, sb := Shape{a.k, a.n}, Shape{b.k, b.n}
	if transA {
		sa = sa.T()
	}
	if transB {
		sb = sb.T()
	}
	if sa.Rows != c.k || sb.Cols != c.n || sa.Cols != sb.Rows {
		panic(fmt.Sprintf("array: Gemm of %s (trans %t) and %s (trans %t) into %s", a, transA, b, transB, c))
	}
	kernel, tiles := gemmKernel, (c.k+gemmRows-1)/gemmRows
	width := gemmCols
	switch {
	case c.k == 1 && !transA:
		kernel, tiles = gemvKernel, 1
		if sa.Cols*c.n < elementGrain {
			width = max(c.n, 1)
		}
	case c.n < 2*gemmCols && c.n > 64:
		width = (c.n + 1) / 2
	}
	t := newTask(kernel, tiles*((c.n+width-1)/width), 1)
	t.x, t.y, t.dst, t.a, t.b, t.ta, t.tb = a, b, c, alpha, beta, transA, transB
	t.sc = Shape{tiles, width}
	t.sa = sa
	t.run()
}

// cols is op(B) restricted to columns [p, q) of C.
func cols(b Batch, trans bool, p, q int) Batch {
	if trans {
		return b.Rows(p, q)
	}
	return b.Cols(p, q)
}

// data is the matrix's memory, from its first value on.
func (b Batch) data() []float64 {
	if b.k == 0 || b.n == 0 {
		return nil
	}
	return b.buf.(*hostBuffer).data[b.off : b.off+(b.k-1)*b.stride+b.n]
}

// ld is the leading dimension as BLAS checks it.
func (b Batch) ld() int { return max(b.stride, b.n, 1) }

// gemmKernel does one call of gemmRows rows and one panel of columns.
func gemmKernel(t *task, lo, hi int) {
	impl := blas64.Implementation()
	for u := lo; u < hi; u++ {
		panel, tile := u/t.sc.Rows, u%t.sc.Rows
		p := panel * t.sc.Cols
		q := min(p+t.sc.Cols, t.dst.n)
		r := tile * gemmRows
		rows := min(gemmRows, t.dst.k-r)
		inner := t.sa.Cols
		b := cols(t.y, t.tb, p, q)
		c := t.dst.Rows(r, r+rows).Cols(p, q)
		h := t.dst.dev.(*Host)
		if rows == gemmRows && !t.ta {
			a := t.x.Rows(r, r+rows)
			impl.Dgemm(blas.NoTrans, flag(t.tb), rows, q-p, inner, t.a, a.data(), a.ld(), b.data(), b.ld(), t.b, c.data(), c.ld())
			continue
		}
		// A full tile of scratch: A's rows, zeros below, and C beside it.
		pa, pc := h.Alloc(gemmRows, max(inner, 1)), h.Alloc(gemmRows, q-p)
		h0 := pa.data()
		clear(h0)
		for i := range rows {
			if t.ta {
				for j := range inner {
					h0[i*inner+j] = t.x.row(j)[r+i]
				}
			} else {
				copy(h0[i*inner:(i+1)*inner], t.x.Rows(r+i, r+i+1).data())
			}
		}
		impl.Dgemm(blas.NoTrans, flag(t.tb), gemmRows, q-p, inner, t.a, h0, max(inner, 1), b.data(), b.ld(), 0, pc.data(), pc.ld())
		for i := range rows {
			d, s := c.Rows(i, i+1), pc.row(i)
			if t.b == 0 {
				copy(d.data(), s)
			} else {
				lin(d.data(), t.b, d.data(), 1, s)
			}
		}
		h.Free(pa)
		h.Free(pc)
	}
}

// gemvKernel does one panel of columns of a single row of C.
func gemvKernel(t *task, lo, hi int) {
	impl := blas64.Implementation()
	for u := lo; u < hi; u++ {
		p := u * t.sc.Cols
		q := min(p+t.sc.Cols, t.dst.n)
		b := cols(t.y, t.tb, p, q)
		x, y := t.x.data(), t.dst.data()[p:q]
		// y' = op(B)' x: B transposed stands as its rows already.
		if t.tb {
			impl.Dgemv(blas.NoTrans, b.k, b.n, t.a, b.data(), b.ld(), x, 1, t.b, y, 1)
		} else {
			impl.Dgemv(blas.Trans, b.k, b.n, t.a, b.data(), b.ld(), x, 1, t.b, y, 1)
		}
	}
}

// GemmEach does one product for every vector of c.
func (h *Host) GemmEach(transA, transB bool, alpha float64, a Batch, sa Shape, b Batch, sb Shape, beta float64, c Batch) {
	h.own(a)
	h.own(b)
	h.own(c)
	oa, ob := sa, sb
	if transA {
		oa = oa.T()
	}
	if transB {
		ob = ob.T()
	}
	if sa.Len() != a.n || sb.Len() != b.n || oa.Cols != ob.Rows || oa.Rows*ob.Cols != c.n ||
		(a.k != 1 && a.k != c.k) || (b.k != 1 && b.k != c.k) {
		panic(fmt.Sprintf("array: GemmEach of %s as %v (trans %t) and %s as %v (trans %t) into %s", a, sa, transA, b, sb, transB, c))
	}
	grain := 1
	if work := oa.Rows * oa.Cols * ob.Cols; work < 1<<16 {
		grain = (1 << 16) / max(work, 1)
	}
	t := newTask(gemmEachKernel, c.k, grain)
	t.x, t.y, t.dst, t.a, t.b, t.ta, t.tb, t.sa, t.sb = a, b, c, alpha, beta, transA, transB, sa, sb
	t.sc = Shape{oa.Rows, ob.Cols}
	t.run()
}

func gemmEachKernel(t *task, lo, hi int) {
	impl := blas64.Implementation()
	inner := t.sa.Cols
	if t.ta {
		inner = t.sa.Rows
	}
	for i := lo; i < hi; i++ {
		if t.sc.Len() == 0 {
			continue
		}
		impl.Dgemm(flag(t.ta), flag(t.tb), t.sc.Rows, t.sc.Cols, inner, t.a,
			t.x.row(i), max(t.sa.Cols, 1), t.y.row(i), max(t.sb.Cols, 1), t.b, t.dst.row(i), t.sc.Cols)
	}
}

type hostIndex []int32

func (x hostIndex) Len() int { return len(x) }
func (x hostIndex) Free()    {}

// NewIndex puts a list of coordinates on the device.
func (h *Host) NewIndex(idx []int) Index {
	x := make(hostIndex, len(idx))
	for i, v := range idx {
		if v < 0 || v > math.MaxInt32 {
			panic(fmt.Sprintf("array: coordinate %d in an index", v))
		}
		x[i] = int32(v)
	}
	return x
}

// Gather sets dst_ij = x_i[idx_j].
func (h *Host) Gather(dst, x Batch, idx Index) {
	h.own(dst)
	h.own(x)
	if dst.k != x.k || dst.n != idx.Len() {
		panic(fmt.Sprintf("array: Gather of %s at %d coordinates into %s", x, idx.Len(), dst))
	}
	t := newTask(gatherKernel, dst.k*dst.n, elementGrain)
	t.dst, t.x, t.idx = dst, x, idx.(hostIndex)
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
	h.Fill(dst, 0)
	t := newTask(scatterKernel, dst.k*x.n, elementGrain)
	t.dst, t.x, t.idx = x, dst, idx.(hostIndex) // segments run over x
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
	rows, cols int
	indptr     []int
	indices    []int32
	values     []float64
}

func (a *hostCSR) Dims() (int, int) { return a.rows, a.cols }
func (a *hostCSR) Nonzeros() int    { return len(a.values) }
func (a *hostCSR) Free()            {}

// NewCSR puts a sparse matrix on the device. The slices are copied.
func (h *Host) NewCSR(rows, cols int, indptr, indices []int, values []float64) CSR {
	if len(indptr) != rows+1 || len(indices) != len(values) || indptr[rows] != len(values) {
		panic(fmt.Sprintf("array: a CSR matrix of %d x %d with %d row pointers, %d indices, %d values", rows, cols, len(indptr), len(indices), len(values)))
	}
	m := &hostCSR{rows: rows, cols: cols, indptr: append([]int(nil), indptr...), values: append([]float64(nil), values...)}
	m.indices = make([]int32, len(indices))
	for i, v := range indices {
		if v < 0 || v >= cols {
			panic(fmt.Sprintf("array: column %d in a CSR matrix of %d columns", v, cols))
		}
		m.indices[i] = int32(v)
	}
	return m
}

// MulCSR sets dst_i = A x_i.
func (h *Host) MulCSR(dst Batch, a CSR, x Batch) {
	h.own(dst)
	h.own(x)
	m := a.(*hostCSR)
	if x.n != m.cols || dst.n != m.rows || x.k != dst.k {
		panic(fmt.Sprintf("array: MulCSR of a %d x %d matrix and %s into %s", m.rows, m.cols, x, dst))
	}
	if dst.n == 0 {
		return
	}
	perRow := max(1, len(m.values)/max(m.rows, 1))
	t := newTask(csrKernel, dst.k*dst.n, max(1, elementGrain/perRow))
	t.dst, t.x, t.csr = dst, x, m
	t.run()
}

func csrKernel(t *task, lo, hi int) {
	m := t.csr
	for lo < hi {
		i, p, q := t.segment(lo, hi)
		d, x := t.dst.row(i), t.x.row(i)
		for r := p; r < q; r++ {
			s := 0.0
			for u := m.indptr[r]; u < m.indptr[r+1]; u++ {
				s += m.values[u] * x[m.indices[u]]
			}
			d[r] = s
		}
		lo += q - p
	}
}
