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
		if w == product.Forward {
			onHost(dst, x, forward)
		} else {
			onHost(dst, x, adjoint)
		}
	}}}
	a.structure = Complete(a, Structure{})
	return a
}

// onHost calls f for every vector, in the batch's own memory where that is on the host.
func onHost(dst, src array.Batch, f func(dst, src []float64)) {
	if dst.K() == 0 {
		return
	}
	if _, ok := src.HostRow(0); ok {
		for i := range dst.K() {
			d, _ := dst.HostRow(i)
			s, _ := src.HostRow(i)
			f(d, s)
		}
		return
	}
	out, in := make([]float64, dst.K()*dst.N()), src.ToHost()
	for i := range dst.K() {
		f(out[i*dst.N():(i+1)*dst.N():(i+1)*dst.N()], in[i*src.N():(i+1)*src.N():(i+1)*src.N()])
	}
	dst.Device().Upload(dst, out)
}
