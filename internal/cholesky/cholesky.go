package cholesky

import (
	"slices"
	"sync"

	"surepipe/internal/parallel"
)

// Factor is L, by columns with the diagonal first, and the order of the rows. It may have zeros. Its entries are square
// blocks, row by row, whose size divides n.
type Factor struct {
	n        int
	block    int
	order    []int32 // the row of S at each place
	segments []segment
	trees    []tree    // of incomplete factors
	above    []int     // the segments above the trees
	extra    int       // rows of blocks of the trees' borders
	fronts   []*fronts // the memory of factorizations into it
	left     [][]float64
	tasks    []int32 // the nodes whose part of left is memory of its own
	works    works
}

// works are the memory of solves that are not under way.
type works struct {
	mu   sync.Mutex
	free [][]float64
}

func (w *works) take(size int) []float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := len(w.free) - 1; last >= 0 {
		x := w.free[last]
		if w.free = w.free[:last]; cap(x) >= size {
			return x[:size]
		}
	}
	return make([]float64, size)
}

func (w *works) put(x []float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = append(w.free, x)
}

func (w *works) bytes() (bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.free {
		bytes += 8 * int64(cap(x))
	}
	return bytes
}

// segment is consecutive columns of blocks of a factor.
type segment struct {
	first int     // of its columns
	ptr   []int64 // one more than it has columns
	index []int32
	rows  [][]int32 // in the place of index, of complete factors: those of a supernode's columns are shared
	value []float64
	short []float32 // in the place of value, where entries are numbers of 4 bytes
	area  int64     // of a block
}

// column is one of all columns.
func (p *segment) column(k int) (index []int32, value []float64) {
	lo, hi := p.ptr[k-p.first], p.ptr[k-p.first+1]
	if p.rows != nil {
		index = p.rows[k-p.first]
		return index, p.value[lo:][:len(index)]
	}
	return p.index[lo:hi], p.value[lo*p.area : hi*p.area]
}

// end is that of its columns.
func (p *segment) end() int { return p.first + len(p.ptr) - 1 }

// Analysis is the order of the rows, the elimination tree, whose nodes come after their children, and the
// places of the factor of a symmetric matrix with the given places, by columns; both triangles and the diagonal
// are there.
type Analysis struct {
	order, place []int32
	block        int // the size of blocks in the order: nodes with the same neighbours
	parent       []int32
	ptr          []int64
	index        []int32
	nodes        []supernode
	tasks        []int32 // the nodes whose trees are factorized at the same time, in order
	begin        []int32 // numbers of tasks, the smallest ones last, so that processors end at about the same time
	top          []int32 // the other nodes
	topAt        []int32 // of a column: its number among those of the other nodes; -1 for none
	topColumns   int
	// Nonzeros is the number of entries of L, or one beyond the most that were asked for, and Flops about that of the
	// operations that it takes.
	Nonzeros int64
	Flops    float64
	stored   int64 // with the zeros in supernodes
}

// Analyze finds the order and the size of the factor. It keeps the slices. Where the factor has more than most entries
// only the order is found, which incomplete factors take.
func Analyze(ptr []int64, index []int32, most int64) *Analysis {
	n := len(ptr) - 1
	a := ordered(orderNodes, ptr, index)
	count := make([]int64, n)
	mark := slices.Repeat([]int32{-1}, n)
	for k := range n {
		mark[k] = int32(k)
		count[k]++
		a.Nonzeros++
		for _, w := range index[ptr[a.order[k]]:ptr[a.order[k]+1]] {
			for i := a.place[w]; int(i) < k && mark[i] != int32(k); i = a.parent[i] {
				mark[i] = int32(k)
				count[i]++
				a.Nonzeros++
			}
		}
		if a.Nonzeros > most {
			return a
		}
	}
	a.supernodes(count)
	return a
}

// InOrder is an analysis for incomplete factors alone, in a third of the time: ranges of the rows stay in their
// order, which is to have neighbours near each other, as the pixels of an image have. Nonzeros is 0. Of an image these
// factors have fewer entries than in the order of Analyze.
func InOrder(ptr []int64, index []int32) *Analysis { return ordered(inRanges, ptr, index) }

func ordered(nodes by, ptr []int64, index []int32) *Analysis {
	n := len(ptr) - 1
	a := &Analysis{place: make([]int32, n), parent: make([]int32, n), ptr: ptr, index: index}
	a.order, a.block = orderBy(nodes, ptr, index)
	a.tree()
	a.childrenFirst()
	return a
}

