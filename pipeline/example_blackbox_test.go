package pipeline_test

import (
	"context"
	"fmt"
	"math"

	"surepipe/pipeline"
)

// Hard thresholding as a black box. It is not continuous: differences miss its jumps, and say so,
// and the coupled bootstrap needs none.
func ExampleBlackBox() {
	y := make([]float64, 500)
	for i := range y {
		y[i] = 2 * math.Sin(float64(i*i)) // stands for data
	}
	box := &pipeline.BlackBox{Name: "hard", D: len(y), Eval: func(_ context.Context, weights, y []float64) ([]float64,
		error) {
		f := make([]float64, len(y))
		for i, v := range y {
			if math.Abs(v) > weights[0] {
				f[i] = v
			}
		}
		return f, nil
	}}
	for _, method := range []pipeline.BlackBoxMethod{pipeline.MonteCarlo, pipeline.Antithetic} {
		box.Divergence = method
		risk, err := box.Estimate(context.Background(), []float64{1.9}, y, pipeline.Options{Sigma2: 1, Parallel: 4})
		if err != nil {
			panic(err)
		}
		fmt.Println(method, "trusted:", risk.Trusted())
	}
	// Output:
	// monte-carlo trusted: false
	// antithetic trusted: true
}
