package arrow

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/internal/parallel"
)

const (
	// imageParts is the number of parts of the rows whose parts of an image are computed together, and imageRows the
	// least number of rows of one.
	imageParts, imageRows = 16, 64
	// together is the number of vectors of a product with A_i. It does not change with that of the images, whose bits
	// so depend on nothing but their own vector.
	together = 8
)

// Images sets dst to D mu_hat v for count vectors v, one after the other.
func (a *Arrow) Images(ctx context.Context, dst, v []float64, count int) error {
	rows := max(imageRows, (a.m+imageParts-1)/imageParts)
	parts := parallel.Parts(a.m, rows)
	padded := (count + together - 1) / together * together
	width := a.n * a.p * count
	sums, rests := make([][]float64, parts), make([]float64, a.m*padded*a.q)
	fresh := func() *imageWork { return new(imageWork) }
	err := parallel.Each(parts, fresh, func(part int, w *imageWork) error {
		sums[part] = make([]float64, width)
		lo, hi := part*rows, min((part+1)*rows, a.m)
		if !a.down(sums[part], rests[lo*padded*a.q:hi*padded*a.q], v, lo, hi, count, w) {
			return ErrSingular
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
	return parallel.Each(parts, fresh, func(part int, w *imageWork) error {
		lo, hi := part*rows, min((part+1)*rows, a.m)
		a.up(dst, rests[lo*padded*a.q:hi*padded*a.q], right, lo, hi, count, w)
		return ctx.Err()
	})
}

// imageWork is the memory for a part of the rows, rows x n and rows x q for one vector, and for A_i.
type imageWork struct {
	rowWork
	entries, misfits, block, next, some []float64
}

func (a *Arrow) spreadOut(dst blas64.General, lo, hi int, f func(i, e int) float64) {
	clear(dst.Data)
	for i := lo; i < hi; i++ {
		row := dst.Data[(i-lo)*a.n : (i-lo+1)*a.n]
		for e := a.ptr[i]; e < a.ptr[i+1]; e++ {
			row[a.col[e]] = f(i-lo, e)
		}
	}
}

// down eliminates rows lo to hi-1: with their part g of the right-hand side M* v and r = A g it adds what is left of
// the columns' part, n x p numbers a vector, to sum, and keeps r, in the order rows, vectors, q:
//
//	sum_i w^{1/2} (v_ij - w^{1/2} x_j* r_i) u_i - w z_ij r_i.
func (a *Arrow) down(sum, rest, v []float64, lo, hi, count int, w *imageWork) bool {
	rows, padded := hi-lo, len(rest)/max((hi-lo)*a.q, 1)
	entries := general(rows, a.n, grown(&w.entries, rows*a.n))
	block := blas64.General{Rows: rows, Cols: a.q, Stride: padded * a.q}
	x := general(a.n, a.q, a.x)
	for c := range count {
		a.spreadOut(entries, lo, hi, func(_, e int) float64 { return a.root(e) * v[c*a.d+int(a.place[e])] })
		block.Data = rest[c*a.q:]
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, entries, x, 0, block)
	}
	next := general(together, a.q, grown(&w.next, together*a.q))
	for i := lo; i < hi; i++ {
		if a.ptr[i] == a.ptr[i+1] {
			continue
		}
		inverse, ok := a.eliminated(i, w)
		if !ok {
			return false
		}
		for c := 0; c < padded; c += together {
			own := rest[((i-lo)*padded+c)*a.q:][:together*a.q]
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, general(together, a.q, own), inverse, 0, next)
			copy(own, next.Data)
		}
	}
	misfits := general(rows, a.n, grown(&w.misfits, rows*a.n))
	a.spreadOut(misfits, lo, hi, func(_, e int) float64 { return a.zeta[e] })
	u := general(rows, a.p, a.u[lo*a.p:hi*a.p])
	products := general(rows, a.n, grown(&w.some, rows*a.n))
	for c := range count {
		block.Data = rest[c*a.q:]
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, block, x, 0, products) // x_j* r_i
		a.spreadOut(entries, lo, hi, func(i, e int) float64 {
			return a.root(e)*v[c*a.d+int(a.place[e])] - a.weight(e)*products.Data[i*a.n+int(a.col[e])]
		})
		own := sum[c*a.n*a.p : (c+1)*a.n*a.p]
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, entries, u, 1, general(a.n, a.p, own))
		blas64.Gemm(blas.Trans, blas.NoTrans, -1, misfits, a.factorOf(block, a.er), 1,
			a.factorOf(general(a.n, a.p, own), a.ec))
	}
	return true
}

func (a *Arrow) root(e int) float64 {
	if a.w == nil {
		return 1
	}
	return math.Sqrt(a.w[e])
}

