// Package lists makes lists from others, and numbers from lists. But for [Resize], no result shares memory with an
// argument.
package lists

import (
	"math"
	"math/bits"
	"slices"
)

// Map is f of each value.
func Map[T, U any](of []T, f func(T) U) []U {
	all := make([]U, len(of))
	for i, v := range of {
		all[i] = f(v)
	}
	return all
}

// Make is f of the numbers 0 to n-1.
func Make[U any](n int, f func(i int) U) []U {
	all := make([]U, n)
	for i := range all {
		all[i] = f(i)
	}
	return all
}

// Find is the first value that is what is looked for; ok is false where there is none.
func Find[T any](of []T, is func(T) bool) (found T, ok bool) {
	for _, v := range of {
		if is(v) {
			return v, true
		}
	}
	return found, false
}

// Places lists those of the numbers 0 to n-1 at which something is; nil where there are none.
func Places(n int, is func(i int) bool) (places []int) {
	for i := range n {
		if is(i) {
			places = append(places, i)
		}
	}
	return places
}

// Upto lists the numbers 0 to n-1.
func Upto(n int) []int { return Make(n, func(i int) int { return i }) }

// Pick lists the values at some places, in their order; nil where there are no values.
func Pick[T any](values []T, places []int) []T {
	if values == nil {
		return nil
	}
	some := make([]T, len(places))
	for k, at := range places {
		some[k] = values[at]
	}
	return some
}

// Resize is x with room for n values, in its own memory where that is large enough. What the values are is not defined.
func Resize[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}

// Product is that of the numbers, 1 of none: of the lengths of axes it is the number of an array's entries.
func Product(of []int) int {
	n := 1
	for _, k := range of {
		n *= k
	}
	return n
}

// MaxAbs is the largest absolute value, 0 of none; NaN where there is one.
func MaxAbs(x []float64) float64 {
	most := 0.0
	for _, v := range x {
		most = max(most, math.Abs(v))
	}
	return most
}

// Smallest is values[k] as if they were sorted, in time proportional to their number. It changes their order. None is
// NaN.
func Smallest(values []float64, k int) float64 {
	for rounds := 2 * bits.Len(uint(len(values))); len(values) > fewSorted; rounds-- {
		if rounds == 0 {
			break
		}
		a, b, c := values[0], values[len(values)/2], values[len(values)-1]
		pivot := max(min(a, b), min(max(a, b), c))
		less, more := 0, len(values) // below less they are less than the pivot, from more on they are more
		for i := 0; i < more; {
			switch v := values[i]; {
			case v < pivot:
				values[i], values[less] = values[less], v
				less, i = less+1, i+1
			case v > pivot:
				more--
				values[i], values[more] = values[more], v
			default:
				i++
			}
		}
		switch {
		case k < less:
			values = values[:less]
		case k < more:
			return pivot
		default:
			values, k = values[more:], k-more
		}
	}
	slices.Sort(values)
	return values[k]
}

// fewSorted is the number of values up to which sorting them is as fast.
const fewSorted = 16
