package vector

import (
	"surepipe/array"
	"surepipe/space"
)

// Clusters are the vectors of R^n that are constant up to sign on the sets; empty sets are ignored.
// Sets of one coordinate each, in increasing order, give a set of coordinates.
func Clusters(dev array.Device, n int, sets [][]int, sign []float64) space.Space {
	indptr, indices, increasing := []int{0}, []int{}, true
	for _, set := range sets {
		if len(set) == 0 {
			continue
		}
		increasing = increasing && (len(indices) == 0 || indices[len(indices)-1] < set[0])
		indices = append(indices, set...)
		indptr = append(indptr, len(indices))
	}
	if increasing && len(indices) == len(indptr)-1 {
		return space.Coordinates(dev, n, indices)
	}
	return space.Clusters(dev, n, indptr, indices, sign)
}
