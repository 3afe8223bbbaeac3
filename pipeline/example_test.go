package pipeline_test

import (
	"context"
	"expvar"
	"fmt"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/vjp"
)

// Two samples through one pipeline: soft thresholding at 1 with unit noise.
// Every entry above the threshold counts 1 in the divergence.
func Example() {
	ctx := context.Background()
	dev := array.NewHost()
	problem := vjp.Problem{A: linops.Identity(3), R: prox.NewL1(1), Device: dev}
	solver, err := vjp.NewSolver(ctx, "ista", problem, vjp.Options{})
	if err != nil {
		panic(err)
	}
	defer solver.Release()
	p, err := pipeline.New(solver, pipeline.Options{Sigma2: 1, Parallel: 2})
	if err != nil {
		panic(err)
	}
	ys := func(yield func([]float64, error) bool) {
		_ = yield([]float64{3, 0.5, 0}, nil) && yield([]float64{2, -2, 5}, nil)
	}
	for risk, err := range p.Stream(ctx, ys) {
		if err != nil {
			panic(err)
		}
		fmt.Printf("sample %d: SURE %.2f, divergence %.0f\n", risk.Index, risk.SURE, risk.Trace.Trace)
	}
	// Output:
	// sample 0: SURE 0.25, divergence 1
	// sample 1: SURE 6.00, divergence 3
}

// For a service: a bad sample has its error in its place, and what is in work is counted. Any number of requests share
// the pipeline, each with a stream of its own, whose source is read no faster than its results are taken; package
// expvar publishes the counts. A whole service: examples/service.
func ExamplePipeline_Stream() {
	ctx := context.Background()
	problem := vjp.Problem{A: linops.Identity(3), R: prox.NewL1(1), Device: array.NewHost()}
	solver, err := vjp.NewSolver(ctx, "ista", problem, vjp.Options{})
	if err != nil {
		panic(err)
	}
	defer solver.Release() // after the last request
	vars := new(expvar.Map)
	p, err := pipeline.New(solver, pipeline.Options{Sigma2: 1, Parallel: 4, KeepGoing: true,
		Observe: func(_ context.Context, e pipeline.Event) {
			switch {
			case !e.Ended:
				vars.Add("begun", 1)
			case e.Err != nil:
				vars.Add("failed", 1)
			default:
				vars.Add("done", 1)
				vars.AddFloat("solve_seconds", e.Risk.Solve.Seconds())
			}
		}})
	if err != nil {
		panic(err)
	}
	ys := func(yield func([]float64, error) bool) {
		_ = yield([]float64{3, 0.5, 0}, nil) && yield([]float64{1, 2}, nil) && yield([]float64{2, -2, 5}, nil)
	}
	for risk, err := range p.Stream(ctx, ys) {
		fmt.Println(risk.Index, risk.SURE, err)
	}
	fmt.Println(vars.Get("begun"), "begun,", vars.Get("done"), "done,", vars.Get("failed"), "failed,", p.InFlight(),
		"in flight")
	// Output:
	// 0 0.25 <nil>
	// 1 0 sample 1: y has 2 values, expected 3
	// 2 6 <nil>
	// 3 begun, 2 done, 1 failed, 0 in flight
}

// A result prints itself.
func ExampleRisk() {
	ctx := context.Background()
	problem := vjp.Problem{A: linops.Identity(5), R: prox.NewL1(1), Device: array.NewHost()}
	solver, err := vjp.NewSolver(ctx, "ista", problem, vjp.Options{Sigma2: 0.5})
	if err != nil {
		panic(err)
	}
	defer solver.Release()
	p, err := pipeline.New(solver, pipeline.Options{Sigma2: 0.5, KeepB: true})
	if err != nil {
		panic(err)
	}
	risk, err := p.Estimate(ctx, []float64{4.2, -3.1, 0.4, 2.6, -0.3})
	if err != nil {
		panic(err)
	}
	risk.Total = 0
	fmt.Println(risk)
	fmt.Printf("b = %.1f\n", risk.B)
	// Output:
	// SURE 3.75 ± 2.6, 0.75 per coordinate, for d = 5 and sigma2 = 0.5
	// residual 3.25, divergence 3, exact
	// 2 iterations, optimality 0.0e+00, mu_hat within 1.6e-07 of the exact estimate; implicit derivative; 0 s
	// ± leaves out: an error of sigma2, 0.005 for each per cent; weights chosen by looking at y
	// b = [3.2 -2.1 0.0 1.6 0.0]
}
