//go:build cuda

package cuda

import (
	"fmt"
	"math"
	"unsafe"

	"surepipe/array"
)

// index is a list of coordinates on the card, each 4 bytes.
type index struct {
	on  *card
	buf *buffer
	len int
	// end is one more than the largest coordinate.
	end int
}

func (x *index) Len() int     { return x.len }
func (x *index) Bytes() int64 { return 4 * int64(x.len) }

func (x *index) Free() {
	if x.buf != nil {
		x.on.drop(x.buf)
		x.buf = nil
	}
}

// put copies a list to memory of its own, which does not count as a batch.
func put[T int32 | int64 | float64](d *Device, what string, list []T) *buffer {
	var one T
	bytes := int(unsafe.Sizeof(one)) * len(list)
	values := (bytes + 7) / 8
	buf := d.take(1, values, array.Capacity(1, values))
	d.count(buf, 1)
	if len(list) > 0 {
		d.upload(what, array.NewBatch(d, buf, 1, values), buf.at, unsafe.Pointer(&list[0]), int64(bytes))
		if err := d.Err(); err != nil {
			// What the memory holds is not the list: coordinates that no kernel may follow.
			buf.missing = err
		}
	}
	return buf
}

// count adds memory outside batches to the statistics, or with sign -1 removes it.
func (d *card) count(buf *buffer, sign int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.LiveBytes += sign * 8 * int64(buf.size)
	d.stats.PeakBytes = max(d.stats.PeakBytes, d.stats.LiveBytes)
}

// drop frees the memory of put.
func (d *card) drop(buf *buffer) {
	d.count(buf, -1)
	d.give(buf)
}

// NewIndex puts a list of coordinates on the device. They must be between 0 and the largest int32.
func (d *Device) NewIndex(idx []int) array.Index {
	x := &index{on: d.card, len: len(idx)}
	list := make([]int32, len(idx))
	for i, v := range idx {
		if v < 0 || v > math.MaxInt32 {
			panic(fmt.Sprintf("array: coordinate %d at place %d of an index, expected 0 to %d", v, i, math.MaxInt32))
		}
		list[i] = int32(v)
		x.end = max(x.end, v+1)
	}
	x.buf = put(d, "NewIndex", list)
	return x
}

func (d *Device) index(op string, dst, x, long array.Batch, idx array.Index) *index {
	ix, ok := idx.(*index)
	if !ok || ix.on != d.card {
		panic(fmt.Sprintf("array: %s on %q with an index of another device, a %T", op, d.name, idx))
	}
	if ix.buf == nil {
		panic(fmt.Sprintf("array: %s with an index of %d coordinates used after it was freed", op, ix.len))
	}
	if ix.end > long.N() {
		panic(fmt.Sprintf("array: %s of %s into %s at coordinate %d", op, x, dst, ix.end-1))
	}
	d.need(ix.buf)
	return ix
}

// Gather sets dst_ij = x_i[idx_j].
func (d *Device) Gather(dst, x array.Batch, idx array.Index) {
	d = d.into(dst, x)
	if dst.K() != x.K() || dst.N() != idx.Len() {
		panic(fmt.Sprintf("array: Gather of %s at %d coordinates into %s", x, idx.Len(), dst))
	}
	ix := d.index("Gather", dst, x, x, idx)
	if dst.K() == 0 || dst.N() == 0 {
		return
	}
	k, n := int64(dst.K()), int64(dst.N())
	to, from := operandOf(dst), operandOf(x)
	d.do("Gather", dst, func() error {
		return d.kernels.launchGather(over(k, n), d.stream, to.at, to.stride, from.at, from.stride, ix.buf.at, k, n)
	})
}

