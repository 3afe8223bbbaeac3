package arrow

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"surepipe/internal/parallel"
)

// rowsAtOnce bounds the rows of which leverages are computed together, and so the memory that takes.
const rowsAtOnce = 512

// Leverages are the diagonal of D mu_hat, in the order of the given entries:
//
//	h_ij = w g_ij* H^+ g_ij = w (x_j* (A + A G A) x_j - 2 x_j* A sum_j' H_ij' S_j'j^{-1} u_i + u_i* S_jj^{-1} u_i)
//	G = sum_jj' H_ij S_jj'^{-1} H_ij'*.
//
// With t_jj' = u_i* S_jj'^{-1} u_i, b_j = sum_j' z_j' (S_j'j^{-1} u_i) and E = sum_jj' z_j z_j' S_jj'^{-1}, z for w z,
// and the rows w_j x_j of X,
//
//	G = X* t X + X* b + b* X + E.
func (a *Arrow) Leverages(ctx context.Context) ([]float64, error) {
	h := make([]float64, a.d)
	triangles := a.triangles()
	chunks := a.runs()
	err := parallel.Each(len(chunks), func() *leverageWork { return new(leverageWork) },
		func(i int, w *leverageWork) error {
			defer chunks[i].clear()
			if err := a.prepare(ctx, chunks[i], false); err != nil {
				return err
			}
			return a.leverages(ctx, h, triangles, chunks[i], w)
		})
	return h, err
}

func (a *Arrow) runs() (all []*chunk) {
	for _, c := range a.chunks(chunkValues / 4) {
		rows, parts := c.hi-c.lo, (c.hi-c.lo+rowsAtOnce-1)/rowsAtOnce
		for part := range parts { // of the same length
			lo, hi := c.lo+part*rows/parts, c.lo+(part+1)*rows/parts
			all = append(all, &chunk{lo: lo, hi: hi, first: a.ptr[lo]})
		}
	}
	return all
}

// triangles are the factor's parts of S_jj'^{-1} + S_j'j^{-1}, j' > j, and of S_jj^{-1}, as packed triangles, as far as
// they are not 0: those of column j are a matrix with a row for every j' >= j, and E is the sum of z_j z_j' times them.
func (a *Arrow) triangles() [][]float64 {
	size, n := a.size(), a.n
	out := make([][]float64, n)
	parallel.For(n, func(j int) {
		prefix := a.prefix(j)
		out[j] = make([]float64, (n-j)*prefix)
		for other := j; other < n; other++ {
			dst := out[j][(other-j)*prefix:][:prefix]
			jskip, oskip := max(a.ec-a.from[j], 0), max(a.ec-a.from[other], 0)
			rows, cols := a.to[j]-a.from[j]-jskip, a.to[other]-a.from[other]-oskip
			for x := range rows {
				src := a.inverse[(a.off[j]+jskip+x)*size+a.off[other]+oskip:]
				for y := range cols {
					v := src[y]
					if other == j {
						if x > y {
							continue
						}
					} else if x == y {
						v *= 2
					}
					dst[a.in(min(x, y), max(x, y))] += v
				}
			}
		}
	})
	return out
}

// leverageWork is the memory for a chunk, and for one row of it.
type leverageWork struct {
	pairWork
	t, b, e          []float64 // t_jj' and b_j of all rows, and E as packed triangles
	square, one, two []float64
}

func (a *Arrow) leverages(ctx context.Context, h []float64, triangles [][]float64, c *chunk, w *leverageWork) error {
	k, entries := a.k, a.ptr[c.hi]-c.first
	t, b := grown(&w.t, len(c.c)), grown(&w.b, entries*k)
	e := grown(&w.e, (c.hi-c.lo)*packed(k))
	clear(b)
	clear(e)
	for j := range a.n {
		if err := ctx.Err(); err != nil {
			return err
		}
		a.take(c, j, &w.pairWork)
		for other := range a.n {
			a.forms(t, b, c, j, other, w)
		}
		a.squares(e, triangles[j], c, j, w)
	}
	for i := c.lo; i < c.hi; i++ {
		a.finish(h, t, b, e, c, i, w)
	}
	return nil
}

