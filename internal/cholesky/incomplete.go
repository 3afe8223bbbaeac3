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

// incomplete is the factor with the diagonal multiplied; nil where it grows too much.
func (a *Analysis) incomplete(value []float64, drop, times float64) *Factor {
	n := len(a.order)
	usual := usualEntries * len(a.index)
	f := &Factor{n: n, order: a.order, ptr: make([]int64, 1, n+1), index: make([]int32, 0, usual),
		value: make([]float64, 0, usual)}
	root := a.roots(value, times)
	squares := make([]float64, n) // of the rows, relative to the diagonal
	// Columns whose next row to be eliminated is k are a list: first[k], after[first[k]], ...
	first, after, next := make([]int32, n), make([]int32, n), make([]int64, n)
	for k := range first {
		first[k] = -1
	}
	x, at := make([]float64, n), make([]int32, 0, 64) // a column, and where it is not 0
	for k := range n {
		col := a.order[k]
		at = at[:0]
		add := func(i int32, v float64) {
			if x[i] == 0 {
				at = append(at, i)
			}
			if x[i] += v; x[i] == 0 {
				x[i] = math.SmallestNonzeroFloat64 // it is on the list
			}
		}
		pivot := 0.0
		for u := a.ptr[col]; u < a.ptr[col+1]; u++ {
			switch i := a.place[a.index[u]]; {
			case int(i) > k:
				add(i, value[u])
			case int(i) == k:
				pivot += times * value[u]
			}
		}
		for j := first[k]; j >= 0; {
			following := after[j]
			lo, hi := next[j], f.ptr[j+1]
			l := f.value[lo]
			pivot -= l * l
			for u := lo + 1; u < hi; u++ {
				add(f.index[u], -l*f.value[u])
			}
			if next[j] = lo + 1; lo+1 < hi {
				row := f.index[lo+1]
				after[j], first[row] = first[row], j
			}
			j = following
		}
		if !(pivot > leastPivot*root[k]*root[k]) {
			pivot = root[k] * root[k]
		}
		l := math.Sqrt(pivot)
		f.index, f.value = append(f.index, int32(k)), append(f.value, l)
		from, kept := len(f.index), at[:0]
		for _, i := range at {
			if math.Abs(x[i]) >= drop*root[k]*root[i] {
				kept = append(kept, i)
			} else {
				x[i] = 0
			}
		}
		slices.Sort(kept)
		for _, i := range kept {
			v := x[i] / l
			x[i] = 0
			f.index, f.value = append(f.index, i), append(f.value, v)
			if squares[i] += v / root[i] * (v / root[i]); !(squares[i] <= mostGrowth) {
				return nil
			}
		}
		f.ptr = append(f.ptr, int64(len(f.index)))
		if next[k] = int64(from); from < len(f.index) {
			row := f.index[from]
			after[k], first[row] = first[row], int32(k)
		}
	}
	return f
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

// usualEntries is the number of entries, relative to those of S, for which memory is taken at first: slices that
// grow are copied, and take twice as much. What is not used is never touched.
const usualEntries = 2

// leastPivot is the size of a pivot relative to the diagonal entry below which it counts as lost.
const leastPivot = 1e-8
