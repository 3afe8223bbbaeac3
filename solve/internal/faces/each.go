package faces

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/internal/parallel"
)

// SolveEach overwrites k rows of x, each of one number for each of S in the order of Active, with
// (G_SS + Q_SS)^{-1} times the row. It takes products of matrices where step takes those of vectors.
func (p *Program) SolveEach(x []float64, k int) {
	n, m := len(p.active), len(p.columns)
	if k == 0 || n == 0 {
		return
	}
	wide := p.spread(x, k)
	p.f.solveEach(wide)
	for i := range k {
		for s, j := range p.active {
			x[i*n+s] = wide.Data[i*m+p.place[j]] * p.scale[j]
		}
	}
}

// Half are the rows of x, as those of SolveEach, times W with W W* = (G_SS + Q_SS)^{-1}.
func (p *Program) Half(x []float64, k int) blas64.General {
	w := p.spread(x, k)
	p.f.half(w)
	return w
}

// Identity is a matrix of n x n.
func Identity(n int) []float64 {
	units := make([]float64, n*n)
	for i := range n {
		units[i*n+i] = 1
	}
	return units
}

// spread are the rows of x on the columns of the factor, in their units, with 0 at columns that are held.
func (p *Program) spread(x []float64, k int) blas64.General {
	n, m := len(p.active), len(p.columns)
	wide := blas64.General{Rows: k, Cols: m, Stride: m, Data: make([]float64, k*m)}
	for i := range k {
		for s, j := range p.active {
			wide.Data[i*m+p.place[j]] = x[i*n+s] * p.scale[j]
		}
	}
	return wide
}

// multipliers is x Y* R_Y^{-1} for the rows of x, where R_Y* R_Y = Y Y*.
func (f *factor) multipliers(x blas64.General) blas64.General {
	m := len(f.held)
	mu := blas64.General{Rows: x.Rows, Cols: m, Stride: m, Data: make([]float64, x.Rows*m)}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, x, f.rows(0), 0, mu)
	t := blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: m, Stride: m, Data: f.yy}
	blas64.Trsm(blas.Right, blas.NoTrans, 1, t, mu)
	return mu
}

// solveEach is solve for every row of x, which is 0 at the columns held.
func (f *factor) solveEach(x blas64.General) {
	if f.half(x); f.n == 0 {
		return
	}
	parallel.Ranges(x.Rows, strip, func(lo, hi int) {
		blas64.Trsm(blas.Right, blas.Trans, 1, f.triangle(), blas64.General{Rows: hi - lo, Cols: x.Cols,
			Stride: x.Stride, Data: x.Data[lo*x.Stride:]})
	})
}

// half replaces the rows of x, which are 0 at the columns held, by those of x R^{-1} (I - Y* (Y Y*)^{-1} Y): their
// squared norms are x_i K^{-1} x_i*.
func (f *factor) half(x blas64.General) {
	if f.n == 0 {
		return
	}
	parallel.Ranges(x.Rows, strip, func(lo, hi int) {
		first := x.Cols
		for i := lo; i < hi; i++ {
			first = Zeros(x.Data[i*x.Stride:][:first])
		}
		if first < f.n {
			blas64.Trsm(blas.Right, blas.NoTrans, 1, f.part(first, f.n), blas64.General{Rows: hi - lo,
				Cols: f.n - first, Stride: x.Stride, Data: x.Data[lo*x.Stride+first:]})
		}
	})
	if m := len(f.held); m > 0 {
		mu := f.multipliers(x)
		t := blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: m, Stride: m, Data: f.yy}
		blas64.Trsm(blas.Right, blas.Trans, 1, t, mu)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, mu, f.rows(0), 1, x)
	}
}

// Zeros is the number of zeros with which a row begins.
func Zeros(row []float64) int {
	for i, v := range row {
		if v != 0 {
			return i
		}
	}
	return len(row)
}
