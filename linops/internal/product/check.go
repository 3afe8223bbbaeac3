package product

import (
	"fmt"
	"math"

	"surepipe/array"
)

// CopyTo sets dst = src, unless they are the same batch.
func CopyTo(dst, src array.Batch) {
	if dst != src {
		dst.Device().Copy(dst, src)
	}
}

// CheckForward panics unless a d x p operator maps b to dst.
func CheckForward(name string, d, p int, dst, b array.Batch) {
	if b.N() != p || dst.N() != d || b.K() != dst.K() {
		panic(fmt.Sprintf("linops: Forward of a %d x %d %s: %s into %s", d, p, name, b, dst))
	}
}

// CheckAdjoint panics unless the adjoint of a d x p operator maps z to dst.
func CheckAdjoint(name string, d, p int, dst, z array.Batch) {
	if z.N() != d || dst.N() != p || z.K() != dst.K() {
		panic(fmt.Sprintf("linops: Adjoint of a %d x %d %s: %s into %s", d, p, name, z, dst))
	}
}

// CheckSolve panics unless dst and rhs have p coordinates and eta >= 0 is finite.
func CheckSolve(name string, d, p int, dst, rhs array.Batch, eta float64) {
	if rhs.N() != p || dst.N() != p || rhs.K() != dst.K() {
		panic(fmt.Sprintf("linops: SolveNormal of a %d x %d %s: %s into %s", d, p, name, rhs, dst))
	}
	if !(eta >= 0) || math.IsInf(eta, 1) {
		panic(fmt.Sprintf("linops: SolveNormal of a %d x %d %s: eta = %v, want 0 or more", d, p, name, eta))
	}
}

// CheckNormal panics unless b and dst have p coordinates.
func CheckNormal(name string, p int, dst, b array.Batch) {
	if dst.K() != b.K() || dst.N() != p || b.N() != p {
		panic(fmt.Sprintf("linops: A*A of a %s with %d columns: %s into %s", name, p, b, dst))
	}
}

// CheckSize panics unless d and p are sizes.
func CheckSize(name string, d, p int) {
	if d < 0 || p < 0 {
		panic(fmt.Sprintf("linops: %s of size %d x %d", name, d, p))
	}
}