// forms sets t_j,j', j' >= j, in the rows in which both columns are seen, and adds z_j' (S_j'j^{-1} u_i) to b_j.
func (a *Arrow) forms(t, b []float64, c *chunk, j, other int, w *leverageWork) {
	width, wide, size := a.to[j]-a.from[j], a.to[other]-a.from[other], a.size()
	both := w.with(other)
	if len(both) == 0 {
		return
	}
	if width == 0 || wide == 0 {
		for _, e := range both {
			t[a.cross(c, e)] = 0
		}
		return
	}
	block := blas64.General{Rows: width, Cols: wide, Stride: size, Data: a.inverse[a.off[j]*size+a.off[other]:]}
	u := general(len(both), width, grown(&w.left, len(both)*width))
	for r, e := range both {
		copy(u.Data[r*width:(r+1)*width], w.u[int(e.at)*width:])
	}
	images := general(len(both), wide, grown(&w.right, len(both)*wide))
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, u, block, 0, images)
	skip := max(a.ec-a.from[other], 0)
	for r, e := range both {
		image := images.Data[r*wide : (r+1)*wide]
		if other >= j {
			t[a.cross(c, e)] = floats.Dot(a.u[int(e.row)*a.p+a.from[other]:][:wide], image)
		}
		floats.AddScaled(b[(int(e.one)-c.first)*a.k:][:wide-skip], a.zeta[e.other], image[skip:])
	}
}

// cross is the place of a pair in the products of a row's entries.
func (a *Arrow) cross(c *chunk, e pair) int {
	first := a.ptr[e.row]
	return c.at[int(e.row)-c.lo] + (int(e.one)-first)*(a.ptr[e.row+1]-first) + int(e.other) - first
}

// squares adds z_j z_j' (S_jj'^{-1} + S_j'j^{-1}), j' >= j, to the E of the rows in which column j is seen.
func (a *Arrow) squares(e, triangles []float64, c *chunk, j int, w *leverageWork) {
	n, size, prefix := a.n, packed(a.k), a.prefix(j)
	begin, end := a.inColumn(c, j)
	if begin == end || prefix == 0 {
		return
	}
	outer := general(end-begin, n-j, grown(&w.outer, (end-begin)*(n-j)))
	clear(outer.Data)
	for r := range end - begin {
		a.misfits(outer.Data[r*(n-j):(r+1)*(n-j)], int(a.row[begin+r]), int(a.ent[begin+r]))
	}
	sums := general(end-begin, prefix, grown(&w.sum, (end-begin)*prefix))
	of := general(n-j, prefix, triangles)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, outer, of, 0, sums)
	for r := range end - begin {
		i := int(a.row[begin+r])
		blas64.Axpy(1, vector(sums.Data[r*prefix:(r+1)*prefix]), vector(e[(i-c.lo)*size:(i-c.lo)*size+prefix]))
	}
}

// finish sets the leverages of a row: with C = X A X* and Y = X A,
//
//	w h_jj = C_jj + (C t C)_jj + 2 (C b Y*)_jj + y_j* E y_j - 2 w ((C t)_jj + y_j* b_j) + w^2 t_jj.
func (a *Arrow) finish(h, t, b, e []float64, c *chunk, i int, w *leverageWork) {
	seen, k, from := a.ptr[i+1]-a.ptr[i], a.k, a.ptr[i]-c.first
	if seen == 0 {
		return
	}
	own := general(seen, seen, c.c[c.at[i-c.lo]:c.at[i-c.lo+1]])
	forms := general(seen, seen, t[c.at[i-c.lo]:c.at[i-c.lo+1]])
	for r := range seen {
		for s := range r {
			forms.Data[r*seen+s] = forms.Data[s*seen+r]
		}
	}
	y := blas64.General{Rows: seen, Cols: k, Stride: a.q, Data: c.y[from*a.q+a.er:]}
	bs := general(seen, k, b[from*k:(from+seen)*k])
	product := general(seen, seen, grown(&w.square, seen*seen))
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, own, forms, 0, product) // C t
	mixed := general(seen, k, grown(&w.one, seen*k))
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 2, own, bs, 0, mixed) // 2 C b
	full := general(k, k, grown(&w.two, k*k))
	triangle := e[(i-c.lo)*packed(k):]
	for s := range k {
		for u := s; u < k; u++ {
			v := triangle[u-s]
			full.Data[s*k+u], full.Data[u*k+s] = v, v
		}
		triangle = triangle[k-s:]
	}
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, y, full, 1, mixed) // 2 C b + Y E
	for r := range seen {
		yr, br := y.Data[r*a.q:][:k], bs.Data[r*k:(r+1)*k]
		weight, at := a.weight(a.ptr[i]+r), r*seen+r
		sum := own.Data[at] + weight*(weight*forms.Data[at]-2*product.Data[at])
		for s, v := range product.Data[r*seen : (r+1)*seen] {
			sum += v * own.Data[r*seen+s]
		}
		for s, v := range mixed.Data[r*k : (r+1)*k] {
			sum += (v - 2*weight*br[s]) * yr[s]
		}
		h[a.place[a.ptr[i]+r]] = sum / weight
	}
}

