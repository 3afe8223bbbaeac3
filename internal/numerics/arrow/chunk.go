package arrow

import (
	"context"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"surepipe/internal/numerics"
	"surepipe/internal/parallel"
)

// chunk is a run of rows, lo to hi-1, with what eliminates them.
type chunk struct {
	lo, hi int
	first  int       // of the entries
	a      []float64 // every A_i, the upper triangle row by row: the factor's part follows the effect's row
	y      []float64 // w_ij A_i x_j of every entry, q values each
	c      []float64 // w_ij x_j* A_i x_j' w_ij' of the entries of every row
	at     []int     // of a row's in c
}

// packed is the number of entries of the triangle of a k x k matrix.
func packed(k int) int { return k * (k + 1) / 2 }

// chunks divides the rows into runs whose blocks have about so many values.
func (a *Arrow) chunks(values int) (all []*chunk) {
	count, lo := 0, 0
	for i := range a.m {
		seen := a.ptr[i+1] - a.ptr[i]
		if count += packed(a.q) + seen*(a.q+seen); count >= values || i+1 == a.m {
			all = append(all, &chunk{lo: lo, hi: i + 1, first: a.ptr[lo]})
			lo, count = i+1, 0
		}
	}
	return all
}

func (c *chunk) clear() { *c = chunk{lo: c.lo, hi: c.hi, first: c.first} }

// prepare computes the blocks of a chunk's rows, on all processors where shared.
func (a *Arrow) prepare(ctx context.Context, c *chunk, shared bool) error {
	rows, entries := c.hi-c.lo, a.ptr[c.hi]-c.first
	c.y = make([]float64, entries*a.q)
	if a.blocks != nil {
		c.a = a.blocks[c.lo*packed(a.q) : c.hi*packed(a.q)]
	} else if c.a == nil {
		c.a = make([]float64, rows*packed(a.q))
	}
	c.at = make([]int, rows+1)
	for i := range rows {
		seen := a.ptr[c.lo+i+1] - a.ptr[c.lo+i]
		c.at[i+1] = c.at[i] + seen*seen
	}
	c.c = make([]float64, c.at[rows])
	const each = 32
	runs := (rows + each - 1) / each
	run := func(part int, w *rowWork) error {
		for i := part * each; i < min((part+1)*each, rows); i++ {
			if !a.block(c, c.lo+i, w) {
				return ErrSingular
			}
		}
		return ctx.Err()
	}
	if shared {
		return parallel.Each(runs, func() *rowWork { return new(rowWork) }, run)
	}
	w := new(rowWork)
	for part := range runs {
		if err := run(part, w); err != nil {
			return err
		}
	}
	return nil
}

// rowWork is the memory for one row: w^{1/2} x_j, and A_i.
type rowWork struct{ x, a []float64 }

func grown(x *[]float64, n int) []float64 {
	if cap(*x) < n {
		*x = make([]float64, n+n/4)
	}
	return (*x)[:n]
}

func general(rows, cols int, data []float64) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: max(cols, 1), Data: data}
}

func vector(x []float64) blas64.Vector { return blas64.Vector{N: len(x), Inc: 1, Data: x} }

// scaled sets the rows of dst to w_ij^{1/2} x_j for the entries of row i.
func (a *Arrow) scaled(dst []float64, i int) {
	for s, e := 0, a.ptr[i]; e < a.ptr[i+1]; s, e = s+1, e+1 {
		j := int(a.col[e])
		copy(dst[s*a.q:(s+1)*a.q], a.x[j*a.q:(j+1)*a.q])
		if a.w != nil {
			blas64.Scal(math.Sqrt(a.w[e]), vector(dst[s*a.q:(s+1)*a.q]))
		}
	}
}

// invert sets w.a to A_i, from the rows x of row i, and keeps its triangle in own.
func (a *Arrow) invert(own []float64, i int, x blas64.General, w *rowWork) (inverse blas64.General, ok bool) {
	q := a.q
	inverse = general(q, q, grown(&w.a, q*q))
	if a.blocks != nil {
		unpack(inverse, a.blocks[i*packed(q):])
		return inverse, true
	}
	sym := blas64.Symmetric{N: q, Stride: q, Data: inverse.Data, Uplo: blas.Upper}
	blas64.Syrk(blas.Trans, 1, x, 0, sym)
	for t := a.er; t < q; t++ {
		inverse.Data[t*q+t] += a.lambda
	}
	ok = numerics.InvertUpper(sym, 0)
	for s := range q {
		own = own[copy(own, inverse.Data[s*q+s:(s+1)*q]):]
	}
	return inverse, ok
}

