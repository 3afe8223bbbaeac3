package array

import (
	"runtime"
	"sync"
	"weak"
)

// Fixed are vectors that do not change while others ask for numbers that follow from them, such as their products with
// the columns of an operator at every point of a path ([Kept]): each is computed once.
type Fixed struct {
	Batch
	mu    sync.Mutex
	known map[any][]float64
}

// Kept are the numbers that follow from fixed vectors and from something else, computed where they are not known. They
// must not be changed, and are forgotten with what they belong to, which is not kept.
func Kept[T any](f *Fixed, of *T, compute func() []float64) []float64 {
	return kept(f, of, weak.Make(of), compute)
}

func kept[T any](f *Fixed, of *T, name any, compute func() []float64) []float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	numbers, ok := f.known[name]
	if !ok {
		if f.known == nil {
			f.known = map[any][]float64{}
		}
		numbers = compute()
		f.known[name] = numbers
		runtime.AddCleanup(of, f.forget, name)
	}
	return numbers
}

func (f *Fixed) forget(name any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, name)
}

// Mapped are fixed vectors v_i with linear maps S_i of vectors of their length to Size numbers. The sum of S_i M v_i
// needs no more of M = X C than the products of v_i with the columns of X, and S_i X.
type Mapped struct {
	Fixed
	Size int
	// Add adds to sums, K x Size x m, what some rows of a matrix of m columns, from the first on, have in all S_i X. It
	// is nil where S_i X are no smaller than X.
	Add func(sums []float64, first, m int, rows []float64)
	// Sum is the sum of S_i x_i for K vectors of their length.
	Sum func(x Batch) []float64
}

// maps is the name of the maps of what has the name of.
type maps struct{ of any }

// Maps are S_i X for an X, as [Kept] has them.
func Maps[T any](m *Mapped, of *T, compute func() []float64) []float64 {
	return kept(&m.Fixed, of, maps{weak.Make(of)}, compute)
}
