package linops

import "surepipe/array"

type scaled struct {
	structure
	alpha float64
	a     Operator
}

// Scale returns alpha A.
//
//	Forward: dst = alpha A b        Adjoint: dst = alpha A* z
//
// With c, ||A||^2 and a closed form known for A they are known for alpha A, as
// alpha^2 c, alpha^2 ||A||^2, and A's solution at alpha^2 eta.
func Scale(alpha float64, a Operator) Operator {
	d, p := a.Dims()
	if s, ok := a.(*scaled); ok {
		alpha, a = alpha*s.alpha, s.a
	}
	switch alpha {
	case 0:
		return Zero(d, p)
	case 1:
		return a
	}
	s := &scaled{alpha: alpha, a: a}
	s.row, s.col, s.norm2 = rowGram(a), colGram(a), norm2(a)
	s.row.value *= alpha * alpha
	s.col.value *= alpha * alpha
	s.norm2.value *= alpha * alpha
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

func (s *scaled) addForward(dst array.Batch, alpha float64, b array.Batch) {
	addForward(dst, alpha*s.alpha, s.a, b)
}

func (s *scaled) addAdjoint(dst array.Batch, alpha float64, z array.Batch) {
	addAdjoint(dst, alpha*s.alpha, s.a, z)
}

func (s *scaled) closedForm() bool { return closedForm(s.a) }

func (s *scaled) SolveNormal(dst, rhs array.Batch, eta float64) bool {
	d, p := s.a.Dims()
	checkNormal("Scale", d, p, dst, rhs, eta)
	return s.closedForm() && solveNormal(dst, rhs, s.a, eta*s.alpha*s.alpha)
}

func (s *scaled) ColumnNorms2() []float64 {
	norms := columnNorms2(s.a)
	for i := range norms {
		norms[i] *= s.alpha * s.alpha
	}
	return norms
}
