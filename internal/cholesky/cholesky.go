package cholesky

import (
	"fmt"
	"math"
	"runtime"
	"sync"
)

// Factor is L, by columns with the diagonal first, and the order of the rows.
type Factor struct {
	n     int
	order []int32 // the row of S at each place
	ptr   []int64
	index []int32
	value []float64
}

// Analysis is the order of the rows, the elimination tree and the column counts of the factor of a
// symmetric matrix with the given places, by columns; both triangles and the diagonal are there.
type Analysis struct {
	order, place []int32
	parent       []int32
	count        []int64
	ptr          []int64
	index        []int32
	// Nonzeros is the number of entries of L.
	Nonzeros int64
}

// Analyze finds the order and the size of the factor. It keeps the slices.
func Analyze(ptr []int64, index []int32) *Analysis {
	n := len(ptr) - 1
	a := &Analysis{order: Order(ptr, index), place: make([]int32, n), parent: make([]int32, n), count: make([]int64, n), ptr: ptr, index: index}
	for i, v := range a.order {
		a.place[v] = int32(i)
	}
	ancestor := make([]int32, n)
	for k := range n {
		a.parent[k], ancestor[k] = -1, -1
		for _, w := range index[ptr[a.order[k]]:ptr[a.order[k]+1]] {
			for i := a.place[w]; i != -1 && int(i) < k; {
				next := ancestor[i]
				ancestor[i] = int32(k)
				if next == -1 {
					a.parent[i] = int32(k)
				}
				i = next
			}
		}
	}
	mark := make([]int32, n)
	for k := range mark {
		mark[k] = -1
	}
	for k := range n {
		mark[k] = int32(k)
		a.count[k]++
		for _, w := range index[ptr[a.order[k]]:ptr[a.order[k]+1]] {
			for i := a.place[w]; int(i) < k && mark[i] != int32(k); i = a.parent[i] {
				mark[i] = int32(k)
				a.count[i]++
			}
		}
	}
	for _, c := range a.count {
		a.Nonzeros += c
	}
	return a
}

// Factorize computes L for values at the places of the analysis. It returns an error where a pivot is
// not positive.
func (a *Analysis) Factorize(value []float64) (*Factor, error) {
	n := len(a.order)
	f := &Factor{n: n, order: a.order, ptr: make([]int64, n+1), index: make([]int32, a.Nonzeros), value: make([]float64, a.Nonzeros)}
	for k, c := range a.count {
		f.ptr[k+1] = f.ptr[k] + c
	}
	next := make([]int64, n)
	copy(next, f.ptr)
	mark, stack, path := make([]int32, n), make([]int32, n), make([]int32, n)
	for k := range mark {
		mark[k] = -1
	}
	x := make([]float64, n)
	for k := range n {
		// The places of row k in topological order.
		top, col := n, a.order[k]
		mark[k] = int32(k)
		diagonal := 0.0
		for u := a.ptr[col]; u < a.ptr[col+1]; u++ {
			i := a.place[a.index[u]]
			if int(i) > k {
				continue
			}
			if int(i) == k {
				diagonal += value[u]
				continue
			}
			x[i] += value[u]
			depth := 0
			for ; mark[i] != int32(k); i = a.parent[i] {
				path[depth] = i
				depth++
				mark[i] = int32(k)
			}
			for depth > 0 {
				depth--
				top--
				stack[top] = path[depth]
			}
		}
		for ; top < n; top++ {
			i := stack[top]
			lo, hi := f.ptr[i], next[i]
			l := x[i] / f.value[lo]
			x[i] = 0
			rows, values := f.index[lo+1:hi], f.value[lo+1:hi]
			values = values[:len(rows)]
			for p, row := range rows {
				x[row] -= values[p] * l
			}
			diagonal -= l * l
			f.index[hi], f.value[hi] = int32(k), l
			next[i]++
		}
		if !(diagonal > 0) || math.IsInf(diagonal, 1) {
			return nil, fmt.Errorf("cholesky: pivot %d of %d is %g, want a positive number", k, n, diagonal)
		}
		at := next[k]
		f.index[at], f.value[at] = int32(k), math.Sqrt(diagonal)
		next[k]++
	}
	return f, nil
}

// Bytes is the memory of the factor.
func (f *Factor) Bytes() int64 { return 12*int64(len(f.index)) + 12*int64(f.n) }

// together is the number of right-hand sides that are solved at a time: the factor is read once for
// all of them.
const together = 8

// works are the memory of solves.
var works = sync.Pool{New: func() any { return new([]float64) }}

// Solve sets dst[i] = S^{-1} src[i] for every i, on all processors. dst[i] may be src[i].
func (f *Factor) Solve(dst, src [][]float64) {
	k := len(src)
	blocks := (k + together - 1) / together
	// Fewer at a time, where processors would be idle.
	procs := runtime.GOMAXPROCS(0)
	if k >= procs && blocks%procs != 0 {
		blocks = (blocks/procs + 1) * procs
	}
	var wait sync.WaitGroup
	turn := make(chan struct{}, procs)
	for b := range blocks {
		lo, hi := b*k/blocks, (b+1)*k/blocks
		if lo == hi {
			continue
		}
		turn <- struct{}{}
		wait.Add(1)
		go func() {
			f.some(dst[lo:hi], src[lo:hi])
			<-turn
			wait.Done()
		}()
	}
	wait.Wait()
}

// some solves for up to together right-hand sides, whose entries lie next to each other.
func (f *Factor) some(dst, src [][]float64) {
	k := len(src)
	work := works.Get().(*[]float64)
	if cap(*work) < f.n*together {
		*work = make([]float64, f.n*together)
	}
	x := (*work)[:f.n*together]
	for i, row := range f.order {
		to := x[i*together:][:together]
		for j := range together {
			to[j] = 0
			if j < k {
				to[j] = src[j][row]
			}
		}
	}
	f.both(x)
	for i, row := range f.order {
		for j := range k {
			dst[j][row] = x[i*together+j]
		}
	}
	works.Put(work)
}

// both solves with L and with L*, for all lanes: the bits of a solution do not depend on what the other
// lanes hold.
func (f *Factor) both(x []float64) {
	for i := range f.n {
		lo, hi := f.ptr[i], f.ptr[i+1]
		v := (*[together]float64)(x[i*together:])
		inverse := 1 / f.value[lo]
		for j := range v {
			v[j] *= inverse
		}
		scatter(x, f.index[lo+1:hi], f.value[lo+1:hi], v)
	}
	for i := f.n - 1; i >= 0; i-- {
		lo, hi := f.ptr[i], f.ptr[i+1]
		v := (*[together]float64)(x[i*together:])
		gather(x, f.index[lo+1:hi], f.value[lo+1:hi], v)
		inverse := 1 / f.value[lo]
		for j := range v {
			v[j] *= inverse
		}
	}
}
