package pipeline_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// BenchmarkUnrolled times one estimate, solve and divergence, by the unrolled
// derivative with 102 queries, at the number of iterations that SURE-CR's own
// stopping rule takes on the same data: a table of docs/benchmarks.md.
func BenchmarkUnrolled(b *testing.B) {
	for _, c := range []struct {
		name, problem, solver string
		iterations            int
		data                  func() (problems.Data, error)
	}{
		{"lasso 2500x5000", "lasso", "fista", 159,
			func() (problems.Data, error) { return problems.GenerateLasso(2500, 5000, 0) }},
		{"matrix completion 200x100", "matrix-completion", "admm", 170,
			func() (problems.Data, error) { return problems.GenerateMatrixCompletion(200, 100, 0) }},
		{"robust pca 100x100", "robust-pca", "admm", 47,
			func() (problems.Data, error) { return problems.GenerateRobustPCA(100, 100, 0) }},
		{"robust pca 250x250", "robust-pca", "admm", 51,
			func() (problems.Data, error) { return problems.GenerateRobustPCA(250, 250, 0) }},
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
			s, err := vjp.NewSolver(context.Background(), c.solver, p.Solve(),
				vjp.Options{Tol: 1e-300, MaxIter: c.iterations, Derivative: vjp.Unrolled})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Release()
			pipe, err := pipeline.New(s, pipeline.Options{Sigma2: *data.Sigma2, Estimator: hutch.HutchPP,
				Queries: hutch.DefaultQueries})
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

// BenchmarkScaling times one estimate with the default solver and derivative and 102
// queries of Hutch++ on the paper's problems at four sizes, and fits the exponent of
// time against the number p of unknowns: a table of docs/benchmarks.md. Run it with
// -benchtime 5x; the times are medians.
func BenchmarkScaling(b *testing.B) {
	for _, c := range []struct {
		problem string
		sizes   [][2]int
		data    func(m, n int) (problems.Data, error)
	}{
		{"lasso", [][2]int{{625, 1250}, {1250, 2500}, {2500, 5000}, {5000, 10000}},
			func(m, n int) (problems.Data, error) { return problems.GenerateLasso(m, n, 0) }},
		{"matrix-completion", [][2]int{{200, 100}, {400, 200}, {800, 400}, {1600, 800}},
			func(m, n int) (problems.Data, error) { return problems.GenerateMatrixCompletion(m, n, 0) }},
		{"robust-pca", [][2]int{{100, 100}, {200, 200}, {400, 400}, {800, 800}},
			func(m, n int) (problems.Data, error) { return problems.GenerateRobustPCA(m, n, 0) }},
	} {
		b.Run(c.problem, func(b *testing.B) {
			var unknowns, times []float64
			for _, size := range c.sizes {
				data, err := c.data(size[0], size[1])
				if err != nil {
					b.Fatal(err)
				}
				dev := array.NewHost()
				p, err := problems.New(c.problem, dev, data, problems.Hyper{})
				if err != nil {
					b.Fatal(err)
				}
				s, err := vjp.NewSolver(b.Context(), p.DefaultSolver, p.Solve(), vjp.Options{})
				if err != nil {
					b.Fatal(err)
				}
				pipe, err := pipeline.New(s, pipeline.Options{Sigma2: *data.Sigma2, Estimator: hutch.HutchPP,
					Queries: hutch.DefaultQueries})
				if err != nil {
					b.Fatal(err)
				}
				var solve, divergence, total []float64
				for range max(b.N, 1) {
					risk, err := pipe.Estimate(b.Context(), data.Y)
					if err != nil {
						b.Fatal(err)
					}
					solve = append(solve, risk.Solve.Seconds())
					divergence = append(divergence, risk.Divergence.Seconds())
					total = append(total, risk.Total.Seconds())
				}
				b.Logf("%s %d x %d: solve %.3f s, divergence %.3f s, total %.3f s", c.problem, size[0], size[1],
					median(solve), median(divergence), median(total))
				unknowns, times = append(unknowns, float64(p.P)), append(times, median(total))
				s.Release()
				p.Release()
			}
			b.ReportMetric(exponent(unknowns, times), "exponent")
			b.ReportMetric(exponent(unknowns[2:], times[2:]), "last-exponent")
		})
	}
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// exponent is the slope of the least squares line through (log x, log y).
func exponent(x, y []float64) float64 {
	var mx, my, xy, xx float64
	for i := range x {
		mx += math.Log(x[i]) / float64(len(x))
		my += math.Log(y[i]) / float64(len(x))
	}
	for i := range x {
		dx := math.Log(x[i]) - mx
		xy += dx * (math.Log(y[i]) - my)
		xx += dx * dx
	}
	return xy / xx
}
