// Package limits has sizes at which more than one room of package solve changes its method, and those that tests
// change.
package limits

import "surepipe/prox/subspace"

const (
	// MaxDense is the size of p up to which any operator may be formed as a matrix.
	MaxDense = 256
	// MostFactored is the dimension up to which a dense system is factorized.
	MostFactored = 1 << 12
	// MostIdle is the number of steps without progress after which a solve by active sets ends.
	MostIdle = 8
	// PanelValues is the size of a panel of rows: the operations on it share it among the processors, and it
	// stays in their caches.
	PanelValues = 1 << 18
)

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
	// of A*A on the tangent space makes a preconditioner that is as good and costs less.
	Reduced = 3.
	// Arrow is the largest order of the Schur complement of a completion's second derivative in its factors that is
	// formed: see BenchmarkArrow.
	Arrow = 1 << 12
	// Dense is the share of the entries seen from which the derivative of the nuclear norm's prox, for all
	// entries, is as good a preconditioner as one for those of each line.
	Dense = 0.4
	// Factorized is the largest number of entries of a sparse factor: 12 bytes each.
	Factorized int64 = 1 << 26
	// Passes are those of coordinate descent that a problem with a sparse A takes, in all of its Newton steps on the
	// loss.
	Passes = 400.
	// Stacked is the largest number of columns of A above K for a dense factorization.
	Stacked = 1024
)
