// Package arrow factors the second derivative of a matrix completion in its factors, which is an arrow: one block
// for every row, and one Schur complement for all columns.
//
// At B = L R* of rank k, L m x k and R n x k with L*L = R*R, effects a_i of rows and b_j of columns without a penalty,
// and weights w_ij of the entries, it is the second derivative of
//
//	1/2 sum_{ij seen} w_ij (L_i R_j* + a_i + b_j - y_ij)^2 + lambda/2 (||L||^2 + ||R||^2)
//
// in the blocks (a_i, L_i) of rows and (b_j, R_j) of columns. With x_j = (1, R_j) and u_i = (1, L_i), the ones where
// there are such effects, and the misfit z_ij,
//
//	H_ii = sum_j w_ij x_j x_j* + lambda I,   H_jj = sum_i w_ij u_i u_i* + lambda I,
//	H_ij = w_ij x_j u_i* + w_ij z_ij I,
//
// with lambda and I on the factors' coordinates alone. At a minimum D mu_hat has the entries g* H^+ g' of the
// vectors g_ij = w_ij^{1/2} (x_j in block i, u_i in block j). The rows, the longer side, are eliminated:
//
//	S = diag(H_jj) - sum_i H_iv* A_i H_iv,   A_i = H_ii^{-1}.
//
// H is 0 along (L M, R M) with M antisymmetric, which change nothing. One rotation of the factors makes k rows of R
// lower triangular, and without the coordinates above that triangle S is regular. Where rows and columns have effects
// that of one column is left out as well. S is of order n k - k(k-1)/2.
package arrow

import (
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/internal/parallel"
)

// Completion is a point of a matrix completion.
type Completion struct {
	// Rows and Cols are m and n, and Row and Col those of the d entries, in any order.
	Rows, Cols int
	Row, Col   []int32
	// Weights are those of the entries, nil for ones, and Misfit is mu - y.
	Weights, Misfit []float64
	// L and R are the factors, m x K and n x K, row-major, without weight in rows and columns that have no entry.
	L, R []float64
	K    int
	// Lambda is the weight of the nuclear norm.
	Lambda float64
	// RowEffects and ColEffects say which effects there are.
	RowEffects, ColEffects bool
}

// Order is that of the Schur complement.
func (c *Completion) Order() int {
	n := min(c.Rows, c.Cols)
	short := c.ColEffects
	if c.Cols > c.Rows {
		short = c.RowEffects
	}
	size := n*c.K - c.K*(c.K-1)/2
	if short {
		size += n
	}
	return size
}

// eachPair is what a pair of entries of a row costs beside its products.
const eachPair = 400

// Flops is about the number of operations of the factorization, the leverages and a few images.
func (c *Completion) Flops() float64 {
	m, n, lines := float64(max(c.Rows, c.Cols)), float64(min(c.Rows, c.Cols)), c.Row
	if c.Cols > c.Rows {
		lines = c.Col
	}
	seen := make([]float64, int(m))
	for _, i := range lines {
		seen[i]++
	}
	pairs, order, k, d := blas64.Dot(vector(seen), vector(seen)), float64(c.Order()), float64(c.K), float64(len(c.Row))
	return 4*pairs*((order/n)*(order/n)+eachPair) + n*d*k*k + order*order*order + m*k*k*k + 100*m*n*k
}

// ErrSingular says that the second derivative is not positive definite to rounding, as where the solution is not
// unique.
var ErrSingular = errors.New("the second derivative of the completion is singular")

// least is what is left of a coordinate of the Schur complement, scaled to a diagonal of ones, when those before it are
// eliminated, below which the complement counts as singular.
const least = 1e-11

// Arrow is the factored second derivative. It is safe for concurrent use.
type Arrow struct {
	d, m, n, k int // m rows, the longer side
	er, ec     int // 1 where rows or columns have effects
	q, p       int // coordinates of a row's and of a column's block: k and the effect, which is the first
	lambda     float64
	// The entries row by row: those of row i are ptr[i] to ptr[i+1]-1, with their columns, places among the given
	// ones, weights and w z.
	ptr        []int
	col, place []int32
	w, zeta    []float64
	// The same entries column by column: their rows, and numbers row by row.
	cptr     []int
	row, ent []int32
	x, u     []float64 // n x q and m x p
	// The coordinates of column j in S are from[j] to to[j]-1 of its p ones, from off[j] on.
	from, to, off []int
	inverse       []float64 // S^{-1}
	// blocks are the A_i of all rows, the upper triangle row by row; nil where they are computed when they are needed.
	blocks []float64
}

