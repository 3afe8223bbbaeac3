package cholesky

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/internal/lists"
	"surepipe/internal/parallel"
)

// supernode is a run of columns of L with the same rows below, or nearly so.
type supernode struct {
	first    int32   // its first column; the last is before the next node's first
	rows     []int32 // of its first column, its own columns first
	parent   int32   // -1 for none
	children []int32
	at       int64   // of its columns in L, each `stride` after the one before, with a place for every row
	to       []int32 // of the rows below, their places among the parent's rows
	entries  []entry
	task     bool // its tree is factorized at once, with others
	stack    int  // of the two, the one that what it leaves is on: not its parent's
}

// entry is where a value of the matrix belongs among the columns of its supernode.
type entry struct{ from, to int32 }

// fours rounds up to a multiple of four, in which kernels count.
func fours(n int) int { return (n + 3) &^ 3 }

// shape is the number of columns of a node, that of its rows, and how far its columns are from each other in L: what is
// beyond the rows is 0, so that all rows and those below are multiples of four.
func (a *Analysis) shape(i int) (m, n, stride int) {
	m, n = a.width(i), len(a.nodes[i].rows)
	return m, n, fours(m + fours(n-m))
}

func (a *Analysis) width(i int) int {
	if i+1 < len(a.nodes) {
		return int(a.nodes[i+1].first - a.nodes[i].first)
	}
	return len(a.order) - int(a.nodes[i].first)
}

// mostZeros is the share of zeros among the entries of a supernode, which make it larger than the
// columns alone would be: products of larger matrices are faster.
const mostZeros = 0.15

// share is the part of the arithmetic, of that of one processor, that a tree has at most that is factorized at once.
const share = 0.125

// supernodes joins columns, finds their rows, and divides the tree. count has the number of entries of each column.
func (a *Analysis) supernodes(count []int64) {
	n := len(count)
	own := make([]int32, n) // of each column: its supernode
	entries := int64(0)
	for k := range n {
		if k > 0 && a.parent[k-1] == int32(k) {
			m := int64(k) - int64(a.nodes[len(a.nodes)-1].first) + 1
			// m columns of count[k] + m - 1, count[k] + m - 2, ... entries.
			whole := m*count[k] + m*(m-1)/2
			if float64(whole-entries-count[k]) <= mostZeros*float64(whole) {
				entries += count[k]
				own[k] = int32(len(a.nodes) - 1)
				continue
			}
		}
		a.nodes = append(a.nodes, supernode{first: int32(k)})
		own[k], entries = int32(len(a.nodes)-1), count[k]
	}
	mark := slices.Repeat([]int32{-1}, n)
	flops := make([]float64, len(a.nodes))
	for i := range a.nodes {
		s := &a.nodes[i]
		end := s.first + int32(a.width(i))
		s.parent = -1
		add := func(row int32) {
			if row >= end && mark[row] != int32(i) {
				mark[row] = int32(i)
				s.rows = append(s.rows, row)
			}
		}
		for k := s.first; k < end; k++ {
			for _, w := range a.index[a.ptr[a.order[k]]:a.ptr[a.order[k]+1]] {
				add(a.place[w])
			}
		}
		for _, c := range s.children {
			for _, row := range a.nodes[c].rows[a.width(int(c)):] {
				add(row)
			}
		}
		slices.Sort(s.rows)
		m := int(end - s.first)
		s.rows = slices.Grow(s.rows, m)
		s.rows = s.rows[:len(s.rows)+m]
		copy(s.rows[m:], s.rows)
		for k := range m {
			s.rows[k] = s.first + int32(k)
		}
		s.at = a.stored
		_, f, stride := a.shape(i)
		a.stored += int64(m) * int64(stride)
		flops[i] += float64(m) * float64(f) * float64(f)
		if len(s.rows) > m {
			p := own[s.rows[m]]
			s.parent = p
			a.nodes[p].children = append(a.nodes[p].children, int32(i))
			flops[p] += flops[i]
		}
	}
	a.divide(flops)
	a.link()
}

// linked is the number of nodes that one processor links at a time.
const linked = 1 << 9

