package arrow

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/internal/parallel"
)

// imageParts is the number of parts of the rows whose parts of an image are computed together, and imageRows the
// least number of rows of one.
const imageParts, imageRows = 16, 64

// Images sets dst to D mu_hat v for count vectors v, one after the other.
func (a *Arrow) Images(ctx context.Context, dst, v []float64, count int) error {
	rows := max(imageRows, (a.m+imageParts-1)/imageParts)
	parts := parallel.Parts(a.m, rows)
	width := a.n * a.p * count
	sums, rests := make([][]float64, parts), make([]float64, a.m*count*a.q)
	err := parallel.Each(parts, func() *imageWork { return new(imageWork) }, func(part int, w *imageWork) error {
		sums[part] = make([]float64, width)
		for i := part * rows; i < min((part+1)*rows, a.m); i++ {
			if !a.down(sums[part], rests[i*count*a.q:(i+1)*count*a.q], v, i, count, w) {
				return ErrSingular
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	right := make([]float64, width)
	for _, s := range sums {
		blas64.Axpy(1, vector(s), vector(right))
	}
	a.between(right, count)
	return parallel.Each(parts, func() *imageWork { return new(imageWork) }, func(part int, w *imageWork) error {
		for i := part * rows; i < min((part+1)*rows, a.m); i++ {
			a.up(dst, rests[i*count*a.q:(i+1)*count*a.q], right, i, count, w)
		}
		return ctx.Err()
	})
}

// imageWork is the memory for one row: the probes at its entries, and coordinates of its block.
type imageWork struct {
	rowWork
	v, g, back []float64
}

// down eliminates row i: with its part g of the right-hand sides and r = A_i g it adds H_vi r, taken from the columns'
// part of the right-hand side, to sum: count times p values for every column.
func (a *Arrow) down(sum, rest, v []float64, i, count int, w *imageWork) bool {
	seen := a.ptr[i+1] - a.ptr[i]
	if seen == 0 {
		return true
	}
	x, inverse, ok := a.invert(i, &w.rowWork)
	if !ok {
		return false
	}
	values := general(count, seen, grown(&w.v, count*seen))
	for s := range seen {
		place := int(a.place[a.ptr[i]+s])
		for c := range count {
			values.Data[c*seen+s] = v[c*a.d+place]
		}
	}
	g := general(count, a.q, grown(&w.g, count*a.q))
	r := general(count, a.q, rest)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, values, x, 0, g)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, g, inverse, 0, r)
	blas64.Gemm(blas.NoTrans, blas.Trans, -1, r, x, 1, values) // v - w^{1/2} x_j* r
	u := a.u[i*a.p : (i+1)*a.p]
	for s := range seen {
		e := a.ptr[i] + s
		root, z := math.Sqrt(a.weight(e)), a.zeta[e]
		for c := range count {
			dst := sum[(int(a.col[e])*count+c)*a.p:][:a.p]
			coefficient := root * values.Data[c*seen+s]
			for t, f := range u {
				dst[t] += coefficient * f
			}
			from := r.Data[c*a.q+a.er : (c+1)*a.q]
			dst = dst[a.ec:]
			for t, f := range from {
				dst[t] -= z * f
			}
		}
	}
	return true
}

// between replaces the columns' right-hand sides by S^{-1} times them.
func (a *Arrow) between(right []float64, count int) {
	size := a.size()
	b, x := general(count, size, make([]float64, count*size)), general(count, size, make([]float64, count*size))
	each := func(f func(block, own []float64)) {
		for j := range a.n {
			for c := range count {
				f(right[(j*count+c)*a.p:][:a.p], b.Data[c*size+a.off[j]:c*size+a.off[j+1]])
			}
		}
	}
	at := 0
	each(func(block, own []float64) {
		copy(own, block[a.from[at/count]:])
		at++
	})
	const each2 = 256
	parallel.Ranges(size, each2, func(lo, hi int) {
		columns := blas64.General{Rows: size, Cols: hi - lo, Stride: size, Data: a.inverse[lo:]}
		out := blas64.General{Rows: count, Cols: hi - lo, Stride: size, Data: x.Data[lo:]}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, b, columns, 0, out)
	})
	b = x
	at = 0
	each(func(block, own []float64) {
		clear(block)
		copy(block[a.from[at/count]:], own)
		at++
	})
}

// up sets the images at the entries of row i from the columns' part of the solution.
func (a *Arrow) up(dst, rest, right []float64, i, count int, w *imageWork) {
	seen := a.ptr[i+1] - a.ptr[i]
	if seen == 0 {
		return
	}
	x, inverse, _ := a.invert(i, &w.rowWork)
	r := general(count, a.q, rest)
	forms := general(count, seen, grown(&w.v, count*seen)) // w^{1/2} u_i* p_j
	back := general(count, a.q, grown(&w.back, count*a.q)) // sum_j H_ij p_j
	clear(back.Data)
	u := a.u[i*a.p : (i+1)*a.p]
	for s := range seen {
		e := a.ptr[i] + s
		root, z := math.Sqrt(a.weight(e)), a.zeta[e]
		for c := range count {
			p, sum := right[(int(a.col[e])*count+c)*a.p:][:a.p], 0.0
			for t, f := range u {
				sum += f * p[t]
			}
			forms.Data[c*seen+s] = root * sum
			to := back.Data[c*a.q+a.er : (c+1)*a.q]
			for t, f := range p[a.ec:] {
				to[t] += z * f
			}
		}
	}
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, forms, x, 1, back)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, back, inverse, 1, r)
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, r, x, 1, forms)
	for s := range seen {
		place := int(a.place[a.ptr[i]+s])
		for c := range count {
			dst[c*a.d+place] = forms.Data[c*seen+s]
		}
	}
}

// ImageBytes is the memory that an image takes.
func (a *Arrow) ImageBytes() int64 {
	return 8 * int64(a.m*a.q+(imageParts+1)*a.n*a.p+2*a.size()+2*a.d)
}

// Bytes is the memory of the factors.
func (a *Arrow) Bytes() int64 {
	return 8*int64(len(a.inverse)+len(a.x)+len(a.u)+len(a.zeta)+len(a.w)) + 4*5*int64(a.d)
}
