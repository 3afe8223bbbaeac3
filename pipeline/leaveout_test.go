package pipeline_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/vjp"
)

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
		if !(r.ALOProbesErr > 0) || math.Abs(r.ALO-exact.ALO) > 4*r.ALOProbesErr ||
			!slices.Equal(how(r), []string{"48 probes of its own"}) {
			t.Errorf("hidden %t: %g ± %g, expected %g; %v", hidden, r.ALO, r.ALOProbesErr, exact.ALO, how(r))
		}
		if !r.Trace.Exact || r.Trace.Trace != exact.Trace.Trace {
			t.Errorf("hidden %t: trace %+v, expected %+v", hidden, r.Trace, exact.Trace)
		}
		// The same bits in other batches, and of a stream with others in flight.
		again := estimate(dear, pipeline.Options{ALO: true, Seed: 1, Batch: 3, Parallel: 2})
		if again.ALO != r.ALO || again.ALOStdErr != r.ALOStdErr || again.ALOProbesErr != r.ALOProbesErr {
			t.Errorf("hidden %t: %g ± %g, in other batches %g ± %g", hidden, r.ALO, r.ALOStdErr, again.ALO,
				again.ALOStdErr)
		}
		// With the exact trace the diagonal is exact, whatever it takes.
		if r := estimate(dear, pipeline.Options{ALO: true, Estimator: hutch.Exact}); r.ALOProbesErr != 0 ||
			math.Abs(r.ALO/exact.ALO-1) > 1e-9 {
			t.Errorf("hidden %t, exact trace: %g ± %g, expected %g", hidden, r.ALO, r.ALOProbesErr, exact.ALO)
		}
	}
}
