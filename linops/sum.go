package linops

import (
	"fmt"

	"surepipe/array"
)

type sum struct{ ops []Operator }

// Sum returns A1 + A2 + ..., all of the same size.
//
//	Forward: dst = sum_i A_i b        Adjoint: dst = sum_i A_i* z
func Sum(ops ...Operator) Operator {
	checkSome("Sum", ops)
	d, p := ops[0].Dims()
	for _, a := range ops[1:] {
		if d2, p2 := a.Dims(); d2 != d || p2 != p {
			panic(fmt.Sprintf("linops: Sum of operators of size %d x %d and %d x %d", d, p, d2, p2))
		}
	}
	if len(ops) == 1 {
		return ops[0]
	}
	return &sum{append([]Operator(nil), ops...)}
}

func (s *sum) Dims() (d, p int) { return s.ops[0].Dims() }

func (s *sum) Forward(dst, b array.Batch) {
	s.ops[0].Forward(dst, b)
	for _, a := range s.ops[1:] {
		addForward(dst, 1, a, b)
	}
}

func (s *sum) Adjoint(dst, z array.Batch) {
	s.ops[0].Adjoint(dst, z)
	for _, a := range s.ops[1:] {
		addAdjoint(dst, 1, a, z)
	}
}

func (s *sum) addForward(dst array.Batch, alpha float64, b array.Batch) {
	for _, a := range s.ops {
		addForward(dst, alpha, a, b)
	}
}

func (s *sum) addAdjoint(dst array.Batch, alpha float64, z array.Batch) {
	for _, a := range s.ops {
		addAdjoint(dst, alpha, a, z)
	}
}
