package engine_test

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/linopstest"
	"surepipe/solve/engine"
	"surepipe/solve/solvetest"
)

// Weights that differ between the outcomes of a row, by which [linops.Kronecker] cannot weigh its rows in place, are on
// every space those of the products.
func TestWeightedRowsOfSeveralOutcomes(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	const d, p, k = 4, 3, 2
	rng := rand.New(rand.NewPCG(1, 9))
	x := linops.NewDense(dev, mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)))
	defer x.Release()
	a := linops.Kronecker(dev, x, k, p*k)
	defer a.Release()
	for _, equal := range []bool{true, false} {
		host := make([]float64, d*k)
		for i := range host {
			if host[i] = float64(1 + i); equal {
				host[i] = float64(1 + i/k)
			}
		}
		root := dev.Put(host, 1, d*k)
		if err := linopstest.Check(dev, engine.NewWeightedRows(a, root, host, nil)); err != nil {
			t.Errorf("equal weights of a row's outcomes %t: %v", equal, err)
		}
		root.Free()
	}
}
