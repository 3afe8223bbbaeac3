package imaging

import (
	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/internal/product"
)

// knowing holds the structure of an operator of this package, made when the operator is.
type knowing struct{ structure linops.Structure }

// Structure returns the structure of the operator.
func (k *knowing) Structure() linops.Structure { return k.structure }

// mapped has the methods of a d x p operator of a name, all of which are actions of one function.
type mapped struct {
	knowing
	name string
	d, p int
	run  func(dst, src array.Batch, do action)
}

// Dims is d, p.
func (m *mapped) Dims() (d, p int) { return m.d, m.p }

// Forward sets dst = A b.
func (m *mapped) Forward(dst, b array.Batch) {
	product.CheckForward(m.name, m.d, m.p, dst, b)
	m.run(dst, b, action{kind: doForward})
}

// Adjoint sets dst = A* z.
func (m *mapped) Adjoint(dst, z array.Batch) {
	product.CheckAdjoint(m.name, m.d, m.p, dst, z)
	m.run(dst, z, action{kind: doAdjoint})
}

// normal sets dst = A*A b.
func (m *mapped) normal(dst, b array.Batch) {
	product.CheckNormal(m.name, m.p, dst, b)
	m.run(dst, b, action{kind: doSquare})
}

// solveNormal sets dst = (eta A*A + I)^{-1} rhs.
func (m *mapped) solveNormal(dst, rhs array.Batch, eta float64) bool {
	product.CheckSolve(m.name, m.d, m.p, dst, rhs, eta)
	if eta == 0 {
		product.CopyTo(dst, rhs)
	} else {
		m.run(dst, rhs, action{doNormal, eta})
	}
	return true
}
