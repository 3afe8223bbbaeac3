package request_test

import (
	"context"
	"fmt"

	"surepipe/study/request"
)

// A path of weights of the LASSO, its minimum of GCV, and the simplest fit within one standard error of it.
func Example() {
	ctx := context.Background()
	r := request.New()
	r.Problem, r.Data, r.Weights.Lambda = "lasso", "../../testdata/diabetes.npz", "0.01max:max:12"
	grids := request.NewSweep()
	grids.Criterion, grids.Rule, grids.Refine = "gcv", "1se", 0
	if err := r.CheckSweep(&grids); err != nil {
		panic(err)
	}
	data, err := r.Read(ctx)
	if err != nil {
		panic(err)
	}
	devices, err := r.Devices(ctx)
	if err != nil {
		panic(err)
	}
	estimator, err := r.Open(ctx, devices, data.Data)
	if err != nil {
		panic(err)
	}
	defer estimator.Close()
	sweep, err := r.SweepAt(ctx, grids, estimator, data.Data)
	if err != nil {
		panic(err)
	}
	swept, err := sweep.Run(ctx)
	if err != nil {
		panic(err)
	}
	best, chosen := swept.Summary.Minimizer, swept.Summary.Chosen
	fmt.Printf("%d points, minimum at lambda = %.1f with %.0f degrees of freedom\n", len(swept.Lines), *best.Lambda,
		best.Divergence)
	fmt.Printf("within one standard error: lambda = %.1f with %.0f degrees of freedom\n", *chosen.Lambda,
		chosen.Divergence)
	// Output:
	// 12 points, minimum at lambda = 21.9 with 7 degrees of freedom
	// within one standard error: lambda = 21.9 with 7 degrees of freedom
}
