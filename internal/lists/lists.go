// Package lists makes lists from others. None of its results shares memory with an argument.
package lists

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
