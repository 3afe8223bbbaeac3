package lowrank_test

import (
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/prox"
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

// evaluateOn returns prox_{t r}(v).
func evaluateOn(t *testing.T, dev array.Device, p prox.Prox, v []float64, step float64) []float64 {
	t.Helper()
	b := dev.Alloc(1, len(v))
	defer b.Free()
	dev.Upload(b, v)
	if err := p.Eval(b, b, step); err != nil {
		t.Fatal(err)
	}
	return b.ToHost()
}
