package engine

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/array"
	"surepipe/internal/sublist"
)

// Factors is the m x n matrix U diag(S) V* of rank r, on the host: a solution b of a completion, of
// which p = m n may be more numbers than memory holds. The zero matrix has rank 0.
type Factors struct {
	// Shape is m x n.
	Shape array.Shape
	// Rows and Columns are the lines that the factors have rows for, in increasing order: all other entries
	// are 0. Nil stands for all lines.
	Rows, Columns []int
	// U has r columns and a row for each of Rows, and V for each of Columns, row-major, with orthonormal
	// columns; S are the r singular values, positive and in decreasing order.
	U, S, V []float64
	// Parts, in place of U, S and V, are matrices of this shape without a row or column in common, of
	// which this is the sum. Their factors together may be far smaller than those of the sum: see Joined.
	Parts []*Factors
}

// Rank is r.
func (f *Factors) Rank() int {
	r := len(f.S)
	for _, p := range f.Parts {
		r += p.Rank()
	}
	return r
}

// extent is how many rows and columns the factors have rows for.
func (f *Factors) extent() (rows, columns int) {
	rows, columns = f.Shape.Rows, f.Shape.Cols
	if f.Rows != nil {
		rows = len(f.Rows)
	}
	if f.Columns != nil {
		columns = len(f.Columns)
	}
	return rows, columns
}

// Check returns an error where the lengths do not fit, or a number is not finite.
func (f *Factors) Check() error {
	for _, p := range f.Parts {
		if err := p.Check(); err != nil {
			return err
		}
	}
	m, n := f.extent()
	if r := len(f.S); m < 0 || n < 0 || len(f.U) != m*r || len(f.V) != n*r {
		return fmt.Errorf("solve: factors U, S, V of %d, %d and %d values for %d rows and %d columns, expected "+
			"%d, %d and %d", len(f.U), r, len(f.V), m, n, m*r, r, n*r)
	}
	for _, part := range [][]float64{f.U, f.S, f.V} {
		for _, v := range part {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("solve: factors hold %g, expected finite numbers", v)
			}
		}
	}
	return nil
}

// At is entry (i, j).
func (f *Factors) At(i, j int) float64 {
	sum := 0.0
	for _, p := range f.Parts {
		sum += p.At(i, j)
	}
	k, inRow := sublist.At(f.Rows, i)
	l, inColumn := sublist.At(f.Columns, j)
	if !inRow || !inColumn || f.S == nil {
		return sum
	}
	r := len(f.S)
	u, v := f.U[k*r:][:r], f.V[l*r:][:r]
	for l, s := range f.S {
		sum += u[l] * s * v[l]
	}
	return sum
}

// Places are the entries at places of the row-major matrix, in a new slice: O(r) for each.
func (f *Factors) Places(places []int) []float64 {
	home := map[int]*Factors{}
	for _, p := range f.Parts {
		for _, i := range p.Rows {
			home[i] = p
		}
	}
	out := make([]float64, len(places))
	for e, c := range places {
		i, j := c/f.Shape.Cols, c%f.Shape.Cols
		if f.Parts == nil {
			out[e] = f.At(i, j)
		} else if p := home[i]; p != nil {
			out[e] = p.At(i, j)
		}
	}
	return out
}

// Dense writes the matrix down, row-major: m n numbers.
func (f *Factors) Dense() []float64 {
	out := make([]float64, f.Shape.Len())
	f.addTo(out)
	return out
}

func (f *Factors) addTo(out []float64) {
	for _, p := range f.Parts {
		p.addTo(out)
	}
	m, n := f.extent()
	r := len(f.S)
	if r == 0 || m == 0 || n == 0 {
		return
	}
	whole, own := f.Rows == nil && f.Columns == nil, out
	if !whole {
		own = make([]float64, m*n)
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, blas64.General{Rows: m, Cols: r, Stride: r, Data: f.Left()},
		blas64.General{Rows: n, Cols: r, Stride: r, Data: f.V}, 1, blas64.General{Rows: m, Cols: n, Stride: n,
			Data: own})
	if whole {
		return
	}
	for k := range m {
		for l, v := range own[k*n:][:n] {
			out[sublist.Line(f.Rows, k)*f.Shape.Cols+sublist.Line(f.Columns, l)] += v
		}
	}
}

// Left is U diag(S).
func (f *Factors) Left() []float64 {
	r, l := len(f.S), slices.Clone(f.U)
	for i := range l {
		l[i] *= f.S[i%r]
	}
	return l
}
