package outofcore

import (
	"context"
	"runtime"
	"slices"
	"sort"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/linops/internal/sparse"
	"surepipe/space"
)

// sparseLines are products with lines of few entries. They are computed on the host, where the entries
// are read: each is used once, so that a device is not faster than the way to it. Vectors lie side by
// side, so that an entry meets all of them at once.
type sparseLines struct{ *source }

// columnBytes counts the entries of a [linops.CSR], twice on the device and twice on the host, and half as much
// for what has not been collected yet.
func (a sparseLines) columnBytes(j int) int64 { return 84 * (a.x.Nonzeros[j] + 1) }

// sideBySide are the vectors of a batch, coordinate by coordinate.
func sideBySide(b array.Batch) []float64 {
	x, k, n := b.ToHost(), b.K(), b.N()
	if k == 1 {
		return x
	}
	t := make([]float64, len(x))
	for i := range k {
		for j, v := range x[i*n : (i+1)*n] {
			t[j*k+i] = v
		}
	}
	return t
}

// upload sets the vectors of a batch from their coordinates side by side, one at a time.
func upload(dst array.Batch, x []float64) {
	dev, k := dst.Device(), dst.K()
	if k == 1 {
		dev.Upload(dst, x)
		return
	}
	row := make([]float64, dst.N())
	for i := range k {
		for j := range row {
			row[j] = x[j*k+i]
		}
		dev.Upload(dst.Rows(i, i+1), row)
	}
}

func (a sparseLines) forward(dst, b array.Batch) error {
	out := make([]float64, dst.K()*dst.N())
	x := sideBySide(b)
	var err error
	if a.x.ByRows {
		err = a.gather(a.ctx, out, x, b.K())
	} else {
		err = a.add(out, x, nonzero(b), b.K())
	}
	if err == nil {
		upload(dst, out)
	}
	return err
}

func (a sparseLines) transposed(ctx context.Context, dst, z array.Batch) error {
	out := make([]float64, dst.K()*dst.N())
	x := sideBySide(z)
	var err error
	if a.x.ByRows {
		err = a.scatter(ctx, out, x, z.K())
	} else {
		err = a.gather(ctx, out, x, z.K())
	}
	if err == nil {
		upload(dst, out)
	}
	return err
}

// pieceBytes is about the size in the store of lines whose entries are read at a time.
const pieceBytes = 8 << 20

func (a sparseLines) entries(ctx context.Context, f func(e *LineEntries, from, to int)) error {
	var e LineEntries
	err := a.pass(ctx, func(from, to int) {
		for lo, hi := from, 0; lo < to && ctx.Err() == nil; lo = hi {
			hi = lo + max(sort.Search(to-lo, func(i int) bool { return a.x.Size(lo, lo+i+1) > pieceBytes }), 1)
			a.x.Entries(&e, lo, hi)
			f(&e, lo, hi)
		}
	})
	if err == nil {
		err = ctx.Err() // in the last block
	}
	return err
}

// fewLines is the number of lines that a processor takes at a time.
const fewLines = 256

func (a sparseLines) gather(ctx context.Context, out, x []float64, k int) error {
	return a.entries(ctx, func(e *LineEntries, from, to int) {
		parallel.Ranges(to-from, fewLines, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				e.product(out[(from+i)*k:][:k], x, i)
			}
		})
	})
}

// product sets sum to the products of line i with as many vectors.
func (e *LineEntries) product(sum, x []float64, i int) {
	lo, hi := e.Indptr[i], e.Indptr[i+1]
	if len(sum) == 1 {
		s := 0.0
		for u, j := range e.Indices[lo:hi] {
			s += e.Values[lo+u] * x[j]
		}
		sum[0] = s
		return
	}
	for u, j := range e.Indices[lo:hi] {
		floats.AddScaled(sum, e.Values[lo+u], x[int(j)*len(sum):][:len(sum)])
	}
}

// scatter adds the lines times k numbers each. Every processor has coordinates of its own, which are
// summed in the order of the lines, however many there are.
func (a sparseLines) scatter(ctx context.Context, out, x []float64, k int) error {
	parts, n := runtime.GOMAXPROCS(0), a.length()
	return a.entries(ctx, func(e *LineEntries, from, to int) {
		parallel.For(parts, func(part int) {
			lo, hi := int32(part*n/parts), int32((part+1)*n/parts)
			for i := range to - from {
				e.scatter(out, x[(from+i)*k:][:k], i, lo, hi)
			}
		})
	})
}

