package subspace_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"surepipe/array"
	"surepipe/prox/subspace"
)

// Two values of a 90 x 60 matrix lie far above its noise; a Cholesky factor of the rest
// certifies that there is no third.
func Example() {
	dev := array.NewHost()
	defer dev.Close()
	const m, n = 90, 60
	rng := rand.New(rand.NewPCG(1, 2))
	x := dev.Alloc(m, n)
	defer x.Free()
	entries := make([]float64, m*n)
	for i := range entries {
		row, col := float64(i/n), float64(i%n)
		entries[i] = math.Sin(row) + math.Cos(row)*math.Sin(col) + 0.01*rng.NormFloat64()
	}
	dev.Upload(x, entries)

	const tau = 5
	it := subspace.New(dev, array.Shape{Rows: m, Cols: n})
	defer it.Free()
	var top subspace.Triplets
	defer func() { top.Free() }()
	for range 4 {
		top.Free()
		var err error
		if top, err = it.Advance(subspace.Dense(x), tau); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Printf("values above %v: %.0f\n", tau, top.Sigma)
	fmt.Println("accurate:", top.Residual(subspace.Dense(x)) < 1e-6)

	// x becomes X - U S V*.
	us := dev.Alloc(m, len(top.Sigma))
	defer us.Free()
	subspace.ScaleColumns(us, top.U, top.Sigma)
	dev.Gemm(false, true, -1, us, top.V, 1, x)
	below, err := subspace.BelowThreshold(context.Background(), x, tau)
	fmt.Println("no other:", below, err)
	// Output:
	// values above 5: [52 37]
	// accurate: true
	// no other: true <nil>
}
