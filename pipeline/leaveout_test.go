package pipeline_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// spreadOfProbes are the estimates of leave-one-out over seeds, relative to that from the exact diagonal:
// their bias, their spread, and the root mean square of the error bar for the probes.
type spreadOfProbes struct{ exact, bias, sd, bar float64 }

func overSeeds(t testing.TB, solver vjp.Solver, y []float64, o pipeline.Options, seeds int) (l spreadOfProbes) {
	t.Helper()
	exact := false
	estimate := func(o pipeline.Options, seeds int) (values, bars []float64) {
		pipe, err := pipeline.New(solver, o)
		if err != nil {
			t.Fatal(err)
		}
		all := func(yield func(uint64) bool) {
			for s := range seeds {
				if !yield(uint64(s)) {
					return
				}
			}
		}
		for r, err := range pipe.Repeat(t.Context(), 0, y, all) {
			if err != nil {
				t.Fatal(err)
			}
			if (r.ALOProbesErr == 0) != exact || r.ALOStdErr <= r.ALOProbesErr {
				t.Fatalf("alo %g ± %g, %g of it from the probes", r.ALO, r.ALOStdErr, r.ALOProbesErr)
			}
			values, bars = append(values, r.ALO), append(bars, r.ALOProbesErr*r.ALOProbesErr)
		}
		return values, bars
	}
	values, bars := estimate(o, seeds)
	exact = true
	one, _ := estimate(pipeline.Options{Estimator: hutch.Exact}, 1)
	l.exact = one[0]
	mean, sd := stat.MeanStdDev(values, nil)
	l.bias, l.sd, l.bar = mean/l.exact-1, sd/l.exact, math.Sqrt(stat.Mean(bars, nil))/l.exact
	return l
}

// leaveOutProblems are one of each kind.
func leaveOutProblems(t testing.TB) map[string]struct {
	name  string
	data  problems.Data
	hyper problems.Hyper
} {
	t.Helper()
	lasso, err := problems.GenerateLasso(250, 400, 1)
	if err != nil {
		t.Fatal(err)
	}
	completion, err := completion3(36, 30, 1)
	if err != nil {
		t.Fatal(err)
	}
	rpca, err := problems.GenerateSVT(16, 16, 1)
	if err != nil {
		t.Fatal(err)
	}
	type problem = struct {
		name  string
		data  problems.Data
		hyper problems.Hyper
	}
	return map[string]problem{
		"lasso":             {"lasso", lasso, problems.Hyper{Lambda: problems.OfMax(0.2)}},
		"lasso, large df":   {"lasso", lasso, problems.Hyper{Lambda: problems.OfMax(0.03)}},
		"matrix-completion": {"matrix-completion", completion, problems.Hyper{}},
		// Entries of the sparse part determine their own fit, so that it must be empty.
		"robust-pca": {"robust-pca", rpca, problems.Hyper{Lambda: problems.OfMax(0.1), Gamma: problems.OfMax(2)}},
	}
}

// Leave-one-out from the probes of a trace agrees with that from the exact diagonal: no bias beyond
// 3%, and an error bar that is the spread over seeds, within 25% and what 50 seeds leave open.
func TestLeaveOneOutFromProbes(t *testing.T) {
	for label, p := range leaveOutProblems(t) {
		t.Run(label, func(t *testing.T) {
			problem, err := problems.New(p.name, array.NewHost(), p.data, p.hyper)
			if err != nil {
				t.Fatal(err)
			}
			defer problem.Release()
			solver, err := vjp.NewSolver(t.Context(), problem.DefaultSolver, problem.Solve(), vjp.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer solver.Release()
			for _, queries := range []int{30, 100} {
				// A LASSO's diagonal would be the exact one.
				o := pipeline.Options{Estimator: hutch.Hutchinson, Queries: queries, ALO: p.name != "lasso"}
				l := overSeeds(t, solver, p.data.Y, o, 50)
				t.Logf("%d probes: exact %.4g, bias %+.4f, spread %.4f, error bar %.4f", queries, l.exact, l.bias, l.sd, l.bar)
				if math.Abs(l.bias) > 0.03 {
					t.Errorf("%d probes: bias %+.3f of the exact %g, spread %.3f", queries, l.bias, l.exact, l.sd)
				}
				if ratio := l.bar / l.sd; ratio < 0.65 || ratio > 1.5 {
					t.Errorf("%d probes: error bar %.3g for a spread of %.3g", queries, l.bar, l.sd)
				}
			}
		})
	}
}
