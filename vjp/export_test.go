package vjp

import (
	"testing"

	"surepipe/solve/solvetest"
)

// FactorAll makes solvers keep matrices of any size in factored form until the test ends.
func FactorAll(t testing.TB) { solvetest.FactorAll(t) }

// BySaddlePoint makes the derivatives of problems with r(K b) use the saddle point system for all p, until
// the function that it returns is called.
func BySaddlePoint() (restore func()) {
	before := mostNullSpace
	mostNullSpace = 0
	return func() { mostNullSpace = before }
}
