package linops

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops/internal/sparse"
)

// ScaleRows returns diag(s) A, which expresses the rows of A in other units.
//
//	Forward: dst = s ∘ (A b)        Adjoint: dst = A* (s ∘ z)
//
// A matrix, dense or sparse, is copied to dev and scaled there, as are the entries of differences of pairs;
// operators on top of each other are scaled one by one, and where all s are equal the result is [Scale]'s, with A's
// structure. The scales must be finite and not 0. The caller releases the result, which holds a.
func ScaleRows(dev array.Device, a Operator, s []float64) Restricted {
	d, p := a.Dims()
	if len(s) != d {
		panic(fmt.Sprintf("linops: ScaleRows of a %d x %d operator by %d numbers", d, p, len(s)))
	}
	switch m := a.(type) {
	case *stack:
		if m.cols == nil {
			return scaleParts(dev, m, s)
		}
	case *Dense:
		return NewDense(dev, scaledRows(m.x, s))
	case *CSR:
		return newCSR(dev, m.m.ScaleRows(s), m.t.ScaleColumns(s))
	}
	if d == 0 || slices.Min(s) == slices.Max(s) {
		if d > 0 {
			a = Scale(s[0], a)
		}
		return Owning(a)
	}
	if rows, ok := RowsOf(a); ok {
		return newCSRInOrder(dev, sparse.Matrix{D: d, P: p, Rows: rows}.ScaleRows(s))
	}
	scales := NewDiagonal(dev, s)
	return Owning(Compose(scales, a), scales)
}

func scaledRows(x *mat.Dense, s []float64) *mat.Dense {
	c := mat.DenseCopyOf(x)
	c.Apply(func(i, _ int, v float64) float64 { return s[i] * v }, c)
	return c
}

func scaleParts(dev array.Device, a *stack, s []float64) Restricted {
	ops, own := make([]Operator, len(a.parts)), make([]Restricted, len(a.parts))
	for i, part := range a.parts {
		own[i] = ScaleRows(dev, part.Operator, s[a.rows[i]:a.rows[i+1]])
		ops[i] = own[i]
		if plain, ok := own[i].(*combined); ok {
			ops[i] = plain.Operator
		}
	}
	return Owning(VStack(ops...), own...)
}
