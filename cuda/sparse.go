//go:build cuda

package cuda

import "surepipe/array"

// index is a list of coordinates on the card, each 4 bytes.
type index struct {
	lists
	len int
	end int // one more than the largest coordinate
}

func (x *index) Len() int { return x.len }

// NewIndex puts a list of coordinates on the device. They must be between 0 and the largest int32.
func (d *Device) NewIndex(idx []int) array.Index {
	list, end := array.CheckIndex(idx)
	x := &index{len: len(idx), end: end}
	put(d, &x.lists, "NewIndex", list)
	return x
}

func (d *Device) Gather(dst, x array.Batch, idx array.Index) {
	d = d.into(dst, x)
	ix := onCard[*index](d, "Gather", idx)
	array.CheckGather(false, dst, x, ix, ix.end)
	d.entries("Gather", dst, dst.K(), dst.N(), func(g grid, k, n int64) error {
		return d.launchGather(g, operandOf(dst), operandOf(x), ix.at(0), k, n)
	})
}

func (d *Device) Scatter(dst, x array.Batch, idx array.Index) {
	d = d.into(dst, x)
	ix := onCard[*index](d, "Scatter", idx)
	array.CheckGather(true, dst, x, ix, ix.end)
	d.Fill(dst, 0)
	d.entries("Scatter", dst, x.K(), x.N(), func(g grid, k, n int64) error {
		return d.launchScatter(g, operandOf(dst), operandOf(x), ix.at(0), k, n)
	})
}

// csr is a sparse matrix on the card: the starts of its rows, the columns of its entries and their values.
type csr struct {
	lists
	rows, cols, nonzeros int
}

func (a *csr) Dims() (int, int) { return a.rows, a.cols }
func (a *csr) Nonzeros() int    { return a.nonzeros }

// NewCSR puts a sparse matrix on the device. The slices are copied. Column indices
// must not exceed the largest int32.
func (d *Device) NewCSR(rows, cols int, indptr, indices []int, values []float64) array.CSR {
	columns, starts := array.CheckCSR(rows, cols, indptr, indices, values), make([]int64, rows+1)
	for r, start := range indptr {
		starts[r] = int64(start)
	}
	a := &csr{rows: rows, cols: cols, nonzeros: len(values)}
	put(d, &a.lists, "NewCSR", starts)
	put(d, &a.lists, "NewCSR", columns)
	put(d, &a.lists, "NewCSR", values)
	return a
}

func (d *Device) MulCSR(dst array.Batch, a array.CSR, x array.Batch) {
	d = d.into(dst, x)
	m := onCard[*csr](d, "MulCSR", a)
	array.CheckMulCSR(dst, m, x)
	d.entries("MulCSR", dst, dst.K(), dst.N(), func(g grid, k, n int64) error {
		return d.launchCsr(g, operandOf(dst), m.at(0), m.at(1), m.at(2), operandOf(x), k, n)
	})
}
