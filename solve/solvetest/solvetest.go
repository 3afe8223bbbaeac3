// Package solvetest is for tests of solvers: [Check] tests the contract of solve.Method, and [CheckRewriting] that of
// solve.Rewriting.
package solvetest

import (
	"testing"

	"surepipe/solve/internal/limits"
)

// FactorAll makes solvers keep the iterates of matrices of any size in factored form until the test
// ends.
func FactorAll(t testing.TB) { set(t, &limits.FactoredSide) }

// CertifyByProducts makes solvers certify partial SVDs by products, as for matrices too large to be
// formed, until the test ends.
func CertifyByProducts(t testing.TB) { set(t, &limits.ProbedSide) }

// ReduceAll makes solvers of completions take Newton steps for the factors, and reduce the systems of
// derivatives to one of them, at any rank until the test ends.
func ReduceAll(t testing.TB) {
	IterateAll(t)
	set(t, &limits.Reduced)
}

// IterateAll makes derivatives of completions come from conjugate gradients, as for matrices with two long sides,
// until the test ends.
func IterateAll(t testing.TB) {
	Decompose(t)
	set(t, &limits.Dense)
}

// Decompose is IterateAll but for completions of which much is seen, as for those with a short side.
func Decompose(t testing.TB) { set(t, &limits.Arrow) }

// WriteNone makes completions too large to be written down until the test ends.
func WriteNone(t testing.TB) { set(t, &limits.Written) }

func set[T int | float64](t testing.TB, limit *T) {
	old := *limit
	*limit = 1
	t.Cleanup(func() { *limit = old })
}
