package linops

import "surepipe/array"

type adjoint struct {
	structure
	a Operator
}

// Adjoint returns A*, the operator with A's two directions exchanged. The adjoint
// of the adjoint is A itself.
//
//	Forward: dst = A* b        Adjoint: dst = A z
//
// A closed form for A gives one for A*, by
//
//	(eta A A* + I)^{-1} = I - eta A (eta A*A + I)^{-1} A*.
func Adjoint(a Operator) Operator {
	switch a := a.(type) {
	case adjoint:
		return a.a
	case zero:
		return zero{a.p, a.d}
	case identity, *Diagonal:
		return a
	}
	t := adjoint{a: a}
	t.row, t.col, t.norm2 = colGram(a), rowGram(a), norm2(a)
	return t
}

func (t adjoint) Dims() (d, p int) {
	p, d = t.a.Dims()
	return d, p
}

func (t adjoint) Forward(dst, b array.Batch) { t.a.Adjoint(dst, b) }

func (t adjoint) Adjoint(dst, z array.Batch) { t.a.Forward(dst, z) }

func (t adjoint) addForward(dst array.Batch, alpha float64, b array.Batch) {
	addAdjoint(dst, alpha, t.a, b)
}

func (t adjoint) addAdjoint(dst array.Batch, alpha float64, z array.Batch) {
	addForward(dst, alpha, t.a, z)
}

func (t adjoint) closedForm() bool { return t.col.ok || closedForm(t.a) }

func (t adjoint) SolveNormal(dst, rhs array.Batch, eta float64) bool {
	d, p := t.Dims()
	checkNormal("Adjoint", d, p, dst, rhs, eta)
	if t.col.ok {
		scaleSolve(dst, rhs, t.col.value, eta)
		return true
	}
	if !closedForm(t.a) {
		return false
	}
	u := dst.Device().Alloc(rhs.K(), d)
	defer u.Free()
	t.Forward(u, rhs)
	if !solveNormal(u, u, t.a, eta) {
		return false
	}
	copyTo(dst, rhs)
	t.addAdjoint(dst, -eta, u)
	return true
}
