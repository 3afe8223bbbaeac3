package vjp_test

import (
	"context"
	"fmt"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/vjp"
)

// Soft thresholding at 1: entries above the threshold pass on a change of y, the others do not.
func Example() {
	dev := array.NewHost()
	problem := vjp.Problem{A: linops.Identity(4), R: prox.NewL1(1), Device: dev}
	solver, err := vjp.NewSolver(context.Background(), "ista", problem, vjp.Options{})
	if err != nil {
		panic(err)
	}
	defer solver.Release()
	y := dev.Alloc(1, 4)
	defer y.Free()
	dev.Upload(y, []float64{3, -0.5, 0.2, -2})
	solution, err := solver.Solve(context.Background(), y)
	if err != nil {
		panic(err)
	}
	defer solution.Release()
	fmt.Println("mu_hat", solution.MuHat.ToHost())

	probes, images := dev.Alloc(2, 4), dev.Alloc(2, 4)
	defer probes.Free()
	defer images.Free()
	dev.Upload(probes, []float64{
		1, 1, 1, 1,
		1, 2, 3, 4,
	})
	if err := solution.Linearization.VJP(context.Background(), images, probes); err != nil {
		panic(err)
	}
	fmt.Println("probes", images.Rows(0, 1).ToHost(), images.Rows(1, 2).ToHost())
	// Output:
	// mu_hat [2 0 0 -1]
	// probes [1 0 0 1] [1 0 0 4]
}
