package vjp

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"
)

// penalized is the factorization in which ranks are decided. For M, d x n, and W it is
//
//	[M; W] P = Q R,   D = M (M*M + W*W)^+ M* = Q1 Q1*,
//
// where Q1 are the first d rows of Q: D is the part of an orthogonal projection that the
// observations see. Neither M*M nor W*W is formed, and no inverse, so that the spectrum of D is
// in [0, 1] whatever M and W are. Rows are sorted by size and columns pivoted, which makes the
// errors of each row small against that row (Powell and Reid 1969; Cox and Higham 1998).
//
// A column whose pivot is below rankCut max(d, n) eps ||M|| is a combination of those before
// it, as far as M can tell: neither M nor W sees what is left of it.
type penalized struct {
	q     *mat.Dense // d x rank: Q1; nil where the rank is 0
	r     *mat.Dense // rank x n: R, its columns in the order of pivot
	pivot []int      // column j of R is column pivot[j] of M
	rank  int
	// sure is the number of columns whose pivots are beyond doubt, at most rank. The others are
	// not counted, but could be.
	sure int
	// margin is the smallest pivot that counts over the cut, +Inf without one.
	margin float64
}

const (
	rankCut = 32
	// Pivots up to doubtfulRank times the cut may come from data that depend on each other but for
	// their own rounding.
	doubtfulRank = 1 << 10
)

// factorPenalized factorizes. w may be nil; scale is ||M||, or where M was made from an operator
// the operator's norm in the same units. Pivots up to doubt times the scale are in doubt too.
func factorPenalized(m mat.Matrix, w *mat.Dense, scale, doubt float64) *penalized {
	d, n := m.Dims()
	rows := make([][]float64, d, 2*d)
	for i := range rows {
		rows[i] = mat.Row(nil, i, m)
	}
	if w != nil {
		k, _ := w.Dims()
		for i := range k {
			rows = append(rows, w.RawRowView(i))
		}
	}
	size := make([]float64, len(rows))
	order := make([]int, len(rows))
	for i, row := range rows {
		order[i] = i
		for _, v := range row {
			size[i] = max(size[i], math.Abs(v))
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size[b], size[a]) })
	a := make([]float64, len(rows)*n)
	for at, i := range order {
		copy(a[at*n:], rows[i])
	}
	f := &penalized{pivot: make([]int, n), margin: math.Inf(1)}
	tau := f.decompose(a, len(rows), n)
	f.cut(a, n, min(len(rows), n), rankCut*float64(max(d, n))*0x1p-52*scale, doubt*scale)
	if f.rank == 0 {
		return f
	}
	f.r = mat.NewDense(f.rank, n, nil)
	for i := range f.rank {
		copy(f.r.RawRowView(i)[i:], a[i*n+i:(i+1)*n])
	}
	q := basis(a, tau, len(rows), n, f.rank)
	f.q = mat.NewDense(d, f.rank, nil)
	for at, i := range order {
		if i < d {
			copy(f.q.RawRowView(i), q[at*n:at*n+f.rank])
		}
	}
	return f
}

// decompose overwrites a, row-major, with R and the reflectors of Q.
func (f *penalized) decompose(a []float64, rows, n int) (tau []float64) {
	for j := range f.pivot {
		f.pivot[j] = -1
	}
	tau = make([]float64, min(rows, n))
	g := blas64.General{Rows: rows, Cols: n, Stride: n, Data: a}
	var size [1]float64
	lapack64.Geqp3(g, f.pivot, tau, size[:], -1)
	work := make([]float64, max(int(size[0]), 1))
	lapack64.Geqp3(g, f.pivot, tau, work, len(work))
	return tau
}

// cut decides the rank from the pivots.
func (f *penalized) cut(a []float64, n, most int, cut, doubt float64) {
	pivot := func(i int) float64 { return math.Abs(a[i*n+i]) }
	for f.rank < most && pivot(f.rank) > cut {
		f.rank++
	}
	for f.sure < f.rank && pivot(f.sure) > max(doubtfulRank*cut, doubt) {
		f.sure++
	}
	if f.sure > 0 && cut > 0 {
		f.margin = pivot(f.sure-1) / cut
	}
}

// basis overwrites the first k columns of a with those of Q.
func basis(a, tau []float64, rows, n, k int) []float64 {
	g := blas64.General{Rows: rows, Cols: k, Stride: n, Data: a}
	var size [1]float64
	lapack64.Orgqr(g, tau[:k], size[:], -1)
	work := make([]float64, max(int(size[0]), 1))
	lapack64.Orgqr(g, tau[:k], work, len(work))
	return a
}

// least is the smallest pivot that is beyond doubt.
func (f *penalized) least() float64 { return math.Abs(f.r.At(f.sure-1, f.sure-1)) }

// traces returns tr D and ||D||_F^2 of the first k columns, and tr D of all.
func (f *penalized) traces(k int) (trace, frobenius2, high float64) {
	if f.rank == 0 {
		return 0, 0, 0
	}
	var gram mat.SymDense
	gram.SymOuterK(1, f.q.T())
	for i := range f.rank {
		high += gram.At(i, i)
		if i >= k {
			continue
		}
		trace += gram.At(i, i)
		for j := range k {
			frobenius2 += gram.At(i, j) * gram.At(i, j)
		}
	}
	return trace, frobenius2, high
}

// solution returns the n x rank matrix T = P R^+ of a basic solution: x = T Q1* y minimizes
// ||M x - y||^2 + ||W x||^2.
func (f *penalized) solution() *mat.Dense {
	_, n := f.r.Dims()
	inverse := mat.NewDense(f.rank, f.rank, nil)
	for i := range f.rank {
		inverse.Set(i, i, 1)
	}
	upper := f.r.RawMatrix()
	blas64.Trsm(blas.Left, blas.NoTrans, 1, blas64.Triangular{
		Uplo: blas.Upper, Diag: blas.NonUnit, N: f.rank, Data: upper.Data, Stride: upper.Stride,
	}, inverse.RawMatrix())
	t := mat.NewDense(n, f.rank, nil)
	for i := range f.rank {
		t.SetRow(f.pivot[i], inverse.RawRowView(i))
	}
	return t
}
