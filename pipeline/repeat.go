package pipeline

import (
	"context"
	"fmt"
	"iter"

	"surepipe/array"
	"surepipe/vjp"
)

// Repeat solves once at y, as the sample of that index, and estimates the risk there with the
// probes of each seed in turn, in place of Options.Seed: the spread of the results is the trace
// estimator's own. Each is bit-identical to that of a stream under that seed, except for its times,
// which include the solve only in the first result, and for InnerSteps, which is the largest so
// far; none is verified. It ends like [Pipeline.StreamFrom]; the solution is held until then.
func (p *Pipeline) Repeat(ctx context.Context, index int, y []float64, seeds iter.Seq[uint64]) iter.Seq2[Risk, error] {
	return func(yield func(Risk, error) bool) {
		held := &holder{Solver: p.solver}
		defer held.release()
		one := func(yield func([]float64, error) bool) { yield(y, nil) }
		unsolved := 0
		for seed := range seeds {
			again := &Pipeline{solver: held, dev: p.dev, d: p.d, o: p.o, plan: p.plan, closed: p.closed,
				workers: p.workers}
			again.o.Seed, again.o.Verify = seed, nil
			for risk, err := range again.StreamFrom(ctx, index, one) {
				if err == nil {
					// The linearization counts the unsolved probes of all seeds.
					risk.Unsolved, unsolved = risk.Unsolved-unsolved, risk.Unsolved
				} else {
					err = fmt.Errorf("seed %d: %w", seed, err)
				}
				if !yield(risk, err) || err != nil {
					return
				}
			}
		}
	}
}

// holder solves once and shares the linearization, with copies of the estimates, which the caller
// frees.
type holder struct {
	vjp.Solver
	y        array.Batch // its own, to which the solution may refer
	solution *vjp.Solution
}

// Solve is not safe for concurrent use: Repeat sends one sample at a time.
func (h *holder) Solve(ctx context.Context, y array.Batch) (*vjp.Solution, error) {
	if h.solution == nil {
		h.y = clone(y.Device(), y)
		s, err := h.Solver.Solve(ctx, h.y)
		if err != nil {
			return nil, err
		}
		h.solution = s
	}
	lent := *h.solution
	if lent.Implied != nil {
		lent.Implied = lent.Implied.Lend()
	} else {
		lent.B, lent.MuHat = clone(y.Device(), lent.B), clone(y.Device(), lent.MuHat)
	}
	lent.Linearization = lentLinearization{lent.Linearization}
	return &lent, nil
}

func clone(dev array.Device, b array.Batch) array.Batch {
	c := dev.Alloc(b.K(), b.N())
	dev.Copy(c, b)
	return c
}

func (h *holder) release() {
	if h.solution != nil {
		h.solution.Release()
	}
	h.y.Free()
}

// lentLinearization is a linearization that its user must not release.
type lentLinearization struct{ vjp.Linearization }

func (lentLinearization) Release() {}
