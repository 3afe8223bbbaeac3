package problems_test

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// The risk of a LASSO fit to data in memory: y = (4, -3, 1, 0.2) observed
// directly (X = I), sigma2 = 1. The two entries above lambda are kept, each
// shrunk by lambda: SURE = -4 + (4 + 4 + 1 + 0.04) + 2 * 2.
func Example() {
	dev := array.NewHost()
	data := problems.Data{
		X:      mat.NewDense(4, 4, []float64{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}),
		Y:      []float64{4, -3, 1, 0.2},
		YShape: []int{4},
	}
	p, err := problems.New("lasso", dev, data, problems.Hyper{Lambda: problems.Absolute(2)})
	if err != nil {
		panic(err)
	}
	defer p.Release()
	solver, err := vjp.NewSolver(context.Background(), p.DefaultSolver, p.Solve(), vjp.Options{Tol: 1e-10})
	if err != nil {
		panic(err)
	}
	defer solver.Release()
	pipe, err := pipeline.New(dev, solver, p.D, pipeline.Options{Sigma2: 1})
	if err != nil {
		panic(err)
	}
	risk, err := pipe.Estimate(context.Background(), data.Y)
	if err != nil {
		panic(err)
	}
	fmt.Printf("SURE %.2f, divergence %.2f\n", risk.SURE, risk.Trace.Trace)
	// Output: SURE 9.04, divergence 2.00
}
