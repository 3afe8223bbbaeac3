package product

import "surepipe/array"

// Known is a vector z with its product A* z.
type Known struct{ Z, Product []float64 }

// Recall sets the one vector of dst to A* z where z is that of k, or minus it; else it returns false.
func (k Known) Recall(dst array.Batch, z []float64) bool {
	same, opposite := true, true
	for i, x := range z {
		if same, opposite = same && x == k.Z[i], opposite && x == -k.Z[i]; !same && !opposite {
			return false
		}
	}
	dst.Device().Upload(dst, k.Product)
	if !same {
		dst.Device().Lin(dst, -1, dst, 0, array.Batch{})
	}
	return true
}