// link finds where values and what children leave belong, and the depths.
func (a *Analysis) link() {
	for i := len(a.nodes) - 1; i >= 0; i-- {
		if s := &a.nodes[i]; s.parent >= 0 {
			s.stack = 1 - a.nodes[s.parent].stack
		}
	}
	fresh := func() []int32 { return make([]int32, len(a.order)) }
	_ = parallel.Each(parallel.Parts(len(a.nodes), linked), fresh, func(part int, local []int32) error {
		for i := part * linked; i < min((part+1)*linked, len(a.nodes)); i++ {
			s := &a.nodes[i]
			m, _, stride := a.shape(i)
			for at, row := range s.rows {
				local[row] = int32(at)
			}
			for _, c := range s.children {
				child := &a.nodes[c]
				child.to = lists.Map(child.rows[a.width(int(c)):], func(row int32) int32 { return local[row] })
			}
			for k := range m {
				col := a.order[int(s.first)+k]
				for u := a.ptr[col]; u < a.ptr[col+1]; u++ {
					if row := a.place[a.index[u]]; row >= s.first+int32(k) {
						s.entries = append(s.entries, entry{int32(u), int32(k*stride) + local[row]})
					}
				}
			}
		}
		return nil
	})
}

// divide chooses the trees that are factorized at the same time: the largest ones that have less than their
// share of the arithmetic. It does not depend on the number of processors.
func (a *Analysis) divide(flops []float64) {
	total := 0.0
	for i, s := range a.nodes {
		if s.parent < 0 {
			total += flops[i]
		}
	}
	a.Flops = total
	within := make([]bool, len(a.nodes)) // a tree that is chosen
	for i := len(a.nodes) - 1; i >= 0; i-- {
		s := &a.nodes[i]
		switch {
		case s.parent >= 0 && within[s.parent]:
			within[i] = true
		case flops[i] <= share*total:
			s.task, within[i] = true, true
			a.tasks = append(a.tasks, int32(i))
		default:
			a.top = append(a.top, int32(i))
		}
	}
	slices.Reverse(a.top)
	a.begin = lists.Make(len(a.tasks), func(t int) int32 { return int32(t) })
	slices.SortStableFunc(a.begin, func(i, j int32) int { return cmp.Compare(flops[a.tasks[j]], flops[a.tasks[i]]) })
	a.topAt = slices.Repeat([]int32{-1}, len(a.order))
	for _, i := range a.top {
		for k := range a.width(int(i)) {
			a.topAt[int(a.nodes[i].first)+k] = int32(a.topColumns)
			a.topColumns++
		}
	}
}

// below is the first node of the tree of node i: they follow each other.
func (a *Analysis) below(i int) int {
	for len(a.nodes[i].children) > 0 {
		i = int(a.nodes[i].children[0])
	}
	return i
}

// Factorize computes L for values at the places of the analysis, by fronts: dense matrices of the columns of a
// supernode and the rows below, to which its children in the elimination tree have added what is left of theirs
// (the multifrontal method: Duff and Reid 1983; Liu 1992). It returns an error where a pivot is not positive.
// The bits do not depend on the number of processors.
func (a *Analysis) Factorize(value []float64) (*Factor, error) {
	f := new(Factor)
	err := a.FactorizeInto(f, value)
	f.fronts, f.left, f.tasks = nil, nil, nil
	return f, err
}

// FactorizeInto is Factorize into the memory of a factor of the same analysis, or of an empty one. After an
// error the factor cannot be used.
func (a *Analysis) FactorizeInto(f *Factor, value []float64) error {
	n := len(a.order)
	if f.segments == nil {
		f.n, f.block, f.order = n, 1, a.order
		f.segments = []segment{{ptr: make([]int64, n+1), rows: make([][]int32, n), value: make([]float64, a.stored),
			area: 1}}
		f.above, f.left, f.tasks = []int{0}, make([][]float64, len(a.nodes)), a.tasks
		a.lay(&f.segments[0])
	}
	var mu sync.Mutex
	used := 0
	fresh := func() *fronts {
		mu.Lock()
		defer mu.Unlock()
		if used++; used > len(f.fronts) {
			f.fronts = append(f.fronts, new(fronts))
		}
		w := f.fronts[used-1]
		w.a, w.l, w.value, w.left, w.high = a, f.segments[0].value, value, f.left, [2]int{}
		return w
	}
	err := parallel.Each(len(a.tasks), fresh, func(t int, w *fronts) (err error) {
		root := int(a.tasks[a.begin[t]])
		for i := a.below(root); i <= root && err == nil; i++ {
			err = w.eliminate(i)
		}
		return err
	})
	w := fresh()
	for k := 0; k < len(a.top) && err == nil; k++ {
		err = w.eliminate(int(a.top[k]))
	}
	return err
}

