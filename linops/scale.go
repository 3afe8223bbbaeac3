package linops

import (
	"surepipe/array"
	"surepipe/linops/internal/product"
)

type scaled struct {
	base
	alpha float64
	a     known
}

// Scale returns alpha A.
//
//	Forward: dst = alpha A b        Adjoint: dst = alpha A* z
//
// The structure of alpha A follows from that of A: its numbers times alpha^2, and its closed form
// at alpha^2 eta.
func Scale(alpha float64, a Operator) Operator {
	d, p := a.Dims()
	if s, ok := a.(*scaled); ok {
		alpha, a = alpha*s.alpha, s.a.Operator
	}
	switch alpha {
	case 0:
		return Zero(d, p)
	case 1:
		return a
	}
	s := &scaled{alpha: alpha, a: know(a)}
	s.base = base{name: "Scale", d: d, p: p, run: func(w product.Direction, dst, x array.Batch) {
		s.a.apply(w, dst, x)
		dst.Device().Lin(dst, alpha, dst, 0, array.Batch{})
	}}
	s.structure = Complete(s, scaledStructure(s))
	return s
}
