package pipeline_test

import (
	"context"
	"testing"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// BenchmarkUnrolled times one estimate, solve and divergence, by the unrolled
// derivative with 102 queries, at the number of iterations that SURE-CR's own
// stopping rule takes on the same data: the README's table of speed.
func BenchmarkUnrolled(b *testing.B) {
	for _, c := range []struct {
		name, problem, solver string
		iterations            int
		data                  func() (problems.Data, error)
	}{
		{"lasso 2500x5000", "lasso", "fista", 159, func() (problems.Data, error) { return problems.GenerateLasso(2500, 5000, 0) }},
		{"matrix completion 200x100", "matrix-completion", "admm", 170, func() (problems.Data, error) { return problems.GenerateMatrixCompletion(200, 100, 0) }},
		{"robust pca 100x100", "robust-pca", "admm", 47, func() (problems.Data, error) { return problems.GenerateRobustPCA(100, 100, 0) }},
		{"robust pca 250x250", "robust-pca", "admm", 51, func() (problems.Data, error) { return problems.GenerateRobustPCA(250, 250, 0) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			data, err := c.data()
			if err != nil {
				b.Fatal(err)
			}
			dev := array.NewHost()
			p, err := problems.New(c.problem, dev, data, problems.Hyper{})
			if err != nil {
				b.Fatal(err)
			}
			defer p.Release()
			s, err := vjp.NewSolver(context.Background(), c.solver, p.Solve(), vjp.Options{Tol: 1e-300, MaxIter: c.iterations, Derivative: vjp.Unrolled})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Release()
			pipe, err := pipeline.New(dev, s, p.D, pipeline.Options{Sigma2: *data.Sigma2})
			if err != nil {
				b.Fatal(err)
			}
			var solve, divergence float64
			var tape int64
			for b.Loop() {
				risk, err := pipe.Estimate(context.Background(), data.Y)
				if err != nil {
					b.Fatal(err)
				}
				solve += risk.Solve.Seconds()
				divergence += risk.Divergence.Seconds()
				tape = risk.CacheBytes
			}
			b.ReportMetric(solve/float64(b.N), "solve-s/op")
			b.ReportMetric(divergence/float64(b.N), "divergence-s/op")
			b.ReportMetric(float64(tape)/1e6, "cache-MB")
			b.ReportMetric(float64(dev.Stats().PeakBytes)/1e6, "peak-MB")
		})
	}
}
