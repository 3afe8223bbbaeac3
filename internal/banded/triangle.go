package banded

import (
	"math"
	"slices"
)

// Stack is the pattern of a matrix M of n columns whose rows read neighbours.
type Stack struct {
	n     int
	width int // the largest distance of two columns that a row reads
	rows  Rows
	order []int32 // the rows, by the first column that they read; without those that read none
}

// NewStack orders the rows of M. It keeps them.
func NewStack(m Rows, n int) *Stack {
	s := &Stack{n: n, rows: m}
	first, next := make([]int, len(m.Indptr)-1), make([]int32, n+1) // the place of the next row with a first column
	for i := range first {
		columns := m.Indices[m.Indptr[i]:m.Indptr[i+1]]
		if len(columns) == 0 {
			first[i] = n
			continue
		}
		first[i] = slices.Min(columns)
		s.width = max(s.width, slices.Max(columns)-first[i])
		next[first[i]+1]++
	}
	for j := range n {
		next[j+1] += next[j]
	}
	s.order = make([]int32, next[n])
	for i, j := range first {
		if j < n {
			s.order[next[j]] = int32(i)
			next[j]++
		}
	}
	return s
}

// Width is the number of diagonals of R above the main one.
func (s *Stack) Width() int { return s.width }

// Triangle is the factor R of M*M = R*R, upper triangular with as many diagonals as M's rows are wide.
type Triangle struct {
	n, w int
	r    []float64 // R_{j,j+k} at j (w+1) + k
	// Columns are the squared lengths of M's columns, the diagonal of M*M.
	Columns []float64
}

// Triangle computes R for M with row i multiplied by scale[i], by rotations of one row after the other
// (George and Heath 1980): in about 6 w^2 operations a row. M*M is never formed, so that the relative
// error of a solution grows with M's condition number and not with its square. It returns false where
// M does not have full rank, up to rounding errors.
func (s *Stack) Triangle(scale []float64) (*Triangle, bool) {
	w := s.width
	t := &Triangle{n: s.n, w: w, r: make([]float64, s.n*(w+1)), Columns: make([]float64, s.n)}
	ends := make([]int32, s.n) // the last column of each row of R, plus 1; 0 where there is none yet
	x := make([]float64, w+1)
	for _, i := range s.order {
		columns, values := s.rows.Indices[s.rows.Indptr[i]:s.rows.Indptr[i+1]],
			s.rows.Values[s.rows.Indptr[i]:s.rows.Indptr[i+1]]
		j, end := columns[0], columns[0]
		for _, c := range columns[1:] {
			j, end = min(j, c), max(end, c)
		}
		clear(x)
		for u, c := range columns {
			x[c-j] += scale[i] * values[u]
		}
		for k, v := range x[:end+1-j] {
			t.Columns[j+k] += v * v
		}
		t.insert(x, j, end+1, ends)
	}
	for j := range s.n {
		d := t.r[j*(w+1)]
		if !(d*d > leastRank*leastRank*t.Columns[j]) || math.IsInf(d, 0) {
			return nil, false
		}
	}
	return t, true
}

// leastRank is the size of a diagonal entry of R, relative to its column of M, below which the column
// counts as a combination of those before it.
const leastRank = 1e-13

// insert rotates x, whose entries are in columns j to end-1, into R. It overwrites x.
func (t *Triangle) insert(x []float64, j, end int, ends []int32) {
	w := t.w
	for ; j < end; j++ {
		v := x[0]
		if v == 0 {
			x = x[1:]
			continue
		}
		row := t.r[j*(w+1):][:w+1]
		if ends[j] == 0 {
			copy(row, x[:end-j])
			ends[j] = int32(end)
			return
		}
		end = max(end, int(ends[j]))
		ends[j] = int32(end)
		d := row[0]
		h := length(d, v)
		c, s := d/h, v/h
		row[0] = h
		n := end - j
		below := x[1:n]
		for k, r := range row[1:n] {
			y := below[k]
			row[k+1], below[k] = c*r+s*y, c*y-s*r
		}
		x = x[1:]
	}
}

func length(a, b float64) float64 {
	if s := a*a + b*b; s > 0x1p-900 && s < 0x1p900 {
		return math.Sqrt(s)
	}
	return math.Hypot(a, b)
}

// lanes is the number of right-hand sides that are solved at a time: R is read once for all of them,
// and their recurrences do not wait for each other.
const lanes = 4

// Solve replaces every vector x_i by (M*M)^{-1} x_i.
func (t *Triangle) Solve(x [][]float64) {
	for ; len(x) >= lanes; x = x[lanes:] {
		t.solveLanes([lanes][]float64(x[:lanes]))
	}
	for _, v := range x {
		t.solve(v)
	}
}

func (t *Triangle) solve(x []float64) {
	w := t.w
	for j := range x {
		row := t.r[j*(w+1):][:w+1]
		u := x[j] / row[0]
		x[j] = u
		rest := x[j+1 : min(j+w+1, t.n)]
		for k := range rest {
			rest[k] -= row[k+1] * u
		}
	}
	for j := t.n - 1; j >= 0; j-- {
		row := t.r[j*(w+1):][:w+1]
		u := x[j]
		for k, v := range x[j+1 : min(j+w+1, t.n)] {
			u -= row[k+1] * v
		}
		x[j] = u / row[0]
	}
}

func (t *Triangle) solveLanes(x [lanes][]float64) {
	w := t.w
	for j := range t.n {
		row := t.r[j*(w+1):][:w+1]
		inverse := 1 / row[0]
		var u [lanes]float64
		for l := range u {
			u[l] = x[l][j] * inverse
			x[l][j] = u[l]
		}
		for k, r := range row[1:min(w+1, t.n-j)] {
			for l := range u {
				x[l][j+k+1] -= r * u[l]
			}
		}
	}
	for j := t.n - 1; j >= 0; j-- {
		row := t.r[j*(w+1):][:w+1]
		inverse := 1 / row[0]
		var u [lanes]float64
		for l := range u {
			u[l] = x[l][j]
		}
		for k, r := range row[1:min(w+1, t.n-j)] {
			for l := range u {
				u[l] -= r * x[l][j+k+1]
			}
		}
		for l := range u {
			x[l][j] = u[l] * inverse
		}
	}
}
