package verify_test

import (
	"context"
	"fmt"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/verify"
	"surepipe/vjp"
)

// A soft threshold of four numbers: two exceed it, and the derivative is checked along all four
// unit vectors.
func Example() {
	ctx := context.Background()
	dev := array.NewHost()
	defer dev.Close()
	problem := vjp.Problem{A: linops.Identity(4), R: prox.NewL1(1), Device: dev}
	solver, err := vjp.NewSolver(ctx, "fista", problem, vjp.Options{Sigma2: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer solver.Release()
	p, err := pipeline.New(solver, pipeline.Options{Sigma2: 1, Verify: &verify.Options{Problem: problem}})
	if err != nil {
		fmt.Println(err)
		return
	}
	risk, err := p.Estimate(ctx, []float64{3, -0.5, 0.25, -2})
	if err != nil {
		fmt.Println(err)
		return
	}
	v := risk.Verification
	fmt.Println("divergence", risk.Trace.Trace)
	fmt.Println("passed:", v.Passed(), "after", v.Probes, "probes,", v.Boundaries, "at a boundary")
	// Output:
	// divergence 2
	// passed: true after 4 probes, 0 at a boundary
}
