package pipeline_test

import (
	"math"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// products are D mu_hat for package hutch.
func products(l vjp.Linearization) hutch.Matrix {
	return hutch.Matrix{Apply: l.Apply}
}

// The stages and hutch.Trace, which knows no goroutines, are two ways to the same
// number.
func TestThePipelinesTraceIsThatOfHutch(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		s, d := lasso(t, dev)
		for _, estimator := range hutch.Estimators() {
			pipe := newPipeline(t, s, pipeline.Options{Estimator: estimator, Queries: hutch.DefaultQueries, Seed: 3,
				Batch: 20})
			for y := range stream(d, 1) {
				risk, err := pipe.Estimate(t.Context(), y)
				if err != nil {
					t.Fatal(err)
				}
				b := dev.Alloc(1, d)
				dev.Upload(b, y)
				sol, err := s.Solve(t.Context(), b)
				b.Free()
				if err != nil {
					t.Fatal(err)
				}
				plan, err := hutch.NewPlan(estimator, hutch.DefaultQueries, d)
				if err != nil {
					t.Fatal(err)
				}
				want, err := hutch.Trace(t.Context(), dev, plan, products(sol.Linearization), hutch.Options{Seed: 3})
				sol.Release()
				if err != nil || risk.Trace != want {
					t.Errorf("%s: %+v in stages, %+v, %v at once", estimator, risk.Trace, want, err)
				}
			}
		}
	})
}

// An estimate of rank 0 has an empty basis, and no probes after the sketch.
func TestAnEstimateThatIsZeroHasDivergenceZero(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		data, err := problems.GenerateLasso(150, 40, 1)
		if err != nil {
			t.Fatal(err)
		}
		lambda := math.Inf(1)
		data.Lambda = &lambda
		for _, estimator := range hutch.Estimators() {
			pipe := open(t, dev, "lasso", data, pipeline.Options{Estimator: estimator})
			leaks(t, dev, func() {
				risk, err := pipe.Estimate(t.Context(), data.Y)
				if err != nil || risk.Trace.Trace != 0 || risk.Trace.StdErr != 0 || risk.Trace.Frobenius2 != 0 {
					t.Errorf("%s: %+v, %v", estimator, risk.Trace, err)
				}
			})
		}
	})
}

// BenchmarkEstimators reports the root mean square errors of all estimators at
// 102 queries, over 30 seeds, on the Jacobians of the paper's problems: absolute, and 2 sigma2
// times that as a share of SURE's own error bar; and the time of one estimate.
func BenchmarkEstimators(b *testing.B) {
	const queries, seeds = 102, 30
	for _, c := range []struct {
		name, problem string
		data          func() (problems.Data, error)
	}{
		{"lasso 250x500", "lasso", func() (problems.Data, error) { return problems.GenerateLasso(250, 500, 1) }},
		{"matrix completion 100x50", "matrix-completion",
			func() (problems.Data, error) { return problems.GenerateMatrixCompletion(100, 50, 1) }},
		{"robust pca 50x50", "robust-pca", func() (problems.Data, error) {
			return problems.GenerateRobustPCA(50, 50,
				1)
		}},
	} {
		data, err := c.data()
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
		y := dev.Alloc(1, p.D)
		dev.Upload(y, data.Y)
		sol, err := s.Solve(b.Context(), y)
		if err != nil {
			b.Fatal(err)
		}
		dev.Lin(y, 1, y, -1, sol.MuHat)
		var residual [1]float64
		dev.Dot(residual[:], y, y)
		estimate := func(b *testing.B, name string, seed uint64) hutch.Estimate {
			plan, err := hutch.NewPlan(name, queries, p.D)
			if err != nil {
				b.Fatal(err)
			}
			e, err := hutch.Trace(b.Context(), dev, plan, products(sol.Linearization), hutch.Options{Seed: seed})
			if err != nil {
				b.Fatal(err)
			}
			return e
		}
		exact := estimate(b, hutch.Exact, 0)
		sigma2 := *data.Sigma2
		bar := math.Sqrt(max(0, 4*sigma2*(residual[0]+sigma2*exact.Frobenius2)-2*sigma2*sigma2*float64(p.D)))
		for _, name := range hutch.Estimators() {
			if name == hutch.Exact {
				continue
			}
			b.Run(c.name+"/"+name, func(b *testing.B) {
				for seed := uint64(0); b.Loop(); seed++ {
					estimate(b, name, seed)
				}
				var squares, said, norms float64
				for seed := range uint64(seeds) {
					e := estimate(b, name, seed)
					squares += (e.Trace - exact.Trace) * (e.Trace - exact.Trace) / seeds
					said += e.StdErr * e.StdErr / seeds
					norms += (e.Frobenius2 - exact.Frobenius2) * (e.Frobenius2 - exact.Frobenius2) / seeds
				}
				b.ReportMetric(exact.Trace, "trace")
				b.ReportMetric(math.Sqrt(squares), "rms-error")
				b.ReportMetric(math.Sqrt(said), "rms-stderr")
				b.ReportMetric(math.Sqrt(norms)/exact.Frobenius2, "fro2-rel-error")
				b.ReportMetric(100*2*sigma2*math.Sqrt(squares)/bar, "%-of-bar")
			})
		}
		y.Free()
		sol.Release()
		s.Release()
		p.Release()
	}
}
