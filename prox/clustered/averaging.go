package clustered

import (
	"slices"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/space"
)

// averaging returns the derivative at the one vector v that replaces every block of coordinates by its
// mean, up to signs: with s_j in {-1, 1},
//
//	(J z)_j = s_j/|B| sum_{k in B} s_k z_k   for the block B of j, 0 outside the blocks,
//
// the orthogonal projection on the vectors that are constant up to sign on the blocks, whose trace is their
// number. The blocks are order[0:ends[0]], order[ends[0]:ends[1]], ...; a nil order is 0, 1, 2, ..., and nil
// signs are 1.
func averaging(v array.Batch, ends, order []int, sign []float64, margin func(v array.Batch) float64) prox.Derivative {
	dev, n := v.Device(), v.N()
	indptr := append(make([]int, 1, len(ends)+1), ends...)
	inside := indptr[len(ends)]
	if order == nil {
		order = make([]int, n)
		for j := range order {
			order[j] = j
		}
	}
	if len(ends) == inside { // single coordinates
		set := slices.Clone(order[:inside])
		slices.Sort(set)
		return prox.NewProjection(dev, space.Coordinates(dev, n, set), margin)
	}
	return prox.NewProjection(dev, space.Clusters(dev, n, indptr, order[:inside], sign), margin)
}
