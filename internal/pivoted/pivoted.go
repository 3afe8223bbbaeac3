package pivoted

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"
)

// Factor is the factorization of M, d x n, beside a penalty W,
//
//	[M; W] P = Q R,   D = M (M*M + W*W)^+ M* = Q1 Q1*,
//
// where Q1 is the first d rows of Q. A column whose pivot is below Cut max(d, n) eps ||M|| is
// numerically a combination of the columns before it and is left out.
type Factor struct {
	// Q is Q1, d x Rank; nil where the rank is 0.
	Q *mat.Dense
	// R is Rank x n, with its columns in the order of Pivot: column j of R is column Pivot[j] of M.
	R     *mat.Dense
	Pivot []int
	// Rank is the number of columns that count. The pivots of the first Sure of them are clearly
	// above rounding errors and above the doubt passed to Factorize.
	Rank, Sure int
	// Margin is the smallest of the Sure pivots over the cut, +Inf without any.
	Margin float64
}

const (
	// Cut is the smallest pivot that counts, in units of max(d, n) eps ||M||.
	Cut = 32
	// Doubtful times the cut is the largest pivot that can be a rounding error of the data
	// themselves, where columns depend on each other up to the last digits of their entries.
	Doubtful = 1 << 10
)

// LeastPivot is the smallest pivot that counts of a d x n matrix of norm 1.
func LeastPivot(d, n int) float64 { return Cut * float64(max(d, n)) * 0x1p-52 }

// Factorize factorizes m beside w, which is nil where there is no penalty. scale is ||M||, or the
// norm of the operator that M was computed from, in the same units. Pivots up to doubt times the
// scale are in doubt too.
func Factorize(m mat.Matrix, w *mat.Dense, scale, doubt float64) *Factor {
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
	f := &Factor{Pivot: make([]int, n), Margin: math.Inf(1)}
	tau := f.decompose(a, len(rows), n)
	f.cut(a, n, min(len(rows), n), LeastPivot(d, n)*scale, doubt*scale)
	if f.Rank == 0 {
		return f
	}
	f.R = mat.NewDense(f.Rank, n, nil)
	for i := range f.Rank {
		copy(f.R.RawRowView(i)[i:], a[i*n+i:(i+1)*n])
	}
	q := basis(a, tau, len(rows), n, f.Rank)
	f.Q = mat.NewDense(d, f.Rank, nil)
	for at, i := range order {
		if i < d {
			copy(f.Q.RawRowView(i), q[at*n:at*n+f.Rank])
		}
	}
	return f
}

// decompose overwrites a, row-major, with R and the reflectors of Q.
func (f *Factor) decompose(a []float64, rows, n int) (tau []float64) {
	for j := range f.Pivot {
		f.Pivot[j] = -1
	}
	tau = make([]float64, min(rows, n))
	g := blas64.General{Rows: rows, Cols: n, Stride: n, Data: a}
	var size [1]float64
	lapack64.Geqp3(g, f.Pivot, tau, size[:], -1)
	work := make([]float64, max(int(size[0]), 1))
	lapack64.Geqp3(g, f.Pivot, tau, work, len(work))
	return tau
}

// cut decides the rank from the pivots.
func (f *Factor) cut(a []float64, n, most int, cut, doubt float64) {
	pivot := func(i int) float64 { return math.Abs(a[i*n+i]) }
	for f.Rank < most && pivot(f.Rank) > cut {
		f.Rank++
	}
	for f.Sure < f.Rank && pivot(f.Sure) > max(Doubtful*cut, doubt) {
		f.Sure++
	}
	if f.Sure > 0 && cut > 0 {
		f.Margin = pivot(f.Sure-1) / cut
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

// Least is the smallest pivot of those beyond doubt. There must be one.
func (f *Factor) Least() float64 { return math.Abs(f.R.At(f.Sure-1, f.Sure-1)) }

// Traces returns tr D and ||D||_F^2 where only the first k columns count, and tr D where all do.
func (f *Factor) Traces(k int) (trace, frobenius2, high float64) {
	if f.Rank == 0 {
		return 0, 0, 0
	}
	var gram mat.SymDense
	gram.SymOuterK(1, f.Q.T())
	for i := range f.Rank {
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

// Solution returns the n x Rank matrix T = P R^+ of a basic solution: x = T Q1* y minimizes ||M x -
// y||^2 + ||W x||^2.
func (f *Factor) Solution() *mat.Dense {
	_, n := f.R.Dims()
	inverse := mat.NewDense(f.Rank, f.Rank, nil)
	for i := range f.Rank {
		inverse.Set(i, i, 1)
	}
	upper := f.R.RawMatrix()
	blas64.Trsm(blas.Left, blas.NoTrans, 1, blas64.Triangular{
		Uplo: blas.Upper, Diag: blas.NonUnit, N: f.Rank, Data: upper.Data, Stride: upper.Stride,
	}, inverse.RawMatrix())
	t := mat.NewDense(n, f.Rank, nil)
	for i := range f.Rank {
		t.SetRow(f.Pivot[i], inverse.RawRowView(i))
	}
	return t
}

func ScaleColumns(m mat.Matrix, scale []float64) *mat.Dense {
	c := mat.DenseCopyOf(m)
	c.Apply(func(_, j int, v float64) float64 { return v * scale[j] }, c)
	return c
}