func unpack(dst blas64.General, triangle []float64) {
	n := dst.Rows
	for s := range n {
		row := dst.Data[s*n : (s+1)*n]
		copy(row[s:], triangle[:n-s])
		for t := s + 1; t < n; t++ {
			dst.Data[t*n+s] = row[t]
		}
		triangle = triangle[n-s:]
	}
}

func (a *Arrow) block(c *chunk, i int, w *rowWork) bool {
	from, seen, q := a.ptr[i]-c.first, a.ptr[i+1]-a.ptr[i], a.q
	if seen == 0 {
		return true
	}
	x := general(seen, q, grown(&w.x, seen*q))
	a.scaled(x.Data, i)
	inverse, ok := a.invert(c.a[(i-c.lo)*packed(q):], i, x, w)
	if !ok {
		return false
	}
	y := general(seen, q, c.y[from*q:(from+seen)*q])
	own := general(seen, seen, c.c[c.at[i-c.lo]:c.at[i-c.lo+1]])
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, x, inverse, 0, y)
	if a.w != nil {
		for s := range seen {
			root := math.Sqrt(a.w[a.ptr[i]+s])
			blas64.Scal(root, vector(y.Data[s*q:(s+1)*q]))
			blas64.Scal(root, vector(x.Data[s*q:(s+1)*q]))
		}
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, y, x, 0, own)
	return true
}

// inColumn are the numbers, among the entries column by column, of column j's in the chunk.
func (a *Arrow) inColumn(c *chunk, j int) (from, to int) {
	rows := a.row[a.cptr[j]:a.cptr[j+1]]
	at := func(i int) int {
		return a.cptr[j] + sort.Search(len(rows), func(s int) bool { return int(rows[s]) >= i })
	}
	return at(c.lo), at(c.hi)
}

// pairWork is the memory for the pairs of a column with others. It has of the column's entries in the chunk, in order:
type pairWork struct {
	u, y    []float64 // u_i in its coordinates, and the factor's part of y_ij
	crosses []float64 // c_jj' of the row's entries j' >= j, from begin, plus the number of the column's own entry, on
	begin   []int

	both             []pair // with every other column, one after the other
	ends             []int  // of those with column j-1, at j
	left, right, sum []float64
	triangles, outer []float64
}

// pair is two entries of one row, by their numbers row by row, and the first one's among its column's in the chunk.
type pair struct{ row, one, other, at int32 }

func (a *Arrow) take(c *chunk, j int, w *pairWork) {
	begin, end := a.inColumn(c, j)
	rows, width := a.row[begin:end], a.to[j]-a.from[j]
	u := grown(&w.u, (end-begin)*width)
	w.ends = append(w.ends[:0], make([]int, a.n+2)...)
	for s, i := range rows {
		copy(u[s*width:(s+1)*width], a.u[int(i)*a.p+a.from[j]:])
		for _, other := range a.col[a.ptr[i]:a.ptr[i+1]] {
			w.ends[other+2]++
		}
	}
	for other := range a.n {
		w.ends[other+2] += w.ends[other+1]
	}
	w.both = slices.Grow(w.both[:0], w.ends[a.n+1])[:w.ends[a.n+1]]
	for s, i := range rows {
		one, first := a.ent[begin+s], a.ptr[i]
		for e, other := range a.col[first:a.ptr[i+1]] {
			at := &w.ends[other+1]
			w.both[*at] = pair{i, one, int32(first + e), int32(s)}
			*at++
		}
	}
}

func (a *Arrow) takeProducts(c *chunk, j int, w *pairWork) {
	begin, end := a.inColumn(c, j)
	y := grown(&w.y, (end-begin)*a.k)
	w.crosses, w.begin = w.crosses[:0], w.begin[:0]
	for s := begin; s < end; s++ {
		i, e := int(a.row[s]), int(a.ent[s])
		y = y[copy(y, c.y[(e-c.first)*a.q+a.er:(e-c.first+1)*a.q]):]
		first, seen := a.ptr[i], a.ptr[i+1]-a.ptr[i]
		w.begin = append(w.begin, len(w.crosses)-e)
		w.crosses = append(w.crosses, c.c[c.at[i-c.lo]+(e-first)*(seen+1):][:seen-(e-first)]...)
		w.crosses[w.begin[s-begin]+e] -= a.weight(e)
	}
}

// with are the rows of the chunk in which the other column is seen, too.
func (w *pairWork) with(other int) []pair { return w.both[w.ends[other]:w.ends[other+1]] }

// atOnce is the number of rows whose products are taken together.
const atOnce = 256

