package cholesky

import (
	"runtime"
	"slices"

	"surepipe/internal/lists"
	"surepipe/internal/parallel"
)

// tree is some consecutive segments of a factor, which have no entries in the rows of other trees: solves with several
// take place at the same time. What a tree has in the rows of columns above all trees, its border, it has in places of
// its own, after those of all rows, from extra on.
type tree struct {
	from, to int // the segments
	border   []int32
	extra    int
}

// plant makes the trees and the segments above them those of the factor, changes the rows of entries to their places,
// and the entries to numbers of 4 bytes, which are accurate far beyond what was left out.
func (w *incompletion) plant(trees []stretch) {
	f, n := w.f, len(w.of)
	parallel.For(len(f.segments), func(s int) {
		p := &f.segments[s]
		p.short, p.value = lists.Map(p.value, func(v float64) float32 { return float32(v) }), nil
	})
	place := make([]int32, w.tops) // of a row above all trees, in the tree at hand
	f.extra = 0
	for i, r := range trees {
		t := tree{from: int(w.of[r.lo]), to: int(w.of[r.hi-1]) + 1, extra: n + f.extra}
		for _, j := range w.beyond[i] {
			p := &f.segments[w.of[j]]
			index := p.index[p.ptr[int(j)-p.first]:p.ptr[int(j)+1-p.first]]
			for u, i := range index {
				if int(i) < r.hi {
					continue
				}
				at := &place[w.top[i]]
				if old := int(*at) - 1; old < 0 || old >= len(t.border) || t.border[old] != i {
					t.border = append(t.border, i)
					*at = int32(len(t.border))
				}
				index[u] = int32(t.extra) + *at - 1
			}
		}
		f.extra += len(t.border)
		f.trees = append(f.trees, t)
	}
	next := 0
	for _, t := range append(f.trees, tree{from: len(f.segments)}) {
		for ; next < t.from; next++ {
			f.above = append(f.above, next)
		}
		next = t.to
	}
}

// both solves with L and with L*, for all lanes: the bits of a solution depend neither on what the other lanes hold nor
// on the number of processors, which share the trees where shared is set.
func (f *Factor) both(x []float64, shared bool) {
	wide := f.block * together
	each := func(solve func(t *tree)) {
		if shared {
			parallel.For(len(f.trees), func(i int) { solve(&f.trees[i]) })
			return
		}
		for i := range f.trees {
			solve(&f.trees[i])
		}
	}
	each(func(t *tree) {
		clear(x[t.extra*wide:][:len(t.border)*wide])
		for s := t.from; s < t.to; s++ {
			f.segments[s].forward(x, f.block)
		}
	})
	for _, t := range f.trees {
		for u, i := range t.border {
			to, from := x[int(i)*wide:][:wide], x[(t.extra+u)*wide:][:wide]
			for j, v := range from {
				to[j] += v
			}
		}
	}
	for _, s := range f.above {
		f.segments[s].forward(x, f.block)
	}
	for k := len(f.above) - 1; k >= 0; k-- {
		f.segments[f.above[k]].backward(x, f.block)
	}
	each(func(t *tree) {
		for u, i := range t.border {
			copy(x[(t.extra+u)*wide:][:wide], x[int(i)*wide:][:wide])
		}
		for s := t.to - 1; s >= t.from; s-- {
			f.segments[s].backward(x, f.block)
		}
	})
}

// numbers is a column in double precision, in the memory of room where it is not.
func (p *segment) numbers(k int, room []float64) (index []int32, l, grown []float64) {
	if p.short == nil {
		index, l = p.column(k)
		return index, l, room
	}
	lo, hi := p.ptr[k-p.first], p.ptr[k-p.first+1]
	short := p.short[lo*p.area : hi*p.area]
	room = slices.Grow(room[:0], len(short))[:len(short)]
	widen(room, short)
	return p.index[lo:hi], room, room
}

// forward solves with the columns of a segment, in order, and backward with its rows of L*.
func (p *segment) forward(x []float64, b int) {
	wide := b * together
	var room []float64
	for i := p.first; i < p.end(); i++ {
		var index []int32
		var l []float64
		index, l, room = p.numbers(i, room)
		v := x[i*wide:][:wide]
		for r := range b {
			for q := range r {
				less(v, r, q, l[r*b+q])
			}
			over(v, r, l[r*b+r])
		}
		scatter(x, index[1:], l[b*b:], v, b)
	}
}

func (p *segment) backward(x []float64, b int) {
	wide := b * together
	var room []float64
	for i := p.end() - 1; i >= p.first; i-- {
		var index []int32
		var l []float64
		index, l, room = p.numbers(i, room)
		v := x[i*wide:][:wide]
		gather(x, index[1:], l[b*b:], v, b)
		for r := b - 1; r >= 0; r-- {
			for q := r + 1; q < b; q++ {
				less(v, r, q, l[q*b+r])
			}
			over(v, r, l[r*b+r])
		}
	}
}

// Solve sets dst[i] = S^{-1} src[i] for every i, on all processors. dst[i] may be src[i].
func (f *Factor) Solve(dst, src [][]float64) {
	k, procs := len(src), runtime.GOMAXPROCS(0)
	blocks := parallel.Parts(k, together)
	each := func(b int) {
		if lo, hi := b*k/blocks, (b+1)*k/blocks; lo < hi {
			f.some(dst[lo:hi], src[lo:hi], blocks < procs)
		}
	}
	if len(f.trees) > 0 && blocks < procs {
		for b := range blocks {
			each(b)
		}
		return
	}
	// Fewer at a time, where processors would be idle.
	if len(f.trees) == 0 && k >= procs && blocks%procs != 0 {
		blocks = (blocks/procs + 1) * procs
	}
	parallel.For(blocks, each)
}
