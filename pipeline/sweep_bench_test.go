package pipeline_test

import (
	"context"
	"fmt"
	"testing"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/vjp"
)

// What chains cost: the iterations of 40 points from 0.05 to twice lambda_max, in one
// chain, in chains of the default length, and each from 0.
func BenchmarkSweepChains(b *testing.B) {
	for name, draw := range map[string]func() (problems.Data, error){
		"lasso":             func() (problems.Data, error) { return problems.GenerateLasso(500, 1000, 1) },
		"matrix-completion": func() (problems.Data, error) { return problems.GenerateMatrixCompletion(100, 50, 1) },
		"robust-pca":        func() (problems.Data, error) { return problems.GenerateRobustPCA(50, 50, 1) },
	} {
		data, err := draw()
		if err != nil {
			b.Fatal(err)
		}
		dev := array.NewHost()
		p, err := problems.New(name, dev, data, problems.Hyper{Lambda: problems.OfMax(1)})
		if err != nil {
			b.Fatal(err)
		}
		grid := [][]float64{axis(0.05*p.Lambda, 2*p.Lambda, 40)}
		family := pipeline.Family{
			Problem: p.Solve(), Solver: p.DefaultSolver, Settings: vjp.Options{Tol: 1e-8},
			Regularizer: func(w []float64) (prox.Prox, error) { return p.Reweighted(w[0], p.Lambda2, p.Gamma) },
		}
		for _, chain := range []int{40, pipeline.DefaultChain, 1} {
			b.Run(fmt.Sprintf("%s/chain=%d", name, chain), func(b *testing.B) {
				o := pipeline.SweepOptions{Chain: chain, Refine: -1, Options: pipeline.Options{Sigma2: *data.Sigma2,
					Queries: 12}}
				iterations := 0
				for range b.N {
					iterations = 0
					for point, err := range pipeline.Sweep(context.Background(), data.Y, family, grid, o) {
						if err != nil {
							b.Fatal(err)
						}
						if point.Stage == pipeline.GridStage {
							iterations += point.Iterations
						}
					}
				}
				b.ReportMetric(float64(iterations), "iterations")
			})
		}
		p.Release()
	}
}