// tree finds the places of the rows and the elimination tree.
func (a *Analysis) tree() {
	n, b := len(a.order), a.block
	for i, v := range a.order {
		a.place[v] = int32(i)
	}
	// The tree of the blocks, by their last nodes: a block's first node tells its neighbours.
	ancestor := make([]int32, n)
	for k := b - 1; k < n; k += b {
		a.parent[k], ancestor[k] = -1, -1
		for i := k - b + 1; i < k; i++ {
			a.parent[i] = int32(i) + 1
		}
		first := a.order[k-b+1]
		for _, w := range a.index[a.ptr[first]:a.ptr[first+1]] {
			i := int(a.place[w])
			if (i+1)%b != 0 {
				continue
			}
			for i != -1 && i < k {
				next := ancestor[i]
				ancestor[i] = int32(k)
				if next == -1 {
					a.parent[i] = int32(k - b + 1)
				}
				i = int(next)
			}
		}
	}
}

// childrenFirst changes the order so that a node of the tree comes right after the trees of its children.
// The factor has the same entries, and the tree the same edges. Blocks stay together: each of their nodes but the first
// has one child, the one before.
func (a *Analysis) childrenFirst() {
	n := len(a.order)
	size := make([]int32, n) // of the tree below a node
	for k := range n {
		size[k]++
		if p := a.parent[k]; p >= 0 {
			size[p] += size[k]
		}
	}
	first := make([]int32, n) // the place of the first node of its tree that is not taken yet
	order, parent := make([]int32, n), make([]int32, n)
	taken := int32(0)
	for k := n - 1; k >= 0; k-- { // parents before their children
		end, above := int32(n)-taken, int32(-1)
		if p := a.parent[k]; p >= 0 {
			end, above = first[p], a.place[a.order[p]]
			first[p] -= size[k]
		} else {
			taken += size[k]
		}
		order[end-1], parent[end-1] = a.order[k], above
		first[k], a.place[a.order[k]] = end-1, end-1
	}
	a.order, a.parent = order, parent
}

func (f *Factor) Bytes() int64 {
	bytes := 4*int64(f.n) + f.works.bytes()
	for _, w := range f.fronts {
		bytes += 8 * int64(cap(w.stacks[0])+cap(w.stacks[1]))
	}
	for _, t := range f.tasks {
		bytes += 8 * int64(len(f.left[t]))
	}
	for _, p := range f.segments {
		bytes += 8*int64(len(p.ptr)+3*len(p.rows)) + 8*int64(len(p.value)) + 4*int64(len(p.short)+len(p.index))
	}
	return bytes
}

// together is the number of right-hand sides that are solved at a time: the factor is read once for
// all of them.
const together = 4

// some solves for up to together right-hand sides, whose entries lie next to each other.
func (f *Factor) some(dst, src [][]float64, shared bool) {
	k := len(src)
	x := f.works.take((f.n + f.extra*f.block) * together)
	defer f.works.put(x)
	parallel.RangesIf(shared, f.n, parallel.Share, func(lo, hi int) {
		for i, row := range f.order[lo:hi] {
			to := x[(lo+i)*together:][:together]
			for j := range together {
				to[j] = 0
				if j < k {
					to[j] = src[j][row]
				}
			}
		}
	})
	f.both(x, shared)
	parallel.RangesIf(shared, f.n, parallel.Share, func(lo, hi int) {
		for i, row := range f.order[lo:hi] {
			for j := range k {
				dst[j][row] = x[(lo+i)*together+j]
			}
		}
	})
}

func less(v []float64, p, q int, l float64) {
	to, from := (*[together]float64)(v[p*together:]), (*[together]float64)(v[q*together:])
	for j := range to {
		to[j] -= l * from[j]
	}
}

func over(v []float64, p int, l float64) {
	to, inverse := (*[together]float64)(v[p*together:]), 1/l
	for j := range to {
		to[j] *= inverse
	}
}

// LeastPivot is the least of the squares of a complete L's diagonal entries, relative to those of S, which are
// given: below some eps a pivot is made of rounding errors.
func (f *Factor) LeastPivot(diagonal []float64) float64 {
	least := 1.0
	for k, row := range f.order {
		_, l := f.segments[0].column(k)
		least = min(least, l[0]/diagonal[row]*l[0])
	}
	return least
}
