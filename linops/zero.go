package linops

import (
	"surepipe/array"
	"surepipe/linops/internal/product"
)

type zero struct {
	knowing
	d, p       int
	transposed *zero
}

// Zero returns the operator from R^p to R^d that maps everything to 0.
//
//	Forward: dst = 0        Adjoint: dst = 0
func Zero(d, p int) Operator {
	product.CheckSize("Zero", d, p)
	a := newZero(d, p)
	a.transposed = newZero(p, d)
	a.transposed.transposed = a
	return a
}

func newZero(d, p int) *zero {
	a := &zero{d: d, p: p}
	s := Structure{Rows: Known(0)}
	s.adding("Zero", d, p, func(product.Direction, array.Batch, float64, array.Batch) {})
	a.structure = Complete(a, s)
	return a
}

func (a *zero) Dims() (d, p int) { return a.d, a.p }

func (a *zero) Forward(dst, b array.Batch) {
	product.CheckForward("Zero", a.d, a.p, dst, b)
	dst.Device().Fill(dst, 0)
}

func (a *zero) Adjoint(dst, z array.Batch) {
	product.CheckAdjoint("Zero", a.d, a.p, dst, z)
	dst.Device().Fill(dst, 0)
}
