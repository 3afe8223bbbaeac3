package vjp

import (
	"testing"

	"surepipe/solve/solvetest"
)

// FactorAll makes solvers keep matrices of any size in factored form until the test ends.
func FactorAll(t testing.TB) { solvetest.FactorAll(t) }