func (a *Arrow) factorOf(x blas64.General, effect int) blas64.General {
	x.Cols -= effect
	if len(x.Data) > effect {
		x.Data = x.Data[effect:]
	}
	return x
}

func (a *Arrow) eliminated(i int, w *imageWork) (blas64.General, bool) {
	seen := a.ptr[i+1] - a.ptr[i]
	x := general(seen, a.q, grown(&w.x, seen*a.q))
	if a.blocks == nil {
		a.scaled(x.Data, i)
	}
	return a.invert(grown(&w.block, packed(a.q)), i, x, &w.rowWork)
}

// between replaces the columns' right-hand sides by S^{-1} times them.
func (a *Arrow) between(right []float64, count int) {
	size := a.size()
	padded := (count + together - 1) / together * together
	b, x := make([]float64, padded*size), make([]float64, padded*size)
	each := func(own []float64, f func(block, own []float64)) {
		for c := range count {
			for j := range a.n {
				from := (c*a.n + j) * a.p
				f(right[from+a.from[j]:from+a.to[j]], own[c*size+a.off[j]:c*size+a.off[j+1]])
			}
		}
	}
	each(b, func(block, own []float64) { copy(own, block) })
	const columns = 256
	parallel.Ranges(size, columns, func(lo, hi int) {
		inverse := blas64.General{Rows: size, Cols: hi - lo, Stride: size, Data: a.inverse[lo:]}
		for c := 0; c < padded; c += together {
			from := general(together, size, b[c*size:(c+together)*size])
			out := blas64.General{Rows: together, Cols: hi - lo, Stride: size, Data: x[c*size+lo:]}
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, from, inverse, 0, out)
		}
	})
	clear(right)
	each(x, func(block, own []float64) { copy(block, own) })
}

// up sets the images at the entries of rows lo to hi-1 from the columns' part p of the solution:
//
//	w^{1/2} (x_j* (r_i - A_i s_i) + u_i* p_j),   s_i = sum_j H_ij p_j = sum_j w_ij x_j (u_i* p_j) + w_ij z_ij p_j.
func (a *Arrow) up(dst, rest, right []float64, lo, hi, count int, w *imageWork) {
	rows, padded := hi-lo, len(rest)/max((hi-lo)*a.q, 1)
	entries := general(rows, a.n, grown(&w.entries, rows*a.n))
	misfits := general(rows, a.n, grown(&w.misfits, rows*a.n))
	forms := general(rows, a.n, grown(&w.some, rows*a.n)) // u_i* p_j
	a.spreadOut(misfits, lo, hi, func(_, e int) float64 { return a.zeta[e] })
	x, u := general(a.n, a.q, a.x), general(rows, a.p, a.u[lo*a.p:hi*a.p])
	sums := make([]float64, len(rest))
	at := func(data []float64, c int) blas64.General {
		return blas64.General{Rows: rows, Cols: a.q, Stride: padded * a.q, Data: data[c*a.q:]}
	}
	product := func(c int) {
		p := general(a.n, a.p, right[c*a.n*a.p:(c+1)*a.n*a.p])
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, u, p, 0, forms)
	}
	for c := range count {
		product(c)
		a.spreadOut(entries, lo, hi, func(i, e int) float64 { return a.weight(e) * forms.Data[i*a.n+int(a.col[e])] })
		block := at(sums, c)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, entries, x, 0, block)
		p := general(a.n, a.p, right[c*a.n*a.p:(c+1)*a.n*a.p])
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, misfits, a.factorOf(p, a.ec), 1, a.factorOf(block, a.er))
	}
	for i := lo; i < hi; i++ {
		if a.ptr[i] == a.ptr[i+1] {
			continue
		}
		inverse, _ := a.eliminated(i, w)
		for c := 0; c < padded; c += together {
			from, to := ((i-lo)*padded+c)*a.q, ((i-lo)*padded+c+together)*a.q
			blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, general(together, a.q, sums[from:to]), inverse, 1,
				general(together, a.q, rest[from:to]))
		}
	}
	for c := range count {
		product(c)
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, at(rest, c), x, 1, forms)
		for i := lo; i < hi; i++ {
			for e := a.ptr[i]; e < a.ptr[i+1]; e++ {
				dst[c*a.d+int(a.place[e])] = a.root(e) * forms.Data[(i-lo)*a.n+int(a.col[e])]
			}
		}
	}
}

func (a *Arrow) ImageBytes() int64 {
	return 8 * int64(3*a.m*a.q+(imageParts+1)*a.n*a.p+2*a.size()+2*a.d)
}

func (a *Arrow) Bytes() int64 {
	return 8*int64(len(a.inverse)+len(a.blocks)+len(a.x)+len(a.u)+len(a.zeta)+len(a.w)) + 4*5*int64(a.d)
}
