package linops

import (
	"surepipe/array"
	"surepipe/linops/internal/product"
)

type zero struct {
	base
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
	a := &zero{base: base{name: "Zero", d: d, p: p,
		run: func(_ product.Direction, dst, _ array.Batch) { dst.Device().Fill(dst, 0) }}}
	s := Structure{Rows: Known(0)}
	s.adding(&a.base, func(product.Direction, array.Batch, float64, array.Batch) {})
	a.structure = Complete(a, s)
	return a
}
