package linops

import (
	"fmt"

	"surepipe/array"
	"surepipe/linops/internal/product"
)

// Func is an operator made of two closures on host slices.
//
//	Forward: dst = forward(b)        Adjoint: dst = adjoint(z)
type Func struct {
	base
}

// NewFunc returns the operator from R^p to R^d whose directions are the two closures. forward fills
// dst, of length d, from src, of length p; adjoint does the reverse. dst arrives with undefined
// contents and src must not be modified; neither may be kept. A closure is called once for each
// vector, from as many goroutines as use the operator: a closure that writes to memory of its own
// must guard it. Batches of another device are copied to the host and back.
func NewFunc(d, p int, forward, adjoint func(dst, src []float64)) *Func {
	product.CheckSize("Func", d, p)
	if forward == nil || adjoint == nil {
		panic(fmt.Sprintf("linops: Func of size %d x %d without forward or adjoint", d, p))
	}
	a := &Func{base{name: "Func", d: d, p: p, run: func(w product.Direction, dst, x array.Batch) {
		f := forward
		if w == product.Adjoint {
			f = adjoint
		}
		if dst.K() == 0 {
			return
		}
		vectors, done := product.OnHost(dst, x)
		for i := range dst.K() {
			f(vectors(i))
		}
		done()
	}}}
	a.structure = Complete(a, Structure{})
	return a
}