// Squares is ||D mu_hat||_F^2. With the rows b_e of B by which the columns see an entry when the rows are eliminated,
//
//	w^{1/2} b_e = w u_i in block j - sum_j' (c_jj' u_i + z_j' y_j) in block j',
//
// and the blocks C_i of entries c_jj' (w_j w_j')^{-1/2}, D mu_hat is diag(C_i) + B S^{-1} B*, and
//
//	||D mu_hat||_F^2 = sum_i (||C_i||_F^2 + 2 tr C_i B_i S^{-1} B_i*) + tr (B* B S^{-1})^2.
func (a *Arrow) Squares(ctx context.Context) (sum float64, err error) {
	size := a.size()
	inverse, product := general(size, size, a.inverse), general(size, size, make([]float64, size*size))
	for _, c := range a.runs() {
		if err := a.prepare(ctx, c, true); err != nil {
			return 0, err
		}
		entries := a.ptr[c.hi] - c.first
		b := general(entries, size, a.seen(c))
		images := general(entries, size, make([]float64, entries*size))
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, b, inverse, 0, images)
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, b, images, 1, product)
		for i := c.lo; i < c.hi; i++ {
			own := c.c[c.at[i-c.lo]:]
			for e := a.ptr[i]; e < a.ptr[i+1]; e++ {
				for other := a.ptr[i]; other < a.ptr[i+1]; other++ {
					v, one, two := own[0]/(a.root(e)*a.root(other)), (e-c.first)*size, (other-c.first)*size
					sum += v * (v + 2*floats.Dot(b.Data[one:][:size], images.Data[two:][:size]))
					own = own[1:]
				}
			}
		}
		c.clear()
	}
	for s := range size {
		column := blas64.Vector{N: size, Inc: size, Data: product.Data[s:]}
		sum += blas64.Dot(vector(product.Data[s*size:(s+1)*size]), column)
	}
	return sum, nil
}

// SquaresFlops is about the number of operations of Squares.
func (a *Arrow) SquaresFlops() float64 {
	return 4 * float64(a.d) * float64(a.size()) * float64(a.size())
}

// seen are the rows of B of a chunk's entries.
func (a *Arrow) seen(c *chunk) []float64 {
	size := a.size()
	b := make([]float64, (a.ptr[c.hi]-c.first)*size)
	for i := c.lo; i < c.hi; i++ {
		own := c.c[c.at[i-c.lo]:]
		for e := a.ptr[i]; e < a.ptr[i+1]; e++ {
			row := b[(e-c.first)*size:][:size]
			for other := a.ptr[i]; other < a.ptr[i+1]; other++ {
				j, cross := int(a.col[other]), own[0]
				if own = own[1:]; other == e {
					cross -= a.weight(e)
				}
				dst := row[a.off[j]:a.off[j+1]]
				floats.AddScaled(dst, -cross, a.u[i*a.p+a.from[j]:][:len(dst)])
				dst = dst[min(max(a.ec-a.from[j], 0), len(dst)):]
				floats.AddScaled(dst, -a.zeta[other], c.y[(e-c.first)*a.q+a.er:][:len(dst)])
			}
			floats.Scale(1/a.root(e), row)
		}
	}
	return b
}
