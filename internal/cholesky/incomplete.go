package cholesky

import (
	"math"
	"slices"
)

// Incomplete computes an approximate L, column by column, without the entries whose size relative to
// the root of the two diagonal entries of S is below a tolerance (a threshold incomplete Cholesky
// factorization: Munksgaard 1980; Lin and More 1999). L L* is positive definite: where a pivot is lost
// to what was left out, the diagonal entry of S takes its place. Where the rows of L grow far beyond those of a
// complete factor, whose squares add up to the diagonal of S, fewer entries are left out, and at last that diagonal is
// made larger (Manteuffel 1980).
func (a *Analysis) Incomplete(value []float64, drop float64) *Factor {
	for range fewerDrops {
		if f := a.incomplete(value, drop, 1); f != nil {
			return f
		}
		drop /= 10
	}
	for more := leastMore; ; more *= 10 {
		if f := a.incomplete(value, drop, 1+more); f != nil {
			return f
		}
	}
}

// fewerDrops is how many tolerances are tried, each a tenth of the one before.
const fewerDrops = 3

// leastMore is the part of the diagonal that is added to it at first.
const leastMore = 1e-3

// mostGrowth is the size of a row's squares, relative to the diagonal, at which the factor is of no use.
const mostGrowth = 100

// incomplete is the factor with the diagonal multiplied; nil where it grows too much. Its entries are blocks, which are
// left out as a whole.
func (a *Analysis) incomplete(value []float64, drop, times float64) *Factor {
	b := a.block
	n, area := len(a.order)/b, b*b
	f := &Factor{n: n * b, block: b, order: a.order, ptr: make([]int64, 1, n+1), shift: segmentShift}
	var s *segment // the last one
	root := a.roots(value, times)
	squares := make([]float64, len(root)) // of the rows, relative to the diagonal
	// Columns whose next row to be eliminated is k are a list: first[k], after[first[k]], ...
	first, after, next := make([]int32, n), make([]int32, n), make([]int32, n) // next: how many of a column's are done
	for k := range first {
		first[k] = -1
	}
	c := &column{b: b, x: make([]float64, n*area), since: make([]int32, n)}
	for k := range n {
		c.k, c.since[k], c.at = k, int32(k)+1, c.at[:0]
		a.load(c, value, times)
		for j := first[k]; j >= 0; {
			following := after[j]
			index, l := f.column(int(j))
			done := int(next[j])
			c.subtract(index[done:], l[done*area:])
			if next[j]++; done+1 < len(index) {
				row := index[done+1]
				after[j], first[row] = first[row], j
			}
			j = following
		}
		l := c.block(int32(k))
		factorize(l, b, root[k*b:])
		if k&(1<<segmentShift-1) == 0 {
			s = f.extend()
		}
		s.index, s.value = append(s.index, int32(k)), append(s.value, l...)
		l = s.value[len(s.value)-area:]
		slices.Sort(c.at)
		for _, i := range c.at {
			x := c.block(i)
			if !large(x, b, drop, root[k*b:], root[int(i)*b:]) {
				continue
			}
			divide(x, l, b)
			for p, v := range x {
				at := int(i)*b + p/b
				if squares[at] += v / root[at] * (v / root[at]); !(squares[at] <= mostGrowth) {
					return nil
				}
			}
			s.index, s.value = append(s.index, i), append(s.value, x...)
		}
		c.clear()
		f.ptr = append(f.ptr, s.from+int64(len(s.index)))
		if next[k] = 1; f.ptr[k+1]-f.ptr[k] > 1 {
			index, _ := f.column(k)
			row := index[1]
			after[k], first[row] = first[row], int32(k)
		}
	}
	return f
}

// column is a column of blocks, and where they are beside the diagonal.
type column struct {
	b, k  int
	x     []float64 // 0 elsewhere
	since []int32   // of a block: 1 more than the last column that it was in
	at    []int32
}

// block is that in a row of blocks.
func (c *column) block(i int32) []float64 {
	area := c.b * c.b
	return c.x[int(i)*area:][:area]
}

func (c *column) touch(i int32) {
	if k := int32(c.k) + 1; c.since[i] != k {
		c.since[i], c.at = k, append(c.at, i)
	}
}

