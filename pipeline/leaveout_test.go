package pipeline_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
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

// costly says that the diagonal takes much work, or, with hidden set, that it is not known.
type costly struct {
	vjp.Solver
	hidden bool
}

type costlyLinearization struct {
	vjp.Linearization
	hidden bool
}

func (l costlyLinearization) Closed() vjp.Closed {
	c := l.Linearization.Closed()
	c.DiagonalFlops = 1e15
	if l.hidden {
		c.Diagonal = nil
	}
	return c
}

func (s costly) Solve(ctx context.Context, y array.Batch) (*vjp.Solution, error) {
	sol, err := s.Solver.Solve(ctx, y)
	if err == nil {
		sol.Linearization = costlyLinearization{sol.Linearization, s.hidden}
	}
	return sol, err
}

// Where the trace takes no probes leave-one-out takes probes of its own where it is asked for and the
// exact diagonal is not known, or takes more work; and the trace stays exact.
func TestLeaveOneOutTakesProbesOfItsOwn(t *testing.T) {
	s, d := lasso(t, array.NewHost())
	y := gaussian(rand.New(rand.NewPCG(3, 4)), d)
	estimate := func(s vjp.Solver, o pipeline.Options) pipeline.Risk {
		t.Helper()
		pipe, err := pipeline.New(s, o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := pipe.Estimate(t.Context(), y)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	how := func(r pipeline.Risk) (chosen []string) {
		for _, c := range r.Choices {
			if c.Part == "leave-one-out" {
				chosen = append(chosen, c.Chosen)
			}
		}
		return chosen
	}
	if r := estimate(s, pipeline.Options{}); !math.IsNaN(r.ALO) || how(r) != nil || len(r.Warnings()) > 0 {
		t.Errorf("unasked: alo %g, %v, %v", r.ALO, how(r), r.Warnings())
	}
	exact := estimate(s, pipeline.Options{ALO: true})
	if exact.ALOProbesErr != 0 || !slices.Equal(how(exact), []string{"the exact diagonal"}) {
		t.Errorf("exact: ± %g, %v", exact.ALOProbesErr, how(exact))
	}
	for _, hidden := range []bool{false, true} {
		dear := costly{s, hidden}
		r := estimate(dear, pipeline.Options{ALO: true, Seed: 1})
		if !(r.ALOProbesErr > 0) || math.Abs(r.ALO-exact.ALO) > 4*r.ALOProbesErr || !slices.Equal(how(r), []string{"48 probes of its own"}) {
			t.Errorf("hidden %t: %g ± %g, expected %g; %v", hidden, r.ALO, r.ALOProbesErr, exact.ALO, how(r))
		}
		if !r.Trace.Exact || r.Trace.Trace != exact.Trace.Trace {
			t.Errorf("hidden %t: trace %+v, expected %+v", hidden, r.Trace, exact.Trace)
		}
		// The same bits in other batches, and of a stream with others in flight.
		again := estimate(dear, pipeline.Options{ALO: true, Seed: 1, Batch: 3, Parallel: 2})
		if again.ALO != r.ALO || again.ALOStdErr != r.ALOStdErr || again.ALOProbesErr != r.ALOProbesErr {
			t.Errorf("hidden %t: %g ± %g, in other batches %g ± %g", hidden, r.ALO, r.ALOStdErr, again.ALO, again.ALOStdErr)
		}
		// With the exact trace the diagonal is exact, whatever it takes.
		if r := estimate(dear, pipeline.Options{ALO: true, Estimator: hutch.Exact}); r.ALOProbesErr != 0 || math.Abs(r.ALO/exact.ALO-1) > 1e-9 {
			t.Errorf("hidden %t, exact trace: %g ± %g, expected %g", hidden, r.ALO, r.ALOProbesErr, exact.ALO)
		}
	}
}

// With an intercept each leverage is 1/d larger.
func TestLeaveOneOutFromProbesWithIntercept(t *testing.T) {
	data, err := problems.GenerateLasso(150, 200, 3)
	if err != nil {
		t.Fatal(err)
	}
	data.Intercept = true
	problem, err := problems.New("lasso", array.NewHost(), data, problems.Hyper{Lambda: problems.OfMax(0.2)})
	if err != nil {
		t.Fatal(err)
	}
	defer problem.Release()
	solver, err := vjp.NewSolver(t.Context(), problem.DefaultSolver, problem.Solve(), vjp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer solver.Release()
	l := overSeeds(t, solver, data.Y, pipeline.Options{Estimator: hutch.Hutchinson, Queries: 100}, 10)
	if math.Abs(l.bias) > 4*l.bar/math.Sqrt(10) {
		t.Errorf("bias %+.4f of the exact %g, error bar %.4f", l.bias, l.exact, l.bar)
	}
}