func (a *Analysis) lay(p *segment) {
	for i := range a.nodes {
		s := &a.nodes[i]
		m, _, stride := a.shape(i)
		for k := range m {
			p.ptr[int(s.first)+k], p.rows[int(s.first)+k] = s.at+int64(k*stride+k), s.rows[k:]
		}
	}
	p.ptr[len(a.order)] = a.stored
}

// fronts is the memory of one goroutine.
type fronts struct {
	a        *Analysis
	l, value []float64
	// What nodes add to their parents: the upper triangles of square matrices. Those in a tree lie on two stacks in
	// turn until the parent is done, because it comes after its children and they after theirs.
	left   [][]float64
	stacks [2][]float64
	high   [2]int
}

func (w *fronts) eliminate(i int) error {
	s := &w.a.nodes[i]
	m, n, stride := w.a.shape(i)
	l := w.l[s.at:][:m*stride]
	clear(l)
	for _, e := range s.entries {
		l[e.to] += w.value[e.from]
	}
	for _, c := range s.children {
		w.add(l, stride, c, 0, m)
	}
	u := w.room(i, n-m)
	bad := -1
	if n <= slowFront || fast && n <= smallFront {
		bad = factorizeSmall(l, u, stride, m, n)
	} else {
		bad = factorizeLarge(l, u, stride, m, n)
	}
	if bad >= 0 {
		return fmt.Errorf("cholesky: pivot %d of %d is not a positive number", int(s.first)+bad, len(w.a.order))
	}
	for _, c := range s.children {
		w.add(u, fours(n-m), c, m, n)
		if child := &w.a.nodes[c]; !child.task {
			w.high[child.stack] -= fours(len(child.to)) * fours(len(child.to))
		}
	}
	return nil
}

// room is memory for what a node adds to its parent, of n rows.
func (w *fronts) room(i, n int) []float64 {
	size := fours(n) * fours(n)
	if w.a.nodes[i].task {
		if w.left[i] == nil {
			w.left[i] = make([]float64, size)
		}
		return w.left[i]
	}
	at := w.a.nodes[i].stack
	stack, high := &w.stacks[at], &w.high[at]
	if *high+size > len(*stack) { // what is on the old one stays there
		*stack = make([]float64, 2*(*high+size))
	}
	w.left[i] = (*stack)[*high:][:size]
	*high += size
	return w.left[i]
}

// add adds what is left of a child in rows lo to hi-1 of the front to x, which has these rows, and columns from lo on.
func (w *fronts) add(x []float64, stride int, c int32, lo, hi int) {
	to, u := w.a.nodes[c].to, w.left[c]
	first, _ := slices.BinarySearch(to, int32(lo))
	end, _ := slices.BinarySearch(to, int32(hi))
	if len(to) <= sharedFront {
		addRows(x, stride, to, u, lo, first, end)
		return
	}
	parallel.Ranges(end-first, rowsAdded, func(from, end int) {
		addRows(x, stride, to, u, lo, first+from, first+end)
	})
}

// addRows adds the rows first to end-1 of what is left of a child.
func addRows(x []float64, stride int, to []int32, u []float64, lo, first, end int) {
	for r := first; r < end; r++ {
		dst := x[(int(to[r])-lo)*stride:][:stride]
		from := u[r*fours(len(to)):][r:len(to)]
		at := to[r:][:len(from)]
		for j, v := range from {
			dst[int(at[j])-lo] += v
		}
	}
}

// Kernels factorize fronts of up to smallFront rows faster than a library does, and loops those of up to slowFront.
const (
	smallFront = 128
	slowFront  = 32
)

// factorizeSmall replaces m rows, of which the first m columns are the upper triangle of a symmetric matrix and the
// others, up to n, are beside it, by those of its Cholesky factor, and sets u to what the product of the others takes
// from the rest, four rows at a time.
func factorizeSmall(l, u []float64, stride, m, n int) int {
	var beyond [smallFront + 8]float64 // for rows that are not there
	for i := 0; i < m; i += 4 {
		var rows [4][]float64
		for r := range rows {
			if rows[r] = beyond[:stride-i]; i+r < m {
				rows[r] = l[(i+r)*stride:][i:stride]
			}
		}
		if i > 0 {
			takeProduct(&rows, l[i:], stride, i, 1)
		}
		var c [10]float64
		own := min(4, m-i)
		if k := factorizeFour(&c, l[i*stride+i:], stride, own); k >= 0 {
			return i + k
		}
		solveFour(&rows, &c)
		// With other rounding errors in the triangle than the rows were solved with those of small pivots would grow.
		for k := range own {
			rows[k][k] = 1 / c[k]
			for r := range k {
				rows[r][k] = c[4+k*(k-1)/2+r]
			}
		}
	}
	below := fours(n - m)
	for i := 0; i < below; i += 4 {
		var rows [4][]float64
		for r := range rows {
			rows[r] = u[(i+r)*below:][i:below]
		}
		takeProduct(&rows, l[m+i:], stride, m, 0)
	}
	return -1
}

