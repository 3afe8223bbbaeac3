package array

import "sync"

// Fixed are vectors that do not change while others ask for numbers that follow from them, such as their products with
// the columns of an operator at every point of a path: each is computed once.
type Fixed struct {
	Batch
	mu    sync.Mutex
	known map[any][]float64
}

// Kept are the numbers of the name, computed where they are not known. They must not be changed.
func (f *Fixed) Kept(name any, compute func() []float64) []float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	numbers, ok := f.known[name]
	if !ok {
		if f.known == nil {
			f.known = map[any][]float64{}
		}
		numbers = compute()
		f.known[name] = numbers
	}
	return numbers
}
