package cholesky

import (
	"errors"
	"math"
	"slices"

	"surepipe/internal/parallel"
)

// Incomplete computes an approximate L, column by column, without some entries (a threshold incomplete Cholesky
// factorization: Munksgaard 1980; Lin and More 1999). For an S whose least eigenvalue is about 1 these are those below
// a tolerance times the fourth root of the two diagonal entries of S: what is left out is then small beside that
// eigenvalue, and, where these entries are large, beside them. L L* is positive definite: where a pivot is lost to what
// was left out, the diagonal entry of S takes its place. Where the rows of L grow far beyond those of a
// complete factor, whose squares add up to the diagonal of S, fewer entries are left out, and at last that diagonal is
// made larger (Manteuffel 1980).
func (a *Analysis) Incomplete(value []float64, drop float64) *Factor {
	for range fewerDrops {
		if f := a.incomplete(value, drop, 1); f != nil {
			return f
		}
		drop /= 10
	}
	for more := drop; ; more *= 10 {
		if f := a.incomplete(value, drop, 1+more); f != nil {
			return f
		}
	}
}

// fewerDrops is how many tolerances are tried, each a tenth of the one before.
const fewerDrops = 3

// mostGrowth is the size of a row's squares, relative to the diagonal, at which the factor is of no use.
const mostGrowth = 100

// incompletion is an incomplete factorization with the diagonal multiplied. Its entries are blocks, which are left out
// as a whole.
type incompletion struct {
	a           *Analysis
	value       []float64
	drop, times float64
	f           *Factor
	of          []int32   // of a column, its segment
	root, size  []float64 // of the diagonal
	squares     []float64 // of the rows, relative to the diagonal
	// Columns whose next row to be eliminated is k are a list: first[k], after[first[k]], ...
	first, after, next []int32   // next: how many of a column's are done
	beyond             [][]int32 // of each tree, its columns with entries in rows above all trees
	top                []int32   // of a column above all trees, its number among these
	tops               int
}

// incomplete is that factor; nil where it grows too much. Trees of the elimination tree are factorized at the same
// time, and then what is above them. The bits do not depend on the number of processors.
func (a *Analysis) incomplete(value []float64, drop, times float64) *Factor {
	b := a.block
	n := len(a.order) / b
	w := &incompletion{a: a, value: value, drop: drop, times: times,
		f:  &Factor{n: n * b, block: b, order: a.order},
		of: make([]int32, n), squares: make([]float64, n*b),
		first: slices.Repeat([]int32{-1}, n), after: make([]int32, n), next: make([]int32, n), top: make([]int32, n)}
	w.root, w.size = a.roots(value, times)
	trees, above := w.divide()
	fresh := func() *column { return &column{b: b, top: w.top} }
	w.beyond = make([][]int32, len(trees))
	if parallel.Each(len(trees), fresh, func(i int, c *column) error {
		err := w.eliminate(trees[i], c)
		for j := trees[i].lo; j < trees[i].hi && err == nil; j++ {
			if index, _ := w.column(j); int(w.next[j]) < len(index) {
				w.beyond[i] = append(w.beyond[i], int32(j))
			}
		}
		return err
	}) != nil {
		return nil
	}
	for _, columns := range w.beyond {
		for _, j := range columns {
			index, l := w.column(int(j))
			done := int(w.next[j])
			for u, i := range index[done:] {
				if !w.count(i, l[(done+u)*b*b:][:b*b]) {
					return nil
				}
			}
			w.link(int(j), index)
		}
	}
	c := fresh()
	for _, r := range above {
		if w.eliminate(r, c) != nil {
			return nil
		}
	}
	w.plant(trees)
	return w.f
}

// stretch is some consecutive columns.
type stretch struct {
	lo, hi int
	tree   bool // trees of the elimination tree
}

// divide divides the columns into trees and the others, and makes the segments.
func (w *incompletion) divide() (trees, above []stretch) {
	b, n := w.a.block, len(w.of)
	parent := func(k int) int { return int(w.a.parent[k*b+b-1]) / b } // 0 for none
	size, tree := slices.Repeat([]int{1}, n), make([]bool, n)
	for k := range n {
		if p := parent(k); p > k {
			size[p] += size[k]
		}
	}
	for k := n - 1; k >= 0; k-- {
		p := parent(k)
		tree[k] = shares*size[k] <= n || p > k && tree[p]
	}
	var all []stretch
	for k := range n {
		last := len(all) - 1
		root := tree[k] && (parent(k) <= k || !tree[parent(k)])
		switch {
		case root && last >= 0 && all[last].tree && all[last].hi == k-size[k]+1 && shares*(k+1-all[last].lo) <= n:
			all[last].hi = k + 1
		case root:
			all = append(all, stretch{k - size[k] + 1, k + 1, true})
		case !tree[k]:
			w.top[k] = int32(w.tops)
			w.tops++
			if last >= 0 && !all[last].tree {
				all[last].hi = k + 1
			} else {
				all = append(all, stretch{k, k + 1, false})
			}
		}
	}
	for _, r := range all {
		for k := r.lo; k < r.hi; k++ {
			if (k-r.lo)%segmentColumns == 0 {
				w.f.segments = append(w.f.segments, segment{first: k, area: int64(b * b)})
			}
			w.of[k] = int32(len(w.f.segments) - 1)
		}
		if r.tree {
			trees = append(trees, r)
		} else {
			above = append(above, r)
		}
	}
	return trees, above
}

func (w *incompletion) column(k int) (index []int32, value []float64) {
	return w.f.segments[w.of[k]].column(k)
}