// New factors the second derivative at a point; the error is [ErrSingular] or the context's.
func New(ctx context.Context, c Completion) (*Arrow, error) {
	if c.Cols > c.Rows {
		c.Rows, c.Cols, c.Row, c.Col, c.L, c.R = c.Cols, c.Rows, c.Col, c.Row, c.R, c.L
		c.RowEffects, c.ColEffects = c.ColEffects, c.RowEffects
	}
	a := &Arrow{d: len(c.Row), m: c.Rows, n: c.Cols, k: c.K, lambda: c.Lambda}
	if c.RowEffects {
		a.er = 1
	}
	if c.ColEffects {
		a.ec = 1
	}
	a.q, a.p = a.k+a.er, a.k+a.ec
	pinned := a.rotate(&c)
	a.list(&c, pinned)
	a.number(len(pinned))
	return a, a.factor(ctx)
}

// list puts the pinned columns first, in their order, and sorts the entries: by rows, those by columns, and these by
// rows again, each keeping the order within.
func (a *Arrow) list(c *Completion, pinned []int) {
	number, next := make([]int32, a.n), 0
	order := slices.Clone(pinned)
	for j := range a.n {
		if !slices.Contains(pinned, j) {
			order = append(order, j)
		}
	}
	x := make([]float64, 0, len(a.x))
	for _, j := range order {
		number[j] = int32(next)
		x, next = append(x, a.x[j*a.q:(j+1)*a.q]...), next+1
	}
	a.x = x
	c.Col = lists.Map(c.Col, func(j int32) int32 { return number[j] })
	any := counted(c.Row, nil, a.m)
	byColumn := counted(c.Col, any.order, a.n)
	byRow := counted(c.Row, byColumn.order, a.m)
	a.cptr, a.ptr, a.place = byColumn.ptr, byRow.ptr, byRow.order
	a.col, a.row, a.ent = make([]int32, a.d), make([]int32, a.d), make([]int32, a.d)
	a.zeta = make([]float64, a.d)
	if c.Weights != nil {
		a.w = make([]float64, a.d)
	}
	number = make([]int32, a.d)
	for e, from := range a.place {
		a.col[e], a.zeta[e], number[from] = c.Col[from], c.Misfit[from], int32(e)
		if a.w != nil {
			a.w[e] = c.Weights[from]
			a.zeta[e] *= a.w[e]
		}
	}
	for t, from := range byColumn.order {
		a.row[t], a.ent[t] = c.Row[from], number[from]
	}
}

// groups are things in the order of their groups: those of group g are order[ptr[g]:ptr[g+1]].
type groups struct {
	ptr   []int
	order []int32
}

// counted are things, in the given order or that of their numbers, by their groups 0 to n-1.
func counted(of, order []int32, n int) groups {
	g := groups{make([]int, n+1), make([]int32, len(of))}
	for _, i := range of {
		g.ptr[i+1]++
	}
	for i := range n {
		g.ptr[i+1] += g.ptr[i]
	}
	next := slices.Clone(g.ptr[:n])
	for s := range of {
		e := int32(s)
		if order != nil {
			e = order[s]
		}
		i := of[e]
		g.order[next[i]] = e
		next[i]++
	}
	return g
}

