package array

import (
	"surepipe/internal/parallel"
)

type hostIndex struct {
	held
	idx []int32
	// end is one more than the largest coordinate.
	end int
}

func (x *hostIndex) Len() int { return len(x.idx) }

// NewIndex puts a list of coordinates on the device. They must be between 0 and the largest int32.
func (h *Host) NewIndex(idx []int) Index {
	list, end := CheckIndex(idx)
	return &hostIndex{h.hold(4 * int64(len(idx))), list, end}
}

func (h *Host) Gather(dst, x Batch, idx Index) {
	h.own(dst)
	h.own(x)
	ix := onHost[*hostIndex]("Gather", idx)
	CheckGather(false, dst, x, ix, ix.end)
	t := h.newTask(gatherKernel, dst.k*dst.n, elementGrain)
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

func (h *Host) Scatter(dst, x Batch, idx Index) {
	h.own(dst)
	h.own(x)
	ix := onHost[*hostIndex]("Scatter", idx)
	CheckGather(true, dst, x, ix, ix.end)
	h.Fill(dst, 0)
	t := h.newTask(scatterKernel, dst.k*x.n, elementGrain)
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

func (h *Host) NewCSR(rows, cols int, indptr, indices []int, values []float64) CSR {
	m := &hostCSR{rows: rows, cols: cols, indptr: indptr, indices: CheckCSR(rows, cols, indptr, indices, values),
		values: values}
	m.held = h.hold(8*int64(len(indptr)) + 12*int64(len(values)))
	return m
}

func (h *Host) MulCSR(dst Batch, a CSR, x Batch) {
	h.own(dst)
	h.own(x)
	m := onHost[*hostCSR]("MulCSR", a)
	CheckMulCSR(dst, m, x)
	perRow := 1 + len(m.values)/max(m.rows, 1)
	t := h.newTask(csrKernel, parallel.Parts(dst.k, csrVectors)*dst.n, max(1, elementGrain/csrVectors/perRow))
	t.dst, t.x, t.on = dst, x, m
	t.run()
}

// csrVectors is the number of vectors that one pass over the matrix serves.
const csrVectors = 4

// csrKernel sums along the rows of A for csrVectors vectors at once. Each sum is in the order of
// the row, whatever the other vectors. Rows may have an entry or two, and so little is done for each.
func csrKernel(t *task, lo, hi int) {
	m := t.on.(*hostCSR)
	for lo < hi {
		i, from := lo/m.rows*csrVectors, lo%m.rows
		to := min(from+hi-lo, m.rows)
		lo += to - from
		if i+csrVectors <= t.dst.k {
			m.timesFour(t, i, from, to)
			continue
		}
		for ; i < t.dst.k; i++ {
			m.times(t.dst.row(i), t.x.row(i), from, to)
		}
	}
}

func (m *hostCSR) timesFour(t *task, i, lo, hi int) {
	x0, x1, x2, x3 := t.x.row(i), t.x.row(i+1), t.x.row(i+2), t.x.row(i+3)
	x1, x2, x3 = x1[:len(x0)], x2[:len(x0)], x3[:len(x0)]
	d0, d1, d2, d3 := t.dst.row(i), t.dst.row(i+1), t.dst.row(i+2), t.dst.row(i+3)
	d1, d2, d3 = d1[:len(d0)], d2[:len(d0)], d3[:len(d0)]
	indices, values := m.indices, m.values[:len(m.indices)]
	j := m.indptr[lo]
	for r := lo; r < hi; r++ {
		var s0, s1, s2, s3 float64
		for to := m.indptr[r+1]; j < to; j++ {
			v, c := values[j], indices[j]
			s0 += v * x0[c]
			s1 += v * x1[c]
			s2 += v * x2[c]
			s3 += v * x3[c]
		}
		d0[r], d1[r], d2[r], d3[r] = s0, s1, s2, s3
	}
}

func (m *hostCSR) times(dst, x []float64, lo, hi int) {
	indices, values := m.indices, m.values[:len(m.indices)]
	j := m.indptr[lo]
	for r := lo; r < hi; r++ {
		s := 0.0
		for to := m.indptr[r+1]; j < to; j++ {
			s += values[j] * x[indices[j]]
		}
		dst[r] = s
	}
}
