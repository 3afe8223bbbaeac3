package faces

import (
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/internal/lists"
	"surepipe/internal/parallel"
)

// A column that leaves S stays in the factor, held at 0. With the unit vectors E of the columns
// held, the solution of K d = x + E mu, E*d = 0 is
//
//	d = R^{-1} (v - Y* (Y Y*)^{-1} Y v),   v = R^{-*} x,   Y R = E*,
//
// which costs two products with Y more than a solve with R, where to factorize the other columns
// anew would cost n^3/3; and the column returns at no cost.

// heldShare of the columns, and heldLeast, may be held before the factor is made anew without them.
const (
	heldShare = 8
	heldLeast = 16
)

// mostDependent is the largest squared norm of a row of Y. It is the inverse of the squared pivot of
// that column after all others: where that is small, the other columns alone make a better
// conditioned system than all of them.
const mostDependent = 1e4

// dependent reports that a column that is held depends on the others.
func (f *factor) dependent() bool {
	for i := range f.held {
		row := f.y[i*f.n : (i+1)*f.n]
		if dot(row, row) > mostDependent {
			return true
		}
	}
	return false
}

// crowded reports that so many more columns are too many to hold.
func (f *factor) crowded(more int) bool {
	return len(f.held)+more > max(heldLeast, f.n/heldShare)
}

func (f *factor) rows(from int) blas64.General {
	return blas64.General{Rows: len(f.held) - from, Cols: f.n, Stride: max(f.n, 1), Data: f.y[from*f.n:]}
}

// hold holds columns at 0.
func (f *factor) hold(columns []int) {
	if len(columns) == 0 {
		return
	}
	before := len(f.held)
	f.held = append(f.held, columns...)
	f.y = slices.Grow(f.y, len(columns)*f.n)[:len(f.held)*f.n]
	y := f.rows(before)
	clear(y.Data)
	first := f.n
	for i, c := range columns {
		y.Data[i*y.Stride+c] = 1
		first = min(first, c)
	}
	// Y is 0 before the first of these columns.
	right := blas64.General{Rows: y.Rows, Cols: f.n - first, Stride: y.Stride, Data: y.Data[first:]}
	r := f.triangle()
	r.N, r.Data = f.n-first, r.Data[first*f.stride+first:]
	parallel.RangesIf(r.N*r.N*y.Rows >= sharedFlops, y.Rows, heldLeast/2, func(lo, hi int) {
		blas64.Trsm(blas.Right, blas.NoTrans, 1, r, blas64.General{Rows: hi - lo, Cols: right.Cols,
			Stride: right.Stride, Data: right.Data[lo*right.Stride:]})
	})
	f.products(before)
	f.normal()
}

// free sets columns free that were held.
func (f *factor) free(columns []int) {
	if len(columns) == 0 {
		return
	}
	m, to := len(f.held), 0
	var rest []int // of the rows of Y
	for i, c := range f.held {
		if !slices.Contains(columns, c) {
			copy(f.y[len(rest)*f.n:(len(rest)+1)*f.n], f.y[i*f.n:])
			rest = append(rest, i)
		}
	}
	for _, a := range rest {
		for _, b := range rest {
			f.gram[to] = f.gram[a*m+b]
			to++
		}
	}
	f.held = lists.Pick(f.held, rest)
	f.y, f.gram = f.y[:len(rest)*f.n], f.gram[:to]
	f.normal()
}

// widen extends Y to the columns that have joined n others: Y_2 = -Y R_12 R_22^{-1}.
func (f *factor) widen(n int) {
	k, m := f.n-n, len(f.held)
	if m == 0 || k == 0 {
		return
	}
	old := blas64.General{Rows: m, Cols: n, Stride: n, Data: slices.Clone(f.y[:m*n])}
	f.y = slices.Grow(f.y, m*k)[:m*f.n]
	y := f.rows(0)
	for i := range m {
		copy(y.Data[i*f.n:i*f.n+n], old.Data[i*n:i*n+n])
	}
	right := blas64.General{Rows: m, Cols: k, Stride: f.n, Data: f.y[n:]}
	multiplyEach(blas.NoTrans, blas.NoTrans, -1, old, blas64.General{Rows: n, Cols: k, Stride: f.stride,
		Data: f.r[n:]}, 0, right)
	r := f.triangle()
	r.N, r.Data = k, r.Data[n*f.stride+n:]
	blas64.Trsm(blas.Right, blas.NoTrans, 1, r, right)
	c := blas64.Symmetric{Uplo: blas.Upper, N: m, Stride: m, Data: f.gram}
	blas64.Syrk(blas.NoTrans, 1, right, 1, c)
	f.normal()
}

// products extends Y Y* by the rows of Y from one on.
func (f *factor) products(from int) {
	m := len(f.held)
	gram := make([]float64, m*m)
	for i := range from {
		copy(gram[i*m:i*m+from], f.gram[i*from:(i+1)*from])
	}
	right := blas64.General{Rows: m, Cols: m - from, Stride: m, Data: gram[from:]}
	multiplyEach(blas.NoTrans, blas.Trans, 1, f.rows(0), f.rows(from), 0, right)
	f.gram = gram
}

func (f *factor) normal() {
	m := len(f.held)
	f.yy = append(f.yy[:0], f.gram...)
	if m > 0 {
		lapack64.Potrf(blas64.Symmetric{Uplo: blas.Upper, N: m, Stride: m, Data: f.yy}) // Y has full rank
	}
}

// solve overwrites x, of as many numbers as there are columns, with d. It is 0 at the columns held,
// whatever x is there.
func (f *factor) solve(x []float64) {
	if f.n == 0 {
		return
	}
	for _, c := range f.held {
		x[c] = 0
	}
	f.transposed(x)
	if m := len(f.held); m > 0 {
		f.mu = slices.Grow(f.mu[:0], m)[:m]
		mu := blas64.Vector{N: m, Inc: 1, Data: f.mu}
		t := blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: m, Stride: m, Data: f.yy}
		multiply(false, 1, f.rows(0), x[:f.n], 0, f.mu)
		blas64.Trsv(blas.Trans, t, mu)
		blas64.Trsv(blas.NoTrans, t, mu)
		multiply(true, -1, f.rows(0), f.mu, 1, x[:f.n])
	}
	f.direct(x)
	for _, c := range f.held {
		x[c] = 0
	}
}

// inverse is K^{-1} for the columns that are not held; the others' entries mean nothing. With Z =
// Y R^{-*} it is (R*R)^{-1} - Z* (Y Y*)^{-1} Z.
func (f *factor) inverse() blas64.Symmetric {
	n, m := f.n, len(f.held)
	r := blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: n, Stride: n, Data: make([]float64, n*n)}
	f.copyTo(r.Data, n)
	out, _ := lapack64.Potri(r) // its diagonal is positive
	if m == 0 {
		return out
	}
	z := blas64.General{Rows: m, Cols: n, Stride: n, Data: slices.Clone(f.y[:m*n])}
	blas64.Trsm(blas.Right, blas.Trans, 1, f.triangle(), z)
	blas64.Trsm(blas.Left, blas.Trans, 1, blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: m, Stride: m,
		Data: f.yy}, z)
	blas64.Syrk(blas.Trans, -1, z, 1, out)
	return out
}
