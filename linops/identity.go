package linops

import (
	"surepipe/array"
	"surepipe/linops/internal/product"
	"surepipe/space"
)

type identity struct{ base }

// Identity returns the identity I of R^n.
//
//	Forward: dst = b        Adjoint: dst = z
//
// On a tangent space of low-rank matrices A*A is computed in the coordinates alone, and likewise
// for [I I] on such a space beside a set of coordinates, in either order.
func Identity(n int) Operator {
	product.CheckSize("Identity", n, n)
	a := &identity{base{name: "Identity", d: n, p: n,
		run: func(_ product.Direction, dst, x array.Batch) { dst.Device().Copy(dst, x) }}}
	s := Structure{Identity: true, Pairs: unitPairs(n), On: func(dev array.Device, t space.Space) Restricted {
		if t.Form().Kind != space.FixedRank {
			return nil
		}
		return newLowRank(dev, t)
	}}
	s.Listed = listed(n, nil, nil)
	s.adding(&a.base, func(_ product.Direction, dst array.Batch, alpha float64, x array.Batch) {
		dst.Device().Lin(dst, 1, dst, alpha, x)
	})
	a.structure = Complete(a, s)
	return a
}
