package linops

import (
	"surepipe/array"
	"surepipe/linops/internal/product"
)

type adjoint struct {
	base
	a known
}

// Adjoint returns A*, the operator with A's two directions exchanged. The adjoint of the adjoint is
// A itself.
//
//	Forward: dst = A* b        Adjoint: dst = A z
//
// A closed form for A gives one for A*, by
//
//	(eta A A* + I)^{-1} = I - eta A (eta A*A + I)^{-1} A*.
func Adjoint(a Operator) Operator {
	switch a := a.(type) {
	case *adjoint:
		return a.a.Operator
	case *zero:
		return a.transposed
	case *identity, *Diagonal:
		return a
	}
	t := &adjoint{a: know(a)}
	p, d := a.Dims()
	t.base = base{name: "Adjoint", d: d, p: p,
		run: func(w product.Direction, dst, x array.Batch) { t.a.apply(!w, dst, x) }}
	t.structure = Complete(t, adjointStructure(t))
	return t
}
