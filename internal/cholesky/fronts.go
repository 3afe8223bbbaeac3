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
	at       int64 // of its columns in L
	task     bool  // its tree is factorized at once, with others
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
		f := int64(len(s.rows))
		a.stored += int64(m)*f - int64(m)*int64(m-1)/2
		flops[i] += float64(m) * float64(f) * float64(f)
		if len(s.rows) > m {
			p := own[s.rows[m]]
			s.parent = p
			a.nodes[p].children = append(a.nodes[p].children, int32(i))
			flops[p] += flops[i]
		}
	}
	a.divide(flops)
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
	f.fronts = nil
	return f, err
}

// FactorizeInto is Factorize into the memory of a factor of the same analysis, or of an empty one. After an
// error the factor cannot be used.
func (a *Analysis) FactorizeInto(f *Factor, value []float64) error {
	n := len(a.order)
	if f.segments == nil {
		f.n, f.block, f.order = n, 1, a.order
		f.segments = []segment{{ptr: make([]int64, n+1), index: make([]int32, a.stored),
			value: make([]float64, a.stored), area: 1}}
		f.above = []int{0}
		a.lay(&f.segments[0])
	}
	left := make([][]float64, len(a.nodes))
	var mu sync.Mutex
	used := 0
	fresh := func() *fronts {
		mu.Lock()
		defer mu.Unlock()
		if used++; used > len(f.fronts) {
			f.fronts = append(f.fronts, &fronts{local: make([]int32, len(a.order))})
		}
		w := f.fronts[used-1]
		w.a, w.f, w.value, w.left, w.high = a, f, value, left, 0
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
		at := s.at
		for k := range a.width(i) {
			p.ptr[int(s.first)+k] = at
			at += int64(copy(p.index[at:], s.rows[k:]))
		}
	}
	p.ptr[len(a.order)] = a.stored
}

// fronts is the memory of one goroutine.
type fronts struct {
	a     *Analysis
	f     *Factor
	value []float64
	left  [][]float64 // of nodes that are done and whose parents are not: what they add to these
	front []float64
	local []int32 // of rows: their place in the front
	to    []int32
	stack []float64
	high  int
}

func (w *fronts) eliminate(i int) error {
	a, s := w.a, &w.a.nodes[i]
	m, n := a.width(i), len(s.rows)
	if cap(w.front) < n*n {
		w.front = make([]float64, n*n)
	}
	x := w.front[:n*n]
	for r := range n {
		clear(x[r*n : r*n+r+1])
	}
	for at, row := range s.rows {
		w.local[row] = int32(at)
	}
	for k := range m {
		col := a.order[int(s.first)+k]
		for u := a.ptr[col]; u < a.ptr[col+1]; u++ {
			if row := a.place[a.index[u]]; row >= s.first+int32(k) {
				x[int(w.local[row])*n+k] += w.value[u]
			}
		}
	}
	for _, c := range s.children {
		w.add(x, n, int(c))
	}
	if k := factorizeFront(x, n, m); k >= 0 {
		return fmt.Errorf("cholesky: pivot %d of %d is not a positive number", int(s.first)+k, len(a.order))
	}
	to := w.f.segments[0].value[s.at:]
	if n <= smallFront {
		takeColumns(to, x, n, 0, m)
	} else {
		parallel.Ranges(m, columnsTaken, func(lo, hi int) { takeColumns(to, x, n, lo, hi) })
	}
	w.keep(i, x, n, m)
	return nil
}

// columnsTaken is how many columns are copied at a time: the rows of a front are read through a cache's lines.
const columnsTaken = 16

// takeColumns copies the columns lo to hi-1 of the lower triangle of a front of n rows to where all of them follow each
// other.
func takeColumns(to, x []float64, n, lo, hi int) {
	first := lo*n - lo*(lo+1)/2
	for r := lo; r < n; r++ {
		at := first + r
		for k, v := range x[r*n+lo : r*n+min(hi, r+1)] {
			to[at] = v
			at += n - 1 - lo - k
		}
	}
}

// add adds what is left of a child to the front.
func (w *fronts) add(x []float64, n, c int) {
	rows, u := w.a.nodes[c].rows[w.a.width(c):], w.left[c]
	w.to = w.to[:0]
	for _, row := range rows {
		w.to = append(w.to, w.local[row])
	}
	to := w.to
	parallel.RangesIf(len(rows) > sharedFront, len(rows), rowsAdded, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			dst := x[int(to[r])*n:][:n]
			for j, v := range u[r*(r+1)/2:][:r+1] {
				dst[to[j]] += v
			}
		}
	})
	w.left[c] = nil
	if !w.a.nodes[c].task {
		w.high -= len(rows) * (len(rows) + 1) / 2
	}
}

