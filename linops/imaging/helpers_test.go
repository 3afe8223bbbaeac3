package imaging_test

import (
	"math/rand/v2"

	"surepipe/array"
	"surepipe/linops"
)

// Tests and benchmarks compute with the BLAS that the command would use.
func init() { array.UseNative() }

func gaussian(n int, seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 7))
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// solve solves the normal equations in place by the closed form, if there is one.
func solve(a linops.Operator, x array.Batch, eta float64) bool {
	closed := linops.StructureOf(a).SolveNormal
	return closed != nil && closed(x, x, eta)
}
