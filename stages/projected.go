package stages

import (
	"context"
	"fmt"

	"surepipe/array"
	"surepipe/hutch"
)

// ProjectedTrace is the stage that computes q_i* M q_i for the probes of the
// projected phase: the rows of Q, or the unit vectors of an exact trace. Other
// probes pass.
func ProjectedTrace() Stage[Probes, Probes] {
	return func(ctx context.Context, in <-chan Probes, out chan<- Probes) error {
		return each(ctx, in, func(p Probes) error {
			if p.Phase == Projected && p.Count > 0 {
				v, mv := p.Job.basis, p.Job.images
				if p.Job.Plan.Exact {
					mu := p.Job.Solution.MuHat
					v = mu.Device().Alloc(p.Count, mu.N())
					defer v.Free()
					hutch.UnitVectors(v, p.First)
				} else {
					v = v.Rows(p.First, p.First+p.Count)
				}
				if !mv.IsZero() {
					mv = mv.Rows(p.First, p.First+p.Count)
				}
				if err := images(ctx, p, v, mv, p.Job.tally.AddProjected); err != nil {
					return err
				}
			}
			return send(ctx, out, p)
		})
	}
}

// images computes M v for a batch of probes, in mv where that is given, and hands
// both to a tally.
func images(ctx context.Context, p Probes, v, mv array.Batch, add func(first int, v, mv array.Batch)) error {
	if mv.IsZero() {
		mv = v.Device().Alloc(v.K(), v.N())
		defer mv.Free()
	}
	if err := p.Job.oracle().Apply(ctx, mv, v); err != nil {
		return fmt.Errorf("sample %d: %w", p.Job.Index, err)
	}
	add(p.First, v, mv)
	return nil
}