func (c *column) clear() {
	clear(c.block(int32(c.k)))
	for _, i := range c.at {
		clear(c.block(i))
	}
}

// load adds the columns of S, with the diagonal multiplied.
func (a *Analysis) load(c *column, value []float64, times float64) {
	b := c.b
	for q, col := range a.order[c.k*b : (c.k+1)*b] {
		for u := a.ptr[col]; u < a.ptr[col+1]; u++ {
			row := int(a.place[a.index[u]])
			if row < c.k*b {
				continue
			}
			v := value[u]
			if a.index[u] == col {
				v *= times
			}
			c.touch(int32(row / b))
			c.x[row*b+q] += v
		}
	}
}

// subtract takes l_i l* from the blocks of the column, for the blocks l_i of an earlier one, of which the first one, l,
// is in the diagonal's row.
func (c *column) subtract(index []int32, value []float64) {
	switch b := c.b; b {
	case 1:
		l := value[0]
		for u, i := range index {
			c.touch(i)
			c.x[i] -= l * value[u]
		}
	case 3:
		l := [9]float64(value)
		for u, i := range index {
			c.touch(i)
			x, v := (*[9]float64)(c.x[int(i)*9:]), (*[9]float64)(value[u*9:])
			for p := 0; p < 9; p += 3 {
				v0, v1, v2 := v[p], v[p+1], v[p+2]
				x[p] -= v0*l[0] + v1*l[1] + v2*l[2]
				x[p+1] -= v0*l[3] + v1*l[4] + v2*l[5]
				x[p+2] -= v0*l[6] + v1*l[7] + v2*l[8]
			}
		}
	default:
		for u, i := range index {
			c.touch(i)
			x, v := c.block(i), value[u*b*b:]
			for p := range x {
				for t := range b {
					x[p] -= v[p/b*b+t] * value[p%b*b+t]
				}
			}
		}
	}
}

// factorize replaces a block of the diagonal by its factor. A pivot that is lost is the diagonal's.
func factorize(x []float64, b int, root []float64) {
	for q := range b {
		for p := range b {
			v := x[p*b+q]
			for t := range q {
				v -= x[p*b+t] * x[q*b+t]
			}
			switch {
			case p < q:
				v = 0
			case p > q:
				v /= x[q*b+q]
			case v > leastPivot*root[q]*root[q]:
				v = math.Sqrt(v)
			default:
				v = root[q]
			}
			x[p*b+q] = v
		}
	}
}

// large reports that an entry of a block is not to be left out.
func large(x []float64, b int, drop float64, column, row []float64) bool {
	for p := range b {
		for q := range b {
			if math.Abs(x[p*b+q]) >= drop*column[q]*row[p] {
				return true
			}
		}
	}
	return false
}

func divide(x, l []float64, b int) {
	for p := range b {
		for q := range b {
			v := x[p*b+q]
			for t := range q {
				v -= x[p*b+t] * l[q*b+t]
			}
			x[p*b+q] = v / l[q*b+q]
		}
	}
}

// roots are those of the diagonal, multiplied, in the order of elimination.
func (a *Analysis) roots(value []float64, times float64) []float64 {
	root := make([]float64, len(a.order))
	for k, col := range a.order {
		for u := a.ptr[col]; u < a.ptr[col+1]; u++ {
			if a.index[u] == col {
				root[k] += value[u]
			}
		}
		root[k] = math.Sqrt(times * root[k])
	}
	return root
}

// segmentShift makes segments small beside a factor that has many: a segment grows as it is filled, and the factor as a
// whole does not.
const segmentShift = 12

// extend adds a segment with room for as many blocks as the one before has.
func (f *Factor) extend() *segment {
	s, usual := segment{from: f.ptr[len(f.ptr)-1]}, 0
	if n := len(f.segments); n > 0 {
		usual = len(f.segments[n-1].index)
	}
	s.index, s.value = make([]int32, 0, usual), make([]float64, 0, usual*f.block*f.block)
	f.segments = append(f.segments, s)
	return &f.segments[len(f.segments)-1]
}

// leastPivot is the size of a pivot relative to the diagonal entry below which it counts as lost.
const leastPivot = 1e-8
