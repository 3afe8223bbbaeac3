package rewrite_test

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/rewrite"
)

// Least squares with an intercept: the problem is solved without it, and the estimate is brought back. The degrees of
// freedom are one more.
func ExampleProject() {
	dev := array.NewHost()
	x := linops.NewDense(dev, mat.NewDense(4, 1, []float64{-3, -1, 1, 3})) // of mean 0
	problem, err := rewrite.Project(solve.Problem{A: x, R: prox.Zero(), Device: dev}, additive.Constant(4))
	if err != nil {
		panic(err)
	}
	solver, err := solve.New(context.Background(), "direct", problem, solve.Options{})
	if err != nil {
		panic(err)
	}
	defer solver.Release()
	y := dev.Alloc(1, 4)
	defer y.Free()
	dev.Upload(y, []float64{11, 9, 13, 15})
	rewritten, _ := problem.Origin.Data(y)
	defer rewritten.Free()
	solution, err := solver.Solve(context.Background(), rewritten, solve.From{})
	if err != nil {
		panic(err)
	}
	defer solution.Release()
	fmt.Printf("y' %.1f, mu' %.1f\n", rewritten.ToHost(), solution.MuHat.ToHost())
	if err := problem.Origin.Deliver(solution.B, solution.MuHat, y); err != nil {
		panic(err)
	}
	fmt.Printf("b %.1f, mu %.1f\n", solution.B.ToHost(), solution.MuHat.ToHost())
	fmt.Println("degrees of freedom:", problem.Origin.Closed(solve.Closed{Trace: 1}).Trace)
	// Output:
	// y' [-1.0 -3.0 1.0 3.0], mu' [-2.4 -0.8 0.8 2.4]
	// b [0.8], mu [9.6 11.2 12.8 14.4]
	// degrees of freedom: 2
}
