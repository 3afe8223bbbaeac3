package pipeline_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/vjp"
)

// counted counts the solves.
type counted struct {
	vjp.Solver
	solves int
}

func (c *counted) Solve(ctx context.Context, y array.Batch) (*vjp.Solution, error) {
	c.solves++
	return c.Solver.Solve(ctx, y)
}

// timeless is a risk without what a second solve may change.
func timeless(r pipeline.Risk) pipeline.Risk {
	r.Solve, r.Divergence, r.Total, r.InnerSteps = 0, 0, 0, 0
	return r
}

func sameRisk(a, b pipeline.Risk) bool {
	if !slices.Equal(a.MuHat, b.MuHat) || !slices.Equal(a.B, b.B) {
		return false
	}
	a.MuHat, a.B, b.MuHat, b.B = nil, nil, nil, nil
	return a.Index == b.Index && a.SURE == b.SURE && a.StdErr == b.StdErr && a.Residual == b.Residual &&
		a.Trace == b.Trace && a.Convergence == b.Convergence && a.Unsolved == b.Unsolved
}

// Repeat solves once, gives what streams under each seed give, and frees everything,
// also when nobody wants the rest.
func TestRepeatIsAStreamUnderEachSeedWithOneSolve(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for name, problem := range map[string]func(*testing.T, array.Device) (vjp.Solver, int){"lasso": lasso,
			"completion": completion} {
			for _, estimator := range []string{hutch.HutchPP, hutch.Hutchinson, pipeline.Auto} {
				solver, d := problem(t, dev)
				o := pipeline.Options{Estimator: estimator, Queries: 12, Seed: 99}
				var y []float64
				for v := range stream(d, 1) {
					y = v
				}
				// The first solve puts the pattern of a selection on the device, to stay.
				if _, err := newPipeline(t, solver, o).Estimate(t.Context(), y); err != nil {
					t.Fatal(err)
				}
				before := dev.Stats().LiveBytes
				c := &counted{Solver: solver}
				p := newPipeline(t, c, o)
				seeds := []uint64{7, 8, 11}
				k := 0
				for risk, err := range p.Repeat(context.Background(), 5, y, slices.Values(seeds)) {
					if err != nil {
						t.Fatal(err)
					}
					o.Seed = seeds[k]
					alone := newPipeline(t, solver, o)
					for want, err := range alone.StreamFrom(context.Background(), 5, stream(d, 1)) {
						if err != nil {
							t.Fatal(err)
						}
						if want.Index != 5 || !sameRisk(timeless(risk), timeless(want)) {
							t.Errorf("%s %s seed %d: %+v, alone %+v", name, estimator, seeds[k], risk.Trace, want.Trace)
						}
					}
					k++
				}
				if k != 3 || c.solves != 1 {
					t.Errorf("%s: %d results, %d solves", name, k, c.solves)
				}
				for range p.Repeat(context.Background(), 0, y, slices.Values(seeds)) {
					break
				}
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				for _, err := range p.Repeat(ctx, 0, y, slices.Values(seeds)) {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("cancelled: %v", err)
					}
				}
				if after := dev.Stats().LiveBytes; after != before {
					t.Errorf("%s: %d bytes are left", name, after-before)
				}
			}
		}
	})
}

// A stream that goes on at a sample gives what the whole gives from there.
func TestStreamFromGoesOnWhereAStreamEnded(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		solver, d := lasso(t, dev)
		p := newPipeline(t, solver, pipeline.Options{Queries: 12, Parallel: 3})
		var whole []pipeline.Risk
		for risk, err := range p.Stream(context.Background(), stream(d, 6)) {
			if err != nil {
				t.Fatal(err)
			}
			whole = append(whole, timeless(risk))
		}
		var rest [][]float64
		for y := range stream(d, 6) {
			rest = append(rest, y)
		}
		next := 4
		ys := func(yield func([]float64, error) bool) {
			for _, y := range rest[4:] {
				if !yield(y, nil) {
					return
				}
			}
		}
		for risk, err := range p.StreamFrom(context.Background(), 4, ys) {
			if err != nil {
				t.Fatal(err)
			}
			if risk.Index != next || !sameRisk(timeless(risk), whole[next]) {
				t.Errorf("sample %d differs from the whole's", next)
			}
			next++
		}
		if next != 6 {
			t.Errorf("the stream ended at sample %d", next)
		}
	})
}
