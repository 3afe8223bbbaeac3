package vjp

import (
	"testing"

	"surepipe/solve/solvetest"
)

// FactorAll makes solvers keep matrices of any size in factored form until the test ends.
func FactorAll(t testing.TB) { solvetest.FactorAll(t) }

// CertifyByProducts has the certificate computed as for matrices too large to be formed.
func CertifyByProducts(t testing.TB) { solvetest.CertifyByProducts(t) }