// complement adds what a chunk adds to the blocks (j, j') of B, where S = B + B* but for lambda: the columns see
//
//	-sum_i u_i (z_j' y_j)*,
//
// with z for w z; and where j' >= j also -sum_i (c_jj' u_i u_i* + z_j z_j' A_i), with c less w_ij where j' is j, and
// half of it there.
func (a *Arrow) complement(s []float64, c *chunk, j int, w *pairWork) {
	n := a.size()
	width := a.to[j] - a.from[j]
	if width == 0 {
		return
	}
	a.take(c, j, w)
	a.takeProducts(c, j, w)
	for other := range a.n {
		wide := a.to[other] - a.from[other]
		if wide == 0 {
			continue
		}
		block := blas64.General{Rows: width, Cols: wide, Stride: n, Data: s[a.off[j]*n+a.off[other]:]}
		effect, half := max(a.ec-a.from[other], 0), 1.0
		if other == j {
			half = 0.5
		}
		for both := w.with(other); len(both) > 0; both = both[min(atOnce, len(both)):] {
			some := both[:min(atOnce, len(both))]
			left := general(len(some), width, grown(&w.left, len(some)*width))
			right := general(len(some), wide, grown(&w.right, len(some)*wide))
			for r, e := range some {
				at := int(e.at)
				copy(left.Data[r*width:][:width], w.u[at*width:])
				dst := right.Data[r*wide:][:wide]
				factors := dst[effect:]
				if other < j {
					clear(dst[:effect])
					floats.ScaleTo(factors, a.zeta[e.other], w.y[at*a.k:][:len(factors)])
					continue
				}
				floats.ScaleTo(dst, half*w.crosses[w.begin[at]+int(e.other)], a.u[int(e.row)*a.p+a.from[other]:][:wide])
				floats.AddScaled(factors, a.zeta[e.other], w.y[at*a.k:][:len(factors)])
			}
			blas64.Gemm(blas.Trans, blas.NoTrans, -1, left, right, 1, block)
		}
	}
	// The products of misfits: one matrix product for all other columns.
	begin, end := a.inColumn(c, j)
	prefix := a.prefix(j)
	sums := general(a.n-j, prefix, grown(&w.sum, (a.n-j)*prefix))
	clear(sums.Data)
	for ; begin < end; begin += atOnce {
		some := min(atOnce, end-begin)
		outer := general(some, a.n-j, grown(&w.outer, some*(a.n-j)))
		triangles := general(some, prefix, grown(&w.triangles, some*prefix))
		clear(outer.Data)
		for r := range some {
			i, e := int(a.row[begin+r]), int(a.ent[begin+r])
			copy(triangles.Data[r*prefix:(r+1)*prefix], c.a[(i-c.lo)*packed(a.q)+a.er*a.q:])
			a.misfits(outer.Data[r*(a.n-j):(r+1)*(a.n-j)], i, e)
		}
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, outer, triangles, 1, sums)
	}
	blas64.Scal(0.5, vector(sums.Data[:prefix]))
	for other := j; other < a.n; other++ {
		a.spread(s, sums.Data[(other-j)*prefix:(other-j+1)*prefix], j, other)
	}
}

// misfits sets dst to z_e z_e' for the entries e' of row i from e on, by their distance in columns.
func (a *Arrow) misfits(dst []float64, i, e int) {
	for other := e; other < a.ptr[i+1]; other++ {
		dst[a.col[other]-a.col[e]] = a.zeta[e] * a.zeta[other]
	}
}

func (a *Arrow) weight(e int) float64 {
	if a.w == nil {
		return 1
	}
	return a.w[e]
}

// prefix is how much of a packed triangle has a coordinate of column j in every entry.
func (a *Arrow) prefix(j int) int {
	k := max(a.to[j]-a.ec, 0)
	return k*a.k - k*(k-1)/2
}

// spread subtracts a symmetric k x k matrix, of which column j's coordinates are given, from the block (j, other) of S.
func (a *Arrow) spread(s, triangle []float64, j, other int) {
	n := a.size()
	jskip, oskip := max(a.ec-a.from[j], 0), max(a.ec-a.from[other], 0)
	rows, cols := a.to[j]-a.from[j]-jskip, a.to[other]-a.from[other]-oskip
	for x := range rows {
		dst := s[(a.off[j]+jskip+x)*n+a.off[other]+oskip:]
		for y := range cols {
			dst[y] -= triangle[a.in(min(x, y), max(x, y))]
		}
	}
}

// in is the place of (x, y), x <= y, in a packed triangle.
func (a *Arrow) in(x, y int) int { return x*(2*a.k-x-1)/2 + y }
