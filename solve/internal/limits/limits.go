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
	// Written is the number of entries up to which a matrix whose iterates are kept in factored form may
	// be written down, 1 GiB: to finish a solve whose rank is not low, or for the derivative of every
	// iteration. Beyond it such a solve ends with an error.
	Written = 1 << 27
	// Reduced is the dimension of the tangent space of a completion, relative to the number of entries
	// that are seen, from which systems are solved with one factor eliminated. Below it the diagonal
	// of A*A on the tangent space makes a preconditioner that is as good and costs less. Conjugate
	// gradient steps of 12 probes at weights 8, 4, 2 and 1 on 400 x 200 with 8000 entries, where that
	// ratio is 2.5, 3.3, 3.7 and 3.9: 12, 21, 32 and 45 with the diagonal, and 18, 17, 15 and 13.
	Reduced = 3.
	// AlignedRank is the rank from which factors have a whole number of cache lines in a row, columns of
	// zeros making up for what is missing: at most a tenth more.
	AlignedRank = 64
)
