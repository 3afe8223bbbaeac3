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
		return newCSR(dev, m.m.ScaleRows(s), m.t().ScaleColumns(s))
	}
	if d == 0 || slices.Min(s) == slices.Max(s) {
		if d > 0 {
			a = Scale(s[0], a)
		}
		return held{Operator: a}
	}
	if rows, ok := RowsOf(a); ok {
		m := sparse.Matrix{Rows: d, Cols: p, Indptr: rows.Indptr, Indices: rows.Indices,
			Values: rows.Values}.ScaleRows(s)
		t := m.Transpose().Merge()
		return newCSR(dev, t.Transpose(), t)
	}
	r := &scaledByRow{a: a, s: dev.Alloc(1, d)}
	dev.Upload(r.s, s)
	return r
}

// scaledRows is diag(s) x.
func scaledRows(x *mat.Dense, s []float64) *mat.Dense {
	c := mat.DenseCopyOf(x)
	c.Apply(func(i, _ int, v float64) float64 { return s[i] * v }, c)
	return c
}

// held is an operator with what belongs to it alone.
type held struct {
	Operator
	own []Restricted
}

// Structure is the operator's.
func (h held) Structure() Structure { return StructureOf(h.Operator) }

// Bytes is the memory of what it owns.
func (h held) Bytes() (sum int64) {
	for _, r := range h.own {
		sum += r.Bytes()
	}
	return sum
}

// Release frees it.
func (h held) Release() {
	for _, r := range h.own {
		r.Release()
	}
}

// scaleParts scales operators on top of each other.
func scaleParts(dev array.Device, a *stack, s []float64) Restricted {
	var h held
	ops := make([]Operator, len(a.parts))
	for i, part := range a.parts {
		r := ScaleRows(dev, part.Operator, s[a.rows[i]:a.rows[i+1]])
		ops[i], h.own = r, append(h.own, r)
		if plain, ok := r.(held); ok {
			ops[i] = plain.Operator
		}
	}
	h.Operator = VStack(ops...)
	return h
}

// scaledByRow is diag(s) A by products with A.
type scaledByRow struct {
	a Operator
	s array.Batch // 1 x d
}

// Dims is the size of A.
func (r *scaledByRow) Dims() (d, p int) { return r.a.Dims() }

// Forward sets dst = s ∘ (A b).
func (r *scaledByRow) Forward(dst, b array.Batch) {
	r.a.Forward(dst, b)
	dst.Device().Mul(dst, dst, r.s)
}

// Adjoint sets dst = A* (s ∘ z).
func (r *scaledByRow) Adjoint(dst, z array.Batch) {
	t := z.Device().Alloc(z.K(), z.N())
	defer t.Free()
	z.Device().Mul(t, z, r.s)
	r.a.Adjoint(dst, t)
}

// Bytes is the memory of the scales.
func (r *scaledByRow) Bytes() int64 { return r.s.Bytes() }

// Release frees them.
func (r *scaledByRow) Release() { r.s.Free() }
