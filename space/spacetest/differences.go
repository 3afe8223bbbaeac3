package spacetest

import "surepipe/space"

// Differences are those of n numbers, taken order times.
func Differences(n, order int) space.Rows {
	row := []float64{1}
	for range order {
		next := make([]float64, len(row)+1)
		for i, v := range row {
			next[i] -= v
			next[i+1] += v
		}
		row = next
	}
	k := space.Rows{Indptr: []int{0}}
	for i := range n - order {
		for j, v := range row {
			k.Indices, k.Values = append(k.Indices, i+j), append(k.Values, v)
		}
		k.Indptr = append(k.Indptr, len(k.Indices))
	}
	return k
}
