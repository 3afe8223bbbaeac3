package denoise_test

import (
	"math/rand/v2"

	"surepipe/array"
)

// Tests and benchmarks compute with the BLAS that the command would use.
func init() { array.UseNative() }

func normal(seed uint64, n int) []float64 {
	rng := rand.New(rand.NewPCG(seed, 0))
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}
