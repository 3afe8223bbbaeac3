// Package limits has the sizes at which package solve changes its method for low-rank matrices, so
// that tests can change them.
package limits

import "surepipe/prox/subspace"

var (
	// FactoredSide is the smaller side of a matrix from which iterates are kept in factored form.
	FactoredSide = subspace.MinSide
	// ProbedSide is the smaller side from which the certificate that no singular value was missed
	// uses products with a matrix instead of the matrix itself, which would take m n min(m, n)
	// operations.
	ProbedSide = 2048
)
