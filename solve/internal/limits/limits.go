// Package limits has the sizes from which on package solve works on matrices of low rank in another
// way, for its tests to change.
package limits

import "surepipe/prox/subspace"

var (
	// FactoredSide is the smaller side of a matrix from which on iterates are kept in factored form.
	FactoredSide = subspace.MinSide
	// ProbedSide is the smaller side from which on products with a matrix certify that no singular value
	// was missed, in place of the matrix itself, which takes m n min(m, n) operations.
	ProbedSide = 2048
)
