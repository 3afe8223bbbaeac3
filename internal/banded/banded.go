package banded

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/internal/parallel"
)

// MostWidth is the largest width for which a band is worth it.
const MostWidth = 48

// LeastPivot is the size of a pivot, relative to its row, below which rows of K are taken to depend on each
// other.
const LeastPivot = 1e-11

// Rows is a sparse matrix by rows: row i has Values[u] in column Indices[u] for Indptr[i] <= u < Indptr[i+1].
type Rows struct {
	Indptr, Indices []int
	Values          []float64
}

// Saddle is the pattern of the saddle point matrices of one K.
type Saddle struct {
	p, q  int // K is q x p
	width int // the largest distance of two places with an entry
	order []int32
	above []float64 // entry k to the right of the diagonal in row i, at i width + k - 1
}

// New orders the p coordinates and the rows of K along a band: every row in the middle of its columns.
func New(k Rows, p int) *Saddle {
	q := len(k.Indptr) - 1
	s := &Saddle{p: p, q: q, order: make([]int32, 0, p+q)}
	middle, rows := make([]float64, q), make([]int32, q)
	for i := range middle {
		rows[i] = int32(i)
		columns := k.Indices[k.Indptr[i]:k.Indptr[i+1]]
		for _, j := range columns {
			middle[i] += float64(j) / float64(len(columns))
		}
	}
	byMiddle := func(a, b int32) int { return cmp.Compare(middle[a], middle[b]) }
	if !slices.IsSortedFunc(rows, byMiddle) {
		slices.SortStableFunc(rows, byMiddle)
	}
	place := make([]int32, p+q) // of the coordinates, then of K's rows
	for j := 0; j < p || len(rows) > 0; {
		next := j
		if len(rows) > 0 && (j == p || middle[rows[0]] < float64(j)) {
			next, rows = p+int(rows[0]), rows[1:]
		} else {
			j++
		}
		place[next] = int32(len(s.order))
		s.order = append(s.order, int32(next))
	}
	entries := func(f func(at, to int, v float64)) {
		for i := range q {
			for u := k.Indptr[i]; u < k.Indptr[i+1]; u++ {
				r, c := int(place[p+i]), int(place[k.Indices[u]])
				f(min(r, c), max(r, c), k.Values[u])
			}
		}
	}
	entries(func(at, to int, _ float64) { s.width = max(s.width, to-at) })
	s.above = make([]float64, (p+q)*s.width)
	entries(func(at, to int, v float64) { s.above[at*s.width+to-at-1] += v })
	return s
}

// Width is the number of diagonals on either side of the main one.
func (s *Saddle) Width() int { return s.width }

// LU is a factorization. Elimination begins at both ends of the band, at the same time, and ends with the rows and
// columns in the middle. It is safe for concurrent use, but for Factorize.
type LU struct {
	*Saddle
	ends   [2]end
	middle blas64.General
	pivot  []int // the row of the middle that was exchanged with each
}

// newLU shares the rows among the ends and the middle.
func newLU(s *Saddle) LU {
	n, w := s.p+s.q, s.width
	middle := min(n, 2*w)
	f := LU{Saddle: s, middle: blas64.General{Rows: middle, Cols: middle, Stride: max(middle, 1),
		Data: make([]float64, middle*middle)}, pivot: make([]int, middle)}
	first, left := (n-middle)/2, middle/2
	f.ends = [2]end{{n: first, left: left}, {n: n - middle - first, left: middle - left, last: true}}
	for i := range f.ends {
		e := &f.ends[i]
		e.Saddle = s
		e.below, e.u, e.pivot = make([]float64, e.n*w), make([]float64, e.n*(2*w+1)), make([]uint16, e.n)
		e.rest = make([]float64, (w+1)*(2*w+1))
	}
	return f
}

// atBoth calls f for both ends, at the same time if that pays.
func (f *LU) atBoth(do func(i int)) {
	parallel.RangesIf(f.p+f.q > parallel.Share, len(f.ends), 1, func(i, _ int) { do(i) })
}

// Factorize sets f to the factors of the matrix with the diagonals of C and D, nil for C = I. It returns
// false where a pivot is 0 or not finite.
func (s *Saddle) Factorize(f *LU, c, d []float64) bool {
	if f.Saddle == nil {
		*f = newLU(s)
	}
	var done [2]bool
	f.atBoth(func(i int) { done[i] = f.ends[i].eliminate(c, d) })
	if !done[0] || !done[1] {
		return false
	}
	m, w := f.middle, s.width
	for i, e := range f.ends {
		for r := range e.left {
			row := e.rest[r*(2*w+1):][:m.Cols]
			if i == 0 {
				copy(m.Data[r*m.Stride:], row)
				continue
			}
			to := m.Data[(m.Rows-1-r)*m.Stride:][:m.Cols]
			for k, v := range row {
				to[m.Cols-1-k] = v
			}
		}
	}
	return m.Rows == 0 || lapack64.Getrf(m, f.pivot) && f.leastInMiddle() > 0
}

// Least is the smallest of the pivots' absolute values over the largest entry of their rows.
func (f *LU) Least() float64 { return min(f.ends[0].least(), f.ends[1].least(), f.leastInMiddle()) }

func (f *LU) leastInMiddle() float64 {
	least := math.Inf(1)
	for i := range f.middle.Rows {
		least = min(least, pivotShare(f.middle.Data[i*f.middle.Stride+i:][:f.middle.Rows-i]))
	}
	return least
}

// pivotShare is the size of the first entry of a row over that of the largest; 0 where it is 0 or not finite.
func pivotShare(row []float64) float64 {
	first, most := math.Abs(row[0]), 0.0
	if !(first > 0) || math.IsInf(first, 1) {
		return 0
	}
	for _, v := range row {
		most = max(most, math.Abs(v))
	}
	return first / most
}

// Solve replaces (x, z), a right-hand side of p and q numbers, by the solution. work has p+q numbers.
func (f *LU) Solve(x, z, work []float64) {
	n := f.ends[0].n
	m := blas64.General{Rows: f.middle.Rows, Cols: 1, Stride: 1, Data: work[n:][:f.middle.Rows]}
	y := [2][]float64{work[:n], work[n+m.Rows:]}
	f.atBoth(func(i int) { f.ends[i].forward(y[i], x, z, m.Data) })
	if m.Rows > 0 {
		lapack64.Getrs(blas.NoTrans, f.middle, m, f.pivot)
	}
	f.ends[0].scatter(m.Data, n, x, z)
	f.atBoth(func(i int) { f.ends[i].backward(y[i], x, z, m.Data) })
}