// Scatter sets dst = 0, then dst_i[idx_j] = x_ij.
func (d *Device) Scatter(dst, x array.Batch, idx array.Index) {
	d = d.into(dst, x)
	if dst.K() != x.K() || x.N() != idx.Len() {
		panic(fmt.Sprintf("array: Scatter of %s at %d coordinates into %s", x, idx.Len(), dst))
	}
	ix := d.index("Scatter", dst, x, dst, idx)
	d.Fill(dst, 0)
	if x.K() == 0 || x.N() == 0 {
		return
	}
	k, n := int64(x.K()), int64(x.N())
	to, from := operandOf(dst), operandOf(x)
	d.do("Scatter", dst, func() error {
		return d.kernels.launchScatter(over(k, n), d.stream, to.at, to.stride, from.at, from.stride, ix.buf.at, k, n)
	})
}

// csr is a sparse matrix on the card.
type csr struct {
	on                      *card
	rows, cols, nonzeros    int
	indptr, indices, values *buffer
}

func (a *csr) Dims() (int, int) { return a.rows, a.cols }
func (a *csr) Nonzeros() int    { return a.nonzeros }
func (a *csr) Bytes() int64     { return 8*int64(a.rows+1) + 12*int64(a.nonzeros) }

func (a *csr) Free() {
	if a.indptr != nil {
		a.on.drop(a.indptr)
		a.on.drop(a.indices)
		a.on.drop(a.values)
		a.indptr = nil
	}
}

// NewCSR puts a sparse matrix on the device. The slices are copied. Column indices
// must not exceed the largest int32.
func (d *Device) NewCSR(rows, cols int, indptr, indices []int, values []float64) array.CSR {
	if rows < 0 || cols < 0 || cols > math.MaxInt32 || len(indptr) != rows+1 || indptr[0] != 0 ||
		len(indices) != len(values) || indptr[rows] != len(values) {
		panic(fmt.Sprintf("array: a CSR matrix of %d x %d with %d row pointers, %d indices, %d values", rows, cols,
			len(indptr), len(indices), len(values)))
	}
	starts, columns := make([]int64, rows+1), make([]int32, len(indices))
	for r := range rows {
		if indptr[r+1] < indptr[r] {
			panic(fmt.Sprintf("array: row %d of a CSR matrix starts at %d and ends at %d", r, indptr[r], indptr[r+1]))
		}
		starts[r+1] = int64(indptr[r+1])
	}
	for i, v := range indices {
		if v < 0 || v >= cols {
			panic(fmt.Sprintf("array: column %d in a CSR matrix of %d columns", v, cols))
		}
		columns[i] = int32(v)
	}
	return &csr{d.card, rows, cols, len(values), put(d, "NewCSR", starts), put(d, "NewCSR", columns),
		put(d, "NewCSR", values)}
}

// MulCSR sets dst_i = A x_i, each entry summed in the order of A's row.
func (d *Device) MulCSR(dst array.Batch, a array.CSR, x array.Batch) {
	d = d.into(dst, x)
	m, ok := a.(*csr)
	if !ok || m.on != d.card {
		panic(fmt.Sprintf("array: MulCSR on %q with a matrix of another device, a %T", d.name, a))
	}
	if m.indptr == nil {
		panic(fmt.Sprintf("array: MulCSR of a %d x %d matrix used after it was freed", m.rows, m.cols))
	}
	if x.N() != m.cols || dst.N() != m.rows || x.K() != dst.K() {
		panic(fmt.Sprintf("array: MulCSR of a %d x %d matrix and %s into %s", m.rows, m.cols, x, dst))
	}
	for _, buf := range []*buffer{m.indptr, m.indices, m.values} {
		d.need(buf)
	}
	if dst.K() == 0 || dst.N() == 0 {
		return
	}
	k, n := int64(dst.K()), int64(dst.N())
	to, from := operandOf(dst), operandOf(x)
	d.do("MulCSR", dst, func() error {
		return d.kernels.launchCsr(over(k, n), d.stream, to.at, to.stride, m.indptr.at, m.indices.at, m.values.at,
			from.at, from.stride, k, n)
	})
}
