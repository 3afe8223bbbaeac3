package banded

import (
	"cmp"
	"math"
	"slices"
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
	k     Rows
	place []int // of the coordinates, then of K's rows, in the order of the band
	width int   // the largest distance of two places with an entry
}

// New orders the p coordinates and the rows of K along a band: every row in the middle of its columns.
func New(k Rows, p int) *Saddle {
	q := len(k.Indptr) - 1
	s := &Saddle{p: p, q: q, k: k, place: make([]int, p+q)}
	key := make([]float64, p+q)
	order := make([]int, p+q)
	for i := range key {
		order[i] = i
		if i < p {
			key[i] = float64(i)
			continue
		}
		from, to := k.Indptr[i-p], k.Indptr[i-p+1]
		for _, j := range k.Indices[from:to] {
			key[i] += float64(j) / float64(to-from)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(key[a], key[b]) })
	for at, i := range order {
		s.place[i] = at
	}
	for i := range q {
		for _, j := range k.Indices[k.Indptr[i]:k.Indptr[i+1]] {
			s.width = max(s.width, s.place[j]-s.place[p+i], s.place[p+i]-s.place[j])
		}
	}
	return s
}

// Width is the number of diagonals on either side of the main one.
func (s *Saddle) Width() int { return s.width }

func (s *Saddle) Bytes() int64 { return int64(s.p+s.q) * int64(8*(3*s.width+1)+8) }

// LU is a factorization. It is safe for concurrent use, but for Factorize.
type LU struct {
	*Saddle
	a     []float64 // row i from its diagonal at i*stride + width
	pivot []int     // the row that was exchanged with row i
	// Least is the smallest of the pivots' absolute values over the largest entry of their rows of the matrix.
	Least float64
}

func (s *Saddle) stride() int { return 3*s.width + 1 }

// Factorize sets f to the factors of the matrix with the diagonals of C and D, nil for C = I. It returns
// false where a pivot is 0 or not finite.
func (s *Saddle) Factorize(f *LU, c, d []float64) bool {
	n, w, stride := s.p+s.q, s.width, s.stride()
	if f.a == nil {
		f.Saddle, f.a, f.pivot = s, make([]float64, n*stride), make([]int, n)
	}
	clear(f.a)
	// Row i of the matrix has column j at a[i*stride + j-i+w].
	for j := range s.p {
		f.a[s.place[j]*stride+w] = 1
		if c != nil {
			f.a[s.place[j]*stride+w] = c[j]
		}
	}
	for i := range s.q {
		r := s.place[s.p+i]
		f.a[r*stride+w] = -d[i]
		for u := s.k.Indptr[i]; u < s.k.Indptr[i+1]; u++ {
			at := s.place[s.k.Indices[u]]
			f.a[r*stride+at-r+w] += s.k.Values[u]
			f.a[at*stride+r-at+w] += s.k.Values[u]
		}
	}
	return f.eliminate(n, w, stride)
}

func (f *LU) eliminate(n, w, stride int) bool {
	f.Least = math.Inf(1)
	for i := range n {
		best, at := 0.0, i
		last := min(i+w, n-1)
		for r := i; r <= last; r++ {
			if v := math.Abs(f.a[r*stride+i-r+w]); v > best {
				best, at = v, r
			}
		}
		if !(best > 0) || math.IsInf(best, 1) {
			return false
		}
		f.pivot[i] = at
		width := min(2*w, n-1-i) + 1
		top := f.a[i*stride+w:][:width]
		if at != i {
			other := f.a[at*stride+i-at+w:][:width]
			for k := range top {
				top[k], other[k] = other[k], top[k]
			}
		}
		most := 0.0
		for _, v := range top {
			most = max(most, math.Abs(v))
		}
		f.Least = min(f.Least, math.Abs(top[0])/most)
		for r := i + 1; r <= last; r++ {
			row := f.a[r*stride+i-r+w:][:width]
			if row[0] == 0 {
				continue
			}
			l := row[0] / top[0]
			row[0] = l
			for k := 1; k < width; k++ {
				row[k] -= l * top[k]
			}
		}
	}
	return true
}

// Solve replaces (x, z), a right-hand side of p and q numbers, by the solution. work has p+q numbers.
func (f *LU) Solve(x, z, work []float64) {
	n, w, stride := f.p+f.q, f.width, f.stride()
	for j, v := range x {
		work[f.place[j]] = v
	}
	for i, v := range z {
		work[f.place[f.p+i]] = v
	}
	for i := range n {
		at := f.pivot[i]
		work[i], work[at] = work[at], work[i]
		v := work[i]
		if v == 0 {
			continue
		}
		for r := i + 1; r <= min(i+w, n-1); r++ {
			work[r] -= f.a[r*stride+i-r+w] * v
		}
	}
	for i := n - 1; i >= 0; i-- {
		row := f.a[i*stride+w:][:min(2*w, n-1-i)+1]
		v := work[i]
		for k := 1; k < len(row); k++ {
			v -= row[k] * work[i+k]
		}
		work[i] = v / row[0]
	}
	for j := range x {
		x[j] = work[f.place[j]]
	}
	for i := range z {
		z[i] = work[f.place[f.p+i]]
	}
}
