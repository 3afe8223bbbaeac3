package interior_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/interior"
	"surepipe/solve/solvetest"
	"surepipe/space/spacetest"
)

// y = g + K* u with whole numbers u and a polynomial g, which K takes to 0, has no rounding errors.
func TestTheMultiplierOfLongDifferencesIsExact(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	for order := 1; order <= 4; order++ {
		for _, n := range []int{50, 8000} {
			t.Run(fmt.Sprintf("%d differences of %d", order, n), func(t *testing.T) {
				k := spacetest.Differences(n, order)
				want, host := make([]float64, n-order), make([]float64, n)
				for i := range host {
					host[i] = math.Pow(float64(i-n/2), float64(order-1))
				}
				for i := range want {
					want[i] = math.Round(1e3 * math.Sin(7*float64(i)/float64(n)))
					for e := k.Indptr[i]; e < k.Indptr[i+1]; e++ {
						host[k.Indices[e]] += want[i] * k.Values[e]
					}
				}
				op, err := linops.NewCSR(dev, n-order, n, k.Indptr, k.Indices, k.Values)
				if err != nil {
					t.Fatal(err)
				}
				defer op.Release()
				y := dev.Put(host, 1, n)
				defer y.Free()
				u := interior.AlongBand(engine.Problem{A: linops.Identity(n), K: op, R: prox.Zero(), Device: dev}, y)
				if u.IsZero() {
					t.Fatal("no multiplier")
				}
				defer u.Free()
				off := 0.0
				for i, v := range u.ToHost() {
					off = max(off, math.Abs(v-want[i]))
				}
				if !(off <= 1e-4) {
					t.Errorf("off by %g of 1000", off)
				}
			})
		}
	}
}

// The multiplier of noise is of another size in the middle than at the ends, where rounding errors of the middle are no
// small share of it.
func TestLongNoiseHasAMultiplier(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	const n, order = 200000, 3
	k := spacetest.Differences(n, order)
	op, err := linops.NewCSR(dev, n-order, n, k.Indptr, k.Indices, k.Values)
	if err != nil {
		t.Fatal(err)
	}
	defer op.Release()
	y := dev.Put(solvetest.Gaussian(rand.New(rand.NewPCG(1, 2)), n), 1, n)
	defer y.Free()
	u := interior.AlongBand(engine.Problem{A: linops.Identity(n), K: op, R: prox.Zero(), Device: dev}, y)
	if u.IsZero() {
		t.Fatal("no multiplier")
	}
	u.Free()
}
