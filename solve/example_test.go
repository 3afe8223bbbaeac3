package solve_test

import (
	"context"
	"fmt"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve"
)

// Soft thresholding at 1, where the second observation counts twice and the last one not at all.
func Example() {
	ctx, dev := context.Background(), array.NewHost()
	weights, err := loss.WeightedSquared(dev, []float64{1, 2, 1, 0})
	if err != nil {
		panic(err)
	}
	defer weights.Release()
	problem := solve.Problem{A: linops.Identity(4), Loss: weights, R: prox.NewL1(1), Device: dev}
	solver, err := solve.New(ctx, "fista", problem, solve.Options{})
	if err != nil {
		panic(err)
	}
	defer solver.Release()
	y := dev.Alloc(1, 4)
	defer y.Free()
	dev.Upload(y, []float64{3, -2, 0.2, 5})
	solution, err := solver.Solve(ctx, y, solve.From{})
	if err != nil {
		panic(err)
	}
	defer solution.Release()
	fmt.Printf("b %.3f, converged: %v\n", solution.B.ToHost(), solution.Converged)
	for _, c := range solution.Choices {
		fmt.Printf("%s: %s, since %s\n", c.Part, c.Chosen, c.Reason)
	}
	// Output:
	// b [2.000 -1.500 0.000 0.000], converged: true
	// loss: whitened, since a weighted squared loss is the squared loss of sqrt(w) A and sqrt(w) y
	// units: the user's, since the columns of A differ in length by at most a factor of 8
	// method: all coordinates, since the problem has no structure that the method can use
}
