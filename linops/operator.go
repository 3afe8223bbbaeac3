package linops

import (
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
)

// Operator is a linear map A : R^p -> R^d, known by what it does to vectors.
// Both directions act on every vector of a batch. dst must not overlap the
// source. An Operator is immutable after construction and safe for concurrent
// use. A shape mismatch panics.
type Operator interface {
	// Dims is the size of A: d rows, p columns.
	Dims() (d, p int)
	// Forward sets dst = A b; dst is k x d, b is k x p.
	Forward(dst, b array.Batch)
	// Adjoint sets dst = A* z; dst is k x p, z is k x d.
	Adjoint(dst, z array.Batch)
}

// NormalSolver is an Operator that solves its regularized normal equations
// without iterating.
type NormalSolver interface {
	Operator
	// SolveNormal sets dst = (eta A*A + I)^{-1} rhs for eta >= 0; both are k x p
	// and may be the same batch. What depends on eta alone (a factorization) is
	// done once and kept. It returns false, having done nothing, when the
	// operator turns out to have no closed form.
	SolveNormal(dst, rhs array.Batch, eta float64) bool
}

// RowGram is an Operator that may have orthogonal rows of equal norm.
type RowGram interface {
	Operator
	// RowGram returns c and true when A A* = c I. Then ||A||^2 = c, and
	// (eta A*A + I)^{-1} = I - eta/(1 + eta c) A*A.
	RowGram() (c float64, ok bool)
}

// Normer is an Operator that knows its norm.
type Normer interface {
	Operator
	// Norm2 returns ||A||_2^2, the largest eigenvalue of A*A, and true; or false
	// when it would have to be estimated.
	Norm2() (norm2 float64, ok bool)
}

// Densifier is an Operator that can write itself down as a matrix.
type Densifier interface {
	Operator
	// Dense returns A as a d x p matrix on the host, or nil if it cannot. The
	// caller must not modify it.
	Dense() *mat.Dense
}
