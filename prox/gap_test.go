package prox_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox"
)

// The gaps of total variation are computed where the vectors are, and are the host's.
func TestGapsAreTheHostsOnEveryDevice(t *testing.T) {
	host := array.NewHost()
	defer host.Close()
	rng := rand.New(rand.NewPCG(6, 4))
	const n = 300
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		for name, r := range map[string]prox.Prox{
			"l1": prox.NewL1(0.7), "two planes": prox.NewVectorialL2(n/2, 2, 1, 0.7),
			"six planes": prox.NewVectorialL2(n/6, 6, 1, 0.7), "one plane": prox.NewVectorialL2(n, 1, 1, 0),
			"channels": prox.NewVectorialL2(n/6, 2, 3, 0.7),
		} {
			for _, scale := range []float64{0, 1e-30, 1, 1e60} {
				b, g := make([]float64, n), make([]float64, n)
				for i := range b {
					if rng.IntN(3) > 0 {
						b[i] = scale * rng.NormFloat64() * math.Pow(10, float64(-rng.IntN(8)))
					}
					g[i] = 0.2 * rng.NormFloat64()
				}
				measured := func(dev array.Device) (gap [2]float64) {
					x, h := dev.Put(b, 1, n), dev.Put(g, 1, n)
					defer x.Free()
					defer h.Free()
					s := prox.StructureOf(r)
					return [2]float64{s.DualScale(x, h, 0), s.FenchelGap(x, h, 0.9, 0)}
				}
				got, want := measured(dev), measured(host)
				for i := range got {
					if !(math.Abs(got[i]-want[i]) <= 1e-13*want[i]) {
						t.Errorf("%s of scale %g: dual scale and gap are %v, on the host %v", name, scale, got, want)
					}
				}
				b[7] = math.NaN()
				if gap := measured(dev)[1]; !math.IsNaN(gap) {
					t.Errorf("%s of scale %g: the gap of a NaN is %v", name, scale, gap)
				}
			}
		}
	})
}