// rotate sets x and u with the factors rotated such that the returned rows of R are lower triangular: those that
// Gram and Schmidt choose, the longest rest first.
func (a *Arrow) rotate(c *Completion) (pinned []int) {
	k, n := a.k, a.n
	rest, basis := slices.Clone(c.R), blas64.General{Rows: k, Cols: k, Stride: k, Data: make([]float64, k*k)}
	taken := make([]bool, n)
	for s := range k {
		best, most := -1, -1.0
		for j := range n {
			if taken[j] {
				continue
			}
			row := vector(rest[j*k : (j+1)*k])
			if s > 0 { // orthogonal to the last one; twice is enough
				last := vector(basis.Data[(s-1)*k : s*k])
				blas64.Axpy(-blas64.Dot(last, row), last, row)
			}
			if v := blas64.Nrm2(row); v > most {
				best, most = j, v
			}
		}
		if best < 0 {
			break
		}
		taken[best], pinned = true, append(pinned, best)
		next := vector(basis.Data[s*k : (s+1)*k])
		blas64.Copy(vector(rest[best*k:(best+1)*k]), next)
		for range 2 {
			for t := range s {
				other := vector(basis.Data[t*k : (t+1)*k])
				blas64.Axpy(-blas64.Dot(other, next), other, next)
			}
			blas64.Scal(1/blas64.Nrm2(next), next)
		}
	}
	turned := func(factor []float64, lines, effect int) []float64 {
		width := k + effect
		out := make([]float64, lines*width)
		if effect > 0 {
			for i := range lines {
				out[i*width] = 1
			}
		}
		if lines > 0 && k > 0 {
			blas64.Gemm(blas.NoTrans, blas.Trans, 1, general(lines, k, factor), basis, 0,
				blas64.General{Rows: lines, Cols: k, Stride: width, Data: out[effect:]})
		}
		return out
	}
	a.x, a.u = turned(c.R, n, a.er), turned(c.L, a.m, a.ec)
	return pinned
}

// number sets the coordinates of the columns: pinned column j has j+1 of the factor's, and so they do not fall.
func (a *Arrow) number(pinned int) {
	a.from, a.to, a.off = make([]int, a.n), make([]int, a.n), make([]int, a.n+1)
	for j := range a.n {
		if a.to[j] = a.p; j < pinned {
			a.to[j] = a.ec + j + 1
		}
	}
	if a.er*a.ec == 1 {
		a.from[0] = 1
	}
	for j := range a.n {
		if a.cptr[j] == a.cptr[j+1] { // no entries
			a.from[j] = a.ec
		}
		a.off[j+1] = a.off[j] + a.to[j] - a.from[j]
	}
}

func (a *Arrow) size() int { return a.off[a.n] }

// chunkValues is the number of values that the blocks of the rows of a chunk have, and mostKept that of all A_i up to
// which they are kept.
const chunkValues, mostKept = 1 << 23, 1 << 23

func (a *Arrow) factor(ctx context.Context) error {
	n := a.size()
	s := make([]float64, n*n)
	var kept []float64
	if size := a.m * packed(a.q); size <= mostKept {
		kept = make([]float64, size)
	}
	chunks := a.chunks(chunkValues)
	for _, c := range chunks {
		if kept != nil {
			c.a = kept[c.lo*packed(a.q) : c.hi*packed(a.q)]
		}
		if err := a.prepare(ctx, c, true); err != nil {
			return err
		}
		err := parallel.Each(a.n, func() *pairWork { return new(pairWork) }, func(j int, w *pairWork) error {
			if ctx.Err() == nil {
				a.complement(s, c, j, w)
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		c.clear()
	}
	a.blocks = kept
	fold(s, n)
	scale := make([]float64, n)
	for j := range a.n {
		for t := a.from[j]; t < a.to[j]; t++ {
			if i := a.off[j] + t - a.from[j]; t >= a.ec {
				s[i*n+i] += a.lambda
			}
		}
	}
	for i := range scale {
		if !(s[i*n+i] > 0) {
			return ErrSingular
		}
		scale[i] = 1 / math.Sqrt(s[i*n+i])
	}
	scaled := func() {
		parallel.Ranges(n, 64, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				for j := range n {
					s[i*n+j] *= scale[i] * scale[j]
				}
			}
		})
	}
	scaled()
	if !numerics.InvertUpper(blas64.Symmetric{N: n, Stride: max(n, 1), Data: s, Uplo: blas.Upper}, least) {
		return ErrSingular
	}
	scaled()
	a.inverse = s
	return nil
}

// fold adds what is below the diagonal of an n x n matrix, and on it, to what is above, and leaves 0 below.
func fold(s []float64, n int) {
	const tile = 32
	parallel.Ranges(n, tile, func(lo, hi int) {
		for from := lo; from < n; from += tile {
			for i := lo; i < hi; i++ {
				for j := max(i, from); j < min(from+tile, n); j++ {
					sum := s[i*n+j] + s[j*n+i]
					s[j*n+i] = 0
					s[i*n+j] = sum
				}
			}
		}
	})
}