// link puts a column on the list of its next row.
func (w *incompletion) link(j int, index []int32) {
	if done := int(w.next[j]); done < len(index) {
		w.after[j], w.first[index[done]] = w.first[index[done]], int32(j)
	}
}

// count adds a block to the squares of its rows, and returns false where these are too large.
func (w *incompletion) count(i int32, x []float64) bool {
	b := w.a.block
	for p, v := range x {
		at := int(i)*b + p/b
		if w.squares[at] += v / w.root[at] * (v / w.root[at]); !(w.squares[at] <= mostGrowth) {
			return false
		}
	}
	return true
}

var errGrowth = errors.New("cholesky: the rows of an incomplete factor grow too much")

// eliminate finds the columns of a stretch. What those of a tree take from columns above it is left for later.
func (w *incompletion) eliminate(r stretch, c *column) error {
	b, area := c.b, c.b*c.b
	end := len(w.of)
	if r.tree {
		end = r.hi
	}
	c.begin(r, w.tops)
	for k := r.lo; k < r.hi; k++ {
		s := &w.f.segments[w.of[k]]
		if k == s.first {
			s.index, s.value = c.index[:0], c.value[:0]
			s.ptr = make([]int64, 1, min(segmentColumns, r.hi-k)+1)
		}
		c.start(k)
		w.a.load(c, w.value, w.times)
		for j := w.first[k]; j >= 0; {
			following := w.after[j]
			index, l := w.column(int(j))
			done := int(w.next[j])
			c.subtract(index[done:], l[done*area:])
			if w.next[j]++; done+1 < len(index) && int(index[done+1]) < end {
				w.link(int(j), index)
			}
			j = following
		}
		l := c.block(int32(k))
		factorize(l, b, w.root[k*b:])
		from := len(s.index)
		s.index, s.value = append(s.index, int32(k)), append(s.value, l...)
		l = s.value[len(s.value)-area:]
		slices.Sort(c.at)
		for _, i := range c.at {
			x := c.block(i)
			if !large(x, b, w.drop, w.size[k*b:], w.size[int(i)*b:]) {
				continue
			}
			divide(x, l, b)
			if int(i) < end && !w.count(i, x) {
				return errGrowth
			}
			s.index, s.value = append(s.index, i), append(s.value, x...)
		}
		c.clear()
		s.ptr = append(s.ptr, int64(len(s.index)))
		if w.next[k] = 1; len(s.index) > from+1 && int(s.index[from+1]) < end {
			w.link(k, s.index[from:])
		}
		if k+1 == r.hi || k+1 == s.first+segmentColumns {
			c.index, c.value = s.index, s.value
			s.index, s.value = slices.Clone(c.index), slices.Clone(c.value)
		}
	}
	return nil
}

// column is a column of blocks of a stretch, and where they are beside the diagonal: in the rows of the stretch where
// it is of trees, and in those above all trees.
type column struct {
	b, k   int
	lo, hi int     // the rows of the stretch
	top    []int32 // of a row above all trees, its number
	x      []float64
	since  []int32 // of a block: 1 more than the last column that it was in
	at     []int32
	index  []int32 // memory of a segment that is not full
	value  []float64
}

// begin makes room for the columns of a stretch.
func (c *column) begin(r stretch, tops int) {
	if c.lo, c.hi = r.lo, r.lo; r.tree {
		c.hi = r.hi
	}
	if n := c.hi - c.lo + tops; len(c.since) < n {
		c.x, c.since = make([]float64, n*c.b*c.b), make([]int32, n)
	}
}

// place is that of a row in x.
func (c *column) place(i int32) int {
	if int(i) < c.hi {
		return int(i) - c.lo
	}
	return c.hi - c.lo + int(c.top[i])
}

// block is that in a row of blocks.
func (c *column) block(i int32) []float64 {
	area := c.b * c.b
	return c.x[c.place(i)*area:][:area]
}

func (c *column) start(k int) {
	c.k, c.at = k, c.at[:0]
	c.since[c.place(int32(k))] = int32(k) + 1
}

// touch is the place of a row that is in the column.
func (c *column) touch(i int32) int {
	at := c.place(i)
	if k := int32(c.k) + 1; c.since[at] != k {
		c.since[at], c.at = k, append(c.at, i)
	}
	return at
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
			c.x[(c.touch(int32(row/b))*b+row%b)*b+q] += v
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
			c.x[c.touch(i)] -= l * value[u]
		}
	case 3:
		l := [9]float64(value)
		for u, i := range index {
			x, v := (*[9]float64)(c.x[c.touch(i)*9:]), (*[9]float64)(value[u*9:])
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

// roots are those of the diagonal, multiplied, in the order of elimination, and the roots of these.
func (a *Analysis) roots(value []float64, times float64) (second, fourth []float64) {
	second, fourth = make([]float64, len(a.order)), make([]float64, len(a.order))
	parallel.Ranges(len(a.order), parallel.Share, func(lo, hi int) {
		for k := lo; k < hi; k++ {
			col := a.order[k]
			for u := a.ptr[col]; u < a.ptr[col+1]; u++ {
				if a.index[u] == col {
					second[k] += value[u]
				}
			}
			second[k] = math.Sqrt(times * second[k])
			fourth[k] = math.Sqrt(second[k])
		}
	})
	return second, fourth
}

// segmentColumns makes segments small beside a factor that has many: they are copied when they are full.
const segmentColumns = 1 << 12

// leastPivot is the size of a pivot relative to the diagonal entry below which it counts as lost.
const leastPivot = 1e-8
