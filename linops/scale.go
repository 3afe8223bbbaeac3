package linops

import "surepipe/array"

type scaled struct {
	knowing
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
	s.structure = Complete(s, scaledStructure(s))
	return s
}

func (s *scaled) Dims() (d, p int) { return s.a.Dims() }

func (s *scaled) Forward(dst, b array.Batch) {
	s.a.Forward(dst, b)
	dst.Device().Lin(dst, s.alpha, dst, 0, array.Batch{})
}

func (s *scaled) Adjoint(dst, z array.Batch) {
	s.a.Adjoint(dst, z)
	dst.Device().Lin(dst, s.alpha, dst, 0, array.Batch{})
}
