package linops

import (
	"fmt"
	"math"

	"surepipe/array"
)

func copyTo(dst, src array.Batch) {
	if dst != src {
		dst.Device().Copy(dst, src)
	}
}

func constant(n int, c float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = c
	}
	return x
}

func checkForward(name string, d, p int, dst, b array.Batch) {
	if b.N() != p || dst.N() != d || b.K() != dst.K() {
		panic(fmt.Sprintf("linops: Forward of a %d x %d %s: %s into %s", d, p, name, b, dst))
	}
}

func checkAdjoint(name string, d, p int, dst, z array.Batch) {
	if z.N() != d || dst.N() != p || z.K() != dst.K() {
		panic(fmt.Sprintf("linops: Adjoint of a %d x %d %s: %s into %s", d, p, name, z, dst))
	}
}

func checkSolve(name string, d, p int, dst, rhs array.Batch, eta float64) {
	if rhs.N() != p || dst.N() != p || rhs.K() != dst.K() {
		panic(fmt.Sprintf("linops: SolveNormal of a %d x %d %s: %s into %s", d, p, name, rhs, dst))
	}
	if !(eta >= 0) || math.IsInf(eta, 1) {
		panic(fmt.Sprintf("linops: SolveNormal of a %d x %d %s: eta = %v, want 0 or more", d, p, name, eta))
	}
}

// checkNormal panics unless b and dst have p coordinates.
func checkNormal(name string, p int, dst, b array.Batch) {
	if dst.K() != b.K() || dst.N() != p || b.N() != p {
		panic(fmt.Sprintf("linops: A*A of a %s with %d columns: %s into %s", name, p, b, dst))
	}
}

func checkSize(name string, d, p int) {
	if d < 0 || p < 0 {
		panic(fmt.Sprintf("linops: %s of size %d x %d", name, d, p))
	}
}
