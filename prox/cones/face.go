package cones

import (
	"surepipe/array"
	"surepipe/internal/numerics"
	"surepipe/prox"
	"surepipe/space"
)

// face returns the derivative, at the one vector v, of the projection b onto a set with flat faces that have
// one constraint <s, b> = const each, on the coordinates that are not 0: with s = sign(b) and m = ||s||_1,
//
//	J z = s ∘ s ∘ z - s <s, z>/m,
//
// the orthogonal projection on the face's tangent space, of dimension m - 1.
func face(v array.Batch, b []float64, margin func(v array.Batch) float64) prox.Derivative {
	var set []int
	var normal []float64
	for j, a := range b {
		if a != 0 {
			set, normal = append(set, j), append(normal, numerics.Sign(a))
		}
	}
	dev := v.Device()
	if len(set) <= 1 {
		return prox.NewMultiple(0, v, margin)
	}
	return prox.NewProjection(dev, space.HyperplaneOf(dev, len(b), set, normal), margin)
}
