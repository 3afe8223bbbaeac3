package pipeline_test

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// A straight line through four points: an intercept and a slope, two degrees of freedom.
func Example_intercept() {
	ctx, dev := context.Background(), array.NewHost()
	data := problems.Data{
		X:         mat.NewDense(4, 1, []float64{1, 2, 3, 4}),
		Y:         []float64{12, 14.5, 15.5, 18},
		Intercept: true,
	}
	problem, err := problems.New("ols", dev, data, problems.Hyper{})
	if err != nil {
		panic(err)
	}
	defer problem.Release()
	solver, err := vjp.NewSolver(ctx, problem.DefaultSolver, problem.Solve(), vjp.Options{})
	if err != nil {
		panic(err)
	}
	defer solver.Release()
	p, err := pipeline.New(solver, pipeline.Options{Sigma2: 0.25, KeepB: true})
	if err != nil {
		panic(err)
	}
	risk, err := p.Estimate(ctx, data.Y)
	if err != nil {
		panic(err)
	}
	b0, _ := problem.Intercept(risk.MuHat, risk.B)
	fmt.Printf("%.2f + %.2f x, divergence %.0f, SURE %.2f\n", b0, risk.B[0], risk.Trace.Trace, risk.SURE)
	// Output:
	// 10.25 + 1.90 x, divergence 2, SURE 0.45
}
