package linops

import (
	"fmt"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops/internal/product"
)

type sum struct {
	base
	parts []known
}

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
	s := &sum{parts: lists.Map(ops, know)}
	s.base = base{name: "Sum", d: d, p: p, run: s.set}
	s.structure = Complete(s, sumStructure(s))
	return s
}

func (s *sum) set(w product.Direction, dst, x array.Batch) {
	s.parts[0].apply(w, dst, x)
	for i := range s.parts[1:] {
		s.parts[1+i].add(w, dst, 1, x)
	}
}

func (s *sum) add(w product.Direction, dst array.Batch, alpha float64, x array.Batch) {
	for i := range s.parts {
		s.parts[i].add(w, dst, alpha, x)
	}
}
