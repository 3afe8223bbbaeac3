package pipeline_test

import (
	"context"
	"math"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// completion3 is the paper's matrix completion with three times its lambda:
// still a useful estimator, and solved in fewer iterations.
func completion3(m, n int, seed uint64) (problems.Data, error) {
	data, err := problems.GenerateMatrixCompletion(m, n, seed)
	if err == nil {
		lambda := 3 * *data.Lambda
		data.Lambda = &lambda
	}
	return data, err
}

// small draws the three problems of the paper at small size.
func small(t *testing.T) map[string]problems.Data {
	t.Helper()
	all := map[string]problems.Data{}
	add := func(name string, data problems.Data, err error) {
		if err != nil {
			t.Fatal(err)
		}
		all[name] = data
	}
	lasso, err := problems.GenerateLasso(104, 150, 1)
	add("lasso", lasso, err)
	completion, err := completion3(36, 30, 1)
	add("matrix-completion", completion, err)
	rpca, err := problems.GenerateRobustPCA(11, 11, 1)
	add("robust-pca", rpca, err)
	return all
}

func open(t *testing.T, dev array.Device, name string, data problems.Data, o pipeline.Options) *pipeline.Pipeline {
	t.Helper()
	return openAs(t, dev, name, data, o, vjp.Auto)
}

// openAs is open with a derivative: the unrolled one knows no closed form of a trace.
func openAs(t *testing.T, dev array.Device, name string, data problems.Data, o pipeline.Options,
	d vjp.Derivative) *pipeline.Pipeline {
	t.Helper()
	p, err := problems.New(name, dev, data, problems.Hyper{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := vjp.NewSolver(context.Background(), p.DefaultSolver, p.Solve(), vjp.Options{Derivative: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Release(); p.Release() })
	o.Sigma2 = *data.Sigma2
	pipe, err := pipeline.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return pipe
}

// Over 400 samples the mean of SURE - loss is within 4 of its standard errors
// of 0, and SURE's own error bar tells the spread of SURE - loss to 25%; an emulated card does
// fewer, which know the spread to 1/sqrt(2 samples).
func TestSUREIsUnbiasedAndItsErrorBarIsHonest(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		if testing.Short() {
			t.Skip("hundreds of estimates")
		}
		samples, known := 200, 0.25
		if arraytest.Emulated(t, dev) {
			samples = 24
			known = 3 / math.Sqrt(2*float64(samples))
		}
		for name, data := range small(t) {
			pipe := open(t, dev, name, data, pipeline.Options{Parallel: 4, Seed: 9})
			ys := func(yield func([]float64, error) bool) {
				for i := range samples {
					if !yield(problems.Sample(data.Mu, *data.Sigma2, 77, i), nil) {
						return
					}
				}
			}
			var sum, sum2, bar2 float64
			for risk, err := range pipe.Stream(context.Background(), ys) {
				if err != nil {
					t.Fatal(err)
				}
				loss := 0.0
				for i, v := range risk.MuHat {
					loss += (v - data.Mu[i]) * (v - data.Mu[i])
				}
				e := risk.SURE - loss
				sum += e
				sum2 += e * e
				bar2 += risk.StdErr * risk.StdErr
			}
			n := float64(samples)
			mean := sum / n
			rms := math.Sqrt(sum2 / n)
			z := mean / math.Sqrt((sum2/n-mean*mean)/(n-1))
			ratio := math.Sqrt(bar2/n) / rms
			t.Logf("%s: mean of SURE - loss %.3g (%.1f standard errors), spread %.4g, error bar / spread %.3f", name,
				mean, z, rms, ratio)
			if math.Abs(z) > 4 {
				t.Errorf("%s: the mean of SURE - loss is %.1f standard errors from 0", name, z)
			}
			if math.Abs(ratio-1) > known {
				t.Errorf("%s: the error bar is %.2f times the spread", name, ratio)
			}
		}
	})
}

// 100 seeds on one matrix completion, 12 on an emulated card: the trace estimator spreads SURE less
// than SURE's own error bar, and its standard error says by how much.
func TestTheTraceEstimatorIsNotTheLargestError(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		if testing.Short() {
			t.Skip("hundreds of estimates")
		}
		data, err := completion3(40, 35, 2)
		if err != nil {
			t.Fatal(err)
		}
		var sum, sum2, bar, said2 float64
		seeds := 50.0
		if arraytest.Emulated(t, dev) {
			seeds = 12
		}
		for seed := range uint64(seeds) {
			pipe := openAs(t, dev, "matrix-completion", data, pipeline.Options{Seed: seed}, vjp.Unrolled)
			risk, err := pipe.Estimate(context.Background(), data.Y)
			if err != nil {
				t.Fatal(err)
			}
			if risk.Trace.Exact {
				t.Fatal("the trace is exact: the test says nothing")
			}
			sum += risk.SURE
			sum2 += risk.SURE * risk.SURE
			bar = risk.StdErr
			se := 2 * *data.Sigma2 * risk.Trace.StdErr
			said2 += se * se
		}
		mean := sum / seeds
		spread := math.Sqrt((sum2/seeds - mean*mean) * seeds / (seeds - 1))
		said := math.Sqrt(said2 / seeds)
		t.Logf("spread over seeds %.3g, 2 sigma2 se(div) %.3g, SURE's error bar %.3g", spread, said, bar)
		if spread >= bar {
			t.Errorf("SURE spreads by %g over seeds, its error bar is %g", spread, bar)
		}
		if said < spread/2 || said > 2*spread {
			t.Errorf("the trace's standard error says %g, the spread is %g", said, spread)
		}
	})
}
