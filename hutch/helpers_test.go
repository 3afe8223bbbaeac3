package hutch

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
)

// upload puts row-major values on the device.
func upload(dev array.Device, k, n int, values []float64) array.Batch {
	b := dev.Alloc(k, n)
	dev.Upload(b, values)
	return b
}

func gaussian(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// dense is the oracle of a d x d symmetric matrix, by one Gemm.
func dense(m array.Batch) Oracle {
	return func(_ context.Context, dst, v array.Batch, _ []float64) error {
		v.Device().Gemm(false, false, 1, v, m, 0, dst)
		return nil
	}
}

// randomPSD is a Wishart matrix G G*/rank, with its trace and squared Frobenius
// norm.
func randomPSD(dev array.Device, rng *rand.Rand, d, rank int) (m array.Batch, trace, frobenius2 float64) {
	g := upload(dev, d, rank, gaussian(rng, d*rank))
	defer g.Free()
	m = dev.Alloc(d, d)
	dev.Gemm(false, true, 1/float64(rank), g, g, 0, m)
	values := m.ToHost()
	for i := range d {
		trace += values[i*d+i]
		for j := range d {
			frobenius2 += values[i*d+j] * values[i*d+j]
		}
	}
	return m, trace, frobenius2
}

// spectral is the oracle of U diag(lambda) U* with a generic orthogonal U that
// is cheap to apply: two rounds of random signs and a Walsh-Hadamard transform.
// The length of lambda must be a power of two.
func spectral(lambda []float64, seed uint64) Oracle {
	d := len(lambda)
	rng := rand.New(rand.NewPCG(seed, 0))
	random := func() []float64 {
		x := make([]float64, d)
		for i := range x {
			x[i] = float64(2*rng.IntN(2) - 1)
		}
		return x
	}
	s1, s2 := random(), random()
	times := func(x, y []float64) {
		for i := range x {
			x[i] *= y[i]
		}
	}
	hadamard := func(x []float64) {
		for h := 1; h < d; h *= 2 {
			for i := 0; i < d; i += 2 * h {
				a, b := x[i:i+h], x[i+h:i+2*h]
				for j := range a {
					a[j], b[j] = a[j]+b[j], a[j]-b[j]
				}
			}
		}
		for i := range x {
			x[i] /= math.Sqrt(float64(d))
		}
	}
	return func(_ context.Context, dst, v array.Batch, _ []float64) error {
		values := v.ToHost()
		for i := range v.K() {
			x := values[i*d:][:d]
			times(x, s1)
			hadamard(x)
			times(x, s2)
			hadamard(x)
			times(x, lambda)
			hadamard(x)
			times(x, s2)
			hadamard(x)
			times(x, s1)
		}
		v.Device().Upload(dst, values)
		return nil
	}
}

// spectrum is f(1), ..., f(d).
func spectrum(d int, f func(i float64) float64) []float64 {
	lambda := make([]float64, d)
	for i := range lambda {
		lambda[i] = f(float64(i + 1))
	}
	return lambda
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

func plan(t *testing.T, estimator string, queries, d int) Plan {
	t.Helper()
	p, err := NewPlan(estimator, queries, d)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func trace(t *testing.T, dev array.Device, p Plan, m Oracle, opts Options) Estimate {
	t.Helper()
	e, err := Trace(t.Context(), dev, p, Exactly(m), opts)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// noLeak fails the test if it ends with more allocated batches than it began with.
func noLeak(t *testing.T, dev array.Device) {
	t.Helper()
	live := dev.Stats().Live
	t.Cleanup(func() {
		if n := dev.Stats().Live; n != live {
			t.Errorf("%d batches on loan at the start, %d at the end", live, n)
		}
	})
}

// few is how many samples a statistical test takes on a device: n, or fewer where each
// takes some hundred times as long.
func few(t *testing.T, dev array.Device, n, fewer int) int {
	t.Helper()
	if arraytest.Emulated(t, dev) {
		return fewer
	}
	return n
}
