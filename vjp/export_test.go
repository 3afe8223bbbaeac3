package vjp

import (
	"testing"

	"surepipe/array"
)

// FactorAll makes solvers keep matrices of any size in factored form until the test ends.
func FactorAll(t testing.TB) {
	old := minLowRank
	minLowRank = 1
	t.Cleanup(func() { minLowRank = old })
}

// CertifyByProducts has the certificate computed as for matrices too large to be formed.
func CertifyByProducts(t testing.TB) {
	old := probedSide
	probedSide = 1
	t.Cleanup(func() { probedSide = old })
}

// Norm is the Euclidean norm that optimality is measured by.
func Norm(x array.Batch) float64 { return norm(x) }
