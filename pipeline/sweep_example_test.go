package pipeline_test

import (
	"context"
	"fmt"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/vjp"
)

// The threshold of soft thresholding at one y: two large entries, four of the size of the noise. A
// lower threshold keeps more of the noise, a higher one shrinks the large entries more.
func ExampleSweep() {
	y := []float64{6, -5, 0.4, -0.3, 0.2, 0.1}
	family := pipeline.Family{
		Problem: vjp.Problem{A: linops.Identity(len(y)), Device: array.NewHost()}, Solver: "ista",
		Regularizer: func(weights []float64) (prox.Prox, error) { return prox.NewL1(weights[0]), nil },
	}
	grid := [][]float64{{0.25, 0.5, 1, 2, 4}}
	options := pipeline.SweepOptions{Refine: -1, Options: pipeline.Options{Sigma2: 0.2, Parallel: 2}}
	for point, err := range pipeline.Sweep(context.Background(), y, family, grid, options) {
		if err != nil {
			panic(err)
		}
		fmt.Printf("%-9s lambda %.2f: SURE %.2f, divergence %.0f\n", point.Stage, point.Weights[0], point.SURE,
			point.Trace.Trace)
		if c := point.Choice; c != nil {
			fmt.Printf("within one standard error of it: points %v\n", c.Alike)
			fmt.Printf("point 2 is %.1f ± %.1f above\n", c.Differences[2].Value, c.Differences[2].StdErr)
		}
	}
	// Output:
	// grid      lambda 4.00: SURE 31.90, divergence 2
	// grid      lambda 2.00: SURE 7.90, divergence 2
	// grid      lambda 1.00: SURE 1.90, divergence 2
	// grid      lambda 0.50: SURE 0.40, divergence 2
	// grid      lambda 0.25: SURE 0.70, divergence 4
	// minimizer lambda 0.50: SURE 0.40, divergence 2
	// within one standard error of it: points [3 4]
	// point 2 is 1.5 ± 0.6 above
}
