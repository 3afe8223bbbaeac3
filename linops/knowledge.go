package linops

import (
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/space"
)

// Structure is what an operator knows of itself beyond its products. The zero value says
// nothing, and is always true. What is known serves to go faster or to say more; nothing depends
// on it.
type Structure struct {
	// Rows is c where A A* = c I, Columns is c where A*A = c I, and Norm2 is ||A||^2.
	Rows, Columns, Norm2 Number
	// ColumnNorms2 returns the squared norms of the columns, the diagonal of A*A, in a new slice.
	ColumnNorms2 func() []float64
	// SolveNormal sets dst = (eta A*A + I)^{-1} rhs for eta >= 0, in closed form; both are k x p
	// and may be the same batch.
	SolveNormal func(dst, rhs array.Batch, eta float64)
	// Normal sets dst_i = A*A b_i where that is cheaper than A and A*. dst must not be b.
	Normal func(dst, b array.Batch)
	// AddForward sets dst += alpha A b and AddAdjoint dst += alpha A* z without a batch to
	// work in.
	AddForward, AddAdjoint func(dst array.Batch, alpha float64, x array.Batch)
	// Dense returns A as a d x p matrix on the host, nil where it is too large. The caller must not
	// modify it.
	Dense func() *mat.Dense
	// On returns A E on dev for a space T = E R^n that must outlive it, cheaper than A and E one
	// after the other; nil where A has nothing to offer for this space.
	On func(dev array.Device, t space.Space) Restricted
	// Sampled returns the places of the entries where A picks entries of m x n matrices of
	// the given shape, in increasing order, and the row of A that each is; nil for the latter where
	// it is the order of A's rows. Both are nil where A is no such operator. They are the operator's.
	Sampled func(shape array.Shape) (places array.Pattern, order array.Index)
}

// Number is a number that may not be known.
type Number struct {
	Value float64
	Known bool
}

// Structured is an Operator that knows its structure.
type Structured interface {
	Operator
	// Structure returns it. It is called often: what takes work is done once.
	Structure() Structure
}

// StructureOf is what a says of itself, the zero Structure where it says nothing.
func StructureOf(a Operator) Structure {
	if s, ok := a.(Structured); ok {
		return s.Structure()
	}
	return Structure{}
}