// keep puts what is left of a front, packed by rows, where its parent finds it: on a stack, because the parent
// comes after its children and they after theirs.
func (w *fronts) keep(i int, x []float64, n, m int) {
	size := (n - m) * (n - m + 1) / 2
	if size == 0 {
		return
	}
	var u []float64
	if w.a.nodes[i].task {
		u = make([]float64, size)
	} else {
		if w.high+size > len(w.stack) { // what is on the old one stays there
			w.stack = make([]float64, 2*(w.high+size))
		}
		u = w.stack[w.high : w.high+size]
		w.high += size
	}
	w.left[i] = u
	for r := m; r < n; r++ {
		copy(u, x[r*n+m:r*n+r+1])
		u = u[r-m+1:]
	}
}

// smallFront is the size of fronts that loops factorize faster than a library does.
const smallFront = 32

// factorizeFront replaces the first m columns of the lower triangle of a symmetric matrix of n rows by those of
// its Cholesky factor, and the rest by what is left to factorize. It returns a pivot that is not a positive
// number, else -1.
func factorizeFront(x []float64, n, m int) int {
	if n > smallFront {
		return factorizeDense(x, n, m)
	}
	var column [smallFront]float64
	for k := range m {
		pivot := x[k*n+k]
		if !(pivot > 0) || math.IsInf(pivot, 1) {
			return k
		}
		root := math.Sqrt(pivot)
		x[k*n+k] = root
		for r := k + 1; r < n; r++ {
			v := x[r*n+k] / root
			x[r*n+k], column[r] = v, v
			row := x[r*n+k+1:][:r-k]
			for j, c := range column[k+1 : r+1] {
				row[j] -= v * c
			}
		}
	}
	return -1
}

const (
	// sharedFront is the size of fronts that all processors share, in tiles of so many rows and columns.
	sharedFront = 384
	frontTile   = 192
	rowsAdded   = 64 // of a child's front at a time
)

// factorizeDense takes frontTile columns at a time: their triangle, the rows below it, and the product that these take
// from what is left.
func factorizeDense(x []float64, n, m int) int {
	if n <= sharedFront {
		return factorizePanel(x, n, m, n)
	}
	for k := 0; k < m; k += frontTile {
		w := min(frontTile, m-k)
		if bad := factorizePanel(x[k*n+k:], n, w, w); bad >= 0 {
			return k + bad
		}
		shareBelow(x[k*n+k:], n, w, n-k-w)
	}
	return -1
}

// shareBelow solves for the rest rows below a triangle of w columns, and takes their product from what is left, a tile
// at a time. stride is that of x.
func shareBelow(x []float64, stride, w, rest int) {
	l := blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: w, Stride: stride, Data: x}
	tiles := parallel.Parts(rest, frontTile)
	below := func(i int) blas64.General {
		at := i * frontTile
		return blas64.General{Rows: min(frontTile, rest-at), Cols: w, Stride: stride, Data: x[(w+at)*stride:]}
	}
	parallel.For(tiles, func(i int) { blas64.Trsm(blas.Right, blas.Trans, 1, l, below(i)) })
	parallel.For(tiles*(tiles+1)/2, func(t int) {
		i := 0
		for ; t > i; i++ { // row i of tiles has i + 1
			t -= i + 1
		}
		rows, columns := below(i), below(t)
		left := x[(w+i*frontTile)*stride+w+t*frontTile:]
		if t == i {
			blas64.Syrk(blas.NoTrans, -1, rows, 1, blas64.Symmetric{Uplo: blas.Lower, N: rows.Rows, Stride: stride,
				Data: left})
			return
		}
		blas64.Gemm(blas.NoTrans, blas.Trans, -1, rows, columns, 1, blas64.General{Rows: rows.Rows,
			Cols: columns.Rows, Stride: stride, Data: left})
	})
}

// factorizePanel is factorizeFront of n rows of a matrix with a stride.
func factorizePanel(x []float64, stride, m, n int) int {
	l := blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: m, Stride: stride, Data: x}
	_, ok := lapack64.Potrf(blas64.Symmetric{Uplo: blas.Lower, N: m, Stride: stride, Data: x})
	for k := range m {
		if v := x[k*stride+k]; !(v > 0) || math.IsInf(v, 1) {
			return k
		}
	}
	if !ok {
		return 0
	}
	if n > m {
		below := blas64.General{Rows: n - m, Cols: m, Stride: stride, Data: x[m*stride:]}
		blas64.Trsm(blas.Right, blas.Trans, 1, l, below)
		blas64.Syrk(blas.NoTrans, -1, below, 1, blas64.Symmetric{Uplo: blas.Lower, N: n - m, Stride: stride,
			Data: x[m*stride+m:]})
	}
	return -1
}
