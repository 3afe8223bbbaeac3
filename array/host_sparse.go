package array

import (
	"fmt"
	"math"
	"slices"
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

// Scatter sets dst = 0, then dst_i[idx_j] = x_ij.
func (h *Host) Scatter(dst, x Batch, idx Index) {
	h.own(dst)
	h.own(x)
	if dst.k != x.k || x.n != idx.Len() {
		panic(fmt.Sprintf("array: Scatter of %s at %d coordinates into %s", x, idx.Len(), dst))
	}
	ix := h.index("Scatter", dst, x, dst, idx)
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

// NewCSR puts a sparse matrix on the device. The slices are copied. Column
// indices must not exceed the largest int32.
func (h *Host) NewCSR(rows, cols int, indptr, indices []int, values []float64) CSR {
	if rows < 0 || cols < 0 || cols > math.MaxInt32 || len(indptr) != rows+1 || indptr[0] != 0 ||
		len(indices) != len(values) || indptr[rows] != len(values) {
		panic(fmt.Sprintf("array: a CSR matrix of %d x %d with %d row pointers, %d indices, %d values", rows, cols,
			len(indptr), len(indices), len(values)))
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
	t := h.newTask(csrKernel, parts(dst.k, csrVectors)*dst.n, max(1, elementGrain/csrVectors/perRow))
	t.dst, t.x, t.csr = dst, x, m
	t.run()
}

// csrVectors is the number of vectors that one pass over the matrix serves.
const csrVectors = 4

// csrKernel sums along the rows of A for csrVectors vectors at once. Each sum is in the order of
// the row, whatever the other vectors.
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
