// Package sublist has lists of the rows or columns of a matrix that something is known for: increasing numbers,
// where nil stands for all.
package sublist

import (
	"slices"
)

// Of is the list, or nil where it is of all n lines.
func Of(list []int, n int) []int {
	if len(list) == n {
		return nil
	}
	return list
}

// At is the place of a line in a list; false where it is not listed.
func At(list []int, line int) (int, bool) {
	if list == nil {
		return line, true
	}
	return slices.BinarySearch(list, line)
}

func Line(list []int, place int) int {
	if list == nil {
		return place
	}
	return list[place]
}

// Value is the value of a line, where there is one for each that is listed; 0 for the others, and where there are no
// values.
func Value(values []float64, list []int, line int) float64 {
	at, listed := At(list, line)
	if values == nil || !listed {
		return 0
	}
	return values[at]
}

// Number lists the different elements of a list of numbers below n, in increasing order, and replaces each
// by its place there.
func Number(list []int, n int) (different []int) {
	const few = 4 // a table of n places is shorter than a sorted copy takes time
	if n > few*len(list) {
		different = slices.Compact(slices.Sorted(slices.Values(list)))
		for e, v := range list {
			list[e], _ = slices.BinarySearch(different, v)
		}
		return different
	}
	at := make([]int, n)
	for _, v := range list {
		at[v] = 1
	}
	for v, seen := range at {
		if seen > 0 {
			at[v] = len(different)
			different = append(different, v)
		}
	}
	for e, v := range list {
		list[e] = at[v]
	}
	return different
}