// factorizeFour sets c to the inverse diagonal of the factor of a triangle of up to four rows, and to its other entries
// by columns. The rows stay as they are.
func factorizeFour(c *[10]float64, x []float64, stride, m int) int {
	c[0], c[1], c[2], c[3] = 1, 1, 1, 1
	for k := range m {
		at := 4 + k*(k-1)/2 // of column k
		pivot := x[k*stride+k]
		for i := range k {
			v := x[i*stride+k]
			for j := range i {
				v -= c[4+i*(i-1)/2+j] * c[at+j]
			}
			v *= c[i]
			c[at+i] = v
			pivot -= v * v
		}
		if !(pivot > 0) || math.IsInf(pivot, 1) {
			return k
		}
		c[k] = 1 / math.Sqrt(pivot)
	}
	return -1
}

const (
	// sharedFront is the size of fronts that all processors share, in tiles of so many rows and columns.
	sharedFront = 384
	frontTile   = 192
	rowsAdded   = 64 // of a child's front at a time
)

// factorizeLarge is factorizeSmall by a library: of frontTile rows at a time their triangle, the rows beside it, and
// the product that these take from the rows that follow.
func factorizeLarge(l, u []float64, stride, m, n int) int {
	width := m
	if n > sharedFront {
		width = frontTile
	}
	for k := 0; k < m; k += width {
		w := min(width, m-k)
		x := l[k*stride+k:]
		triangle := blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: w, Stride: stride, Data: x}
		_, ok := lapack64.Potrf(blas64.Symmetric{Uplo: blas.Upper, N: w, Stride: stride, Data: x})
		for i := range w {
			if v := x[i*stride+i]; !(v > 0) || math.IsInf(v, 1) {
				return k + i
			}
		}
		if !ok {
			return k
		}
		beside := blas64.General{Rows: w, Cols: n - k - w, Stride: stride, Data: x[w:]}
		parallel.RangesIf(n > sharedFront, beside.Cols, frontTile, func(lo, hi int) {
			blas64.Trsm(blas.Left, blas.Trans, 1, triangle, columnsOf(beside, lo, hi))
		})
		if rest := m - k - w; rest > 0 {
			takeTiles(beside, rest, 1, l[(k+w)*stride+k+w:], stride)
		}
	}
	if n > m {
		takeTiles(blas64.General{Rows: m, Cols: n - m, Stride: stride, Data: l[m:]}, n-m, 0, u, fours(n-m))
	}
	return -1
}

func columnsOf(x blas64.General, lo, hi int) blas64.General {
	return blas64.General{Rows: x.Rows, Cols: hi - lo, Stride: x.Stride, Data: x.Data[lo:]}
}

// takeTiles takes the first rows of x* x from times those of dst, in the upper triangle, a tile at a time.
func takeTiles(x blas64.General, rows int, times float64, dst []float64, stride int) {
	across := parallel.Parts(x.Cols, frontTile)
	parallel.RangesIf(x.Cols > frontTile, parallel.Parts(rows, frontTile)*across, 1, func(t, _ int) {
		i, j := t/across*frontTile, t%across*frontTile
		if j < i {
			return
		}
		left, right := columnsOf(x, i, min(i+frontTile, rows)), columnsOf(x, j, min(j+frontTile, x.Cols))
		to := dst[i*stride+j:]
		if j > i {
			blas64.Gemm(blas.Trans, blas.NoTrans, -1, left, right, times, blas64.General{Rows: left.Cols,
				Cols: right.Cols, Stride: stride, Data: to})
			return
		}
		blas64.Syrk(blas.Trans, -1, left, times, blas64.Symmetric{Uplo: blas.Upper, N: left.Cols, Stride: stride,
			Data: to})
		if more := right.Cols - left.Cols; more > 0 {
			blas64.Gemm(blas.Trans, blas.NoTrans, -1, left, columnsOf(right, left.Cols, right.Cols), times,
				blas64.General{Rows: left.Cols, Cols: more, Stride: stride, Data: to[left.Cols:]})
		}
	})
}
