package krylov_test

import (
	"math"
	"math/rand/v2"

	"surepipe/array"
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

func upload(dev array.Device, k int, x []float64) array.Batch {
	b := dev.Alloc(k, len(x)/k)
	dev.Upload(b, x)
	return b
}

func maxDiff(x, y []float64) float64 {
	m := 0.0
	for i, v := range x {
		if e := math.Abs(v - y[i]); e > m || math.IsNaN(e) {
			m = e
		}
	}
	return m
}
