package lowrank_test

import (
	"math"
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

// linear returns n numbers from first to last, evenly spaced.
func linear(n int, first, last float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = first + (last-first)*float64(i)/float64(max(n-1, 1))
	}
	return v
}

// softFunc is the soft threshold as a user would write it.
func softFunc(p int) prox.Prox {
	return prox.NewFunc(p, softProx,
		func(dst, v, z []float64, t float64) {
			for i, x := range v {
				dst[i] = 0
				if math.Abs(x) > t {
					dst[i] = z[i]
				}
			}
		},
		func(b []float64) float64 {
			s := 0.0
			for _, x := range b {
				s += math.Abs(x)
			}
			return s
		})
}

// softProx is the soft threshold.
func softProx(dst, v []float64, t float64) error {
	for i, x := range v {
		dst[i] = math.Copysign(max(math.Abs(x)-t, 0), x)
		if x != x {
			dst[i] = x
		}
	}
	return nil
}