// scatter adds line i times the numbers of c to out, where its indices are lo to hi-1.
func (e *LineEntries) scatter(out, c []float64, i int, lo, hi int32) {
	indices := e.Indices[e.Indptr[i]:e.Indptr[i+1]]
	values := e.Values[e.Indptr[i]:e.Indptr[i+1]]
	first, _ := slices.BinarySearch(indices, lo)
	if len(c) == 1 {
		for u := first; u < len(indices) && indices[u] < hi; u++ {
			out[indices[u]] += values[u] * c[0]
		}
		return
	}
	for u := first; u < len(indices) && indices[u] < hi; u++ {
		floats.AddScaled(out[int(indices[u])*len(c):][:len(c)], values[u], c)
	}
}

// add adds some lines times k numbers each, and reads no others.
func (a sparseLines) add(out, x []float64, set []int, k int) error {
	var e LineEntries
	for _, j := range set {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		a.x.Entries(&e, j, j+1)
		e.scatter(out, x[j*k:][:k], 0, 0, int32(a.length()))
		a.x.Drop(j, j+1)
		a.count(j, j+1)
	}
	return nil
}

// columns makes the columns a sparse matrix, scaled, which is centered in each product.
func (a sparseLines) columns(ctx context.Context, dev array.Device, set []int, u units) (linops.Restricted, error) {
	var x, t sparse.Matrix
	var err error
	if a.x.ByRows {
		if x, err = a.fromRows(ctx, set, u); err == nil {
			t = x.Transpose()
		}
	} else if t, err = a.fromColumns(ctx, set, u); err == nil {
		x = t.Transpose()
	}
	if err != nil {
		return nil, err
	}
	csr := linops.NewCSRBothWays(dev, x.D, x.P, x.Rows, t.Rows)
	if u.means == nil {
		return csr, nil
	}
	c := additive.NewCentered(dev, csr)
	return linops.Owning(c, csr, c), nil
}

// room is a matrix without rows yet, with room for the entries of columns.
func (a sparseLines) room(rows, cols int, set []int) sparse.Matrix {
	n := int64(0)
	for _, j := range set {
		n += a.x.Nonzeros[j]
	}
	return sparse.Matrix{D: rows, P: cols, Rows: space.Rows{Indptr: make([]int, 1, rows+1),
		Indices: make([]int, 0, n), Values: make([]float64, 0, n)}}
}

// fromColumns reads columns, which are the rows of the result.
func (a sparseLines) fromColumns(ctx context.Context, set []int, u units) (sparse.Matrix, error) {
	t := a.room(len(set), a.x.Rows, set)
	var e LineEntries
	for _, j := range set {
		if err := ctx.Err(); err != nil {
			return t, err
		}
		a.x.Entries(&e, j, j+1)
		for i, v := range e.Values {
			t.Indices, t.Values = append(t.Indices, int(e.Indices[i])), append(t.Values, u.scaled(v, j))
		}
		t.Indptr = append(t.Indptr, len(t.Indices))
		a.x.Drop(j, j+1)
		a.count(j, j+1)
	}
	return t, nil
}

func (a sparseLines) fromRows(ctx context.Context, set []int, u units) (sparse.Matrix, error) {
	x := a.room(a.x.Rows, len(set), set)
	at := make([]int32, a.x.Cols) // the place of a column in the set, from 1
	for k, j := range set {
		at[j] = int32(k + 1)
	}
	err := a.entries(ctx, func(e *LineEntries, from, to int) {
		for i := range to - from {
			for v := e.Indptr[i]; v < e.Indptr[i+1]; v++ {
				if j := e.Indices[v]; at[j] > 0 {
					x.Indices, x.Values = append(x.Indices, int(at[j]-1)),
						append(x.Values, u.scaled(e.Values[v], int(j)))
				}
			}
			x.Indptr = append(x.Indptr, len(x.Indices))
		}
	})
	return x, err
}
