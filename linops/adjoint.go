package linops

import "surepipe/array"

type adjoint struct {
	knowing
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
	t.structure = Complete(t, adjointStructure(t))
	return t
}

func (t *adjoint) Dims() (d, p int) {
	p, d = t.a.Dims()
	return d, p
}

func (t *adjoint) Forward(dst, b array.Batch) { t.a.Adjoint(dst, b) }

func (t *adjoint) Adjoint(dst, z array.Batch) { t.a.Forward(dst, z) }
