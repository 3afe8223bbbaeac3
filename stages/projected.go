package stages

import (
	"context"

	"surepipe/array"
	"surepipe/hutch"
)

// ProjectedTrace is the stage that computes q_i* M q_i for the probes of the
// projected phase: the rows of Q, or the unit vectors of an exact trace. Other
// probes pass.
func ProjectedTrace() Stage[Probes, Probes] {
	return func(ctx context.Context, in <-chan Probes, out chan<- Probes) error {
		return each(ctx, in, func(p Probes) error {
			if job := p.Job; p.Phase == Projected && p.Count > 0 && !job.failed() {
				err := job.sweeps(ctx, p.Count, func(first, n int) error { return projected(ctx, job, p.First+first, n) })
				if err := job.settle(ctx, job.device(), err); err != nil {
					return err
				}
			}
			return send(ctx, out, p)
		})
	}
}

func projected(ctx context.Context, job *Job, first, n int) error {
	v, mv := job.basis, job.images
	if job.Plan.Exact {
		mu := job.Solution.MuHat
		v = mu.Device().Alloc(n, mu.N())
		defer v.Free()
		hutch.UnitVectors(v, first)
	} else {
		v = v.Rows(first, first+n)
	}
	if !mv.IsZero() {
		mv = mv.Rows(first, first+n)
	}
	return images(ctx, job, v, mv, func(v, mv array.Batch, left []float64) {
		copy(job.basisLeft[first:first+n], left)
		job.tally.AddProjected(first, v, mv, left)
	})
}

// images computes M v for a batch of probes, in mv where that is given, and hands both
// to add with the oracle's bounds.
func images(ctx context.Context, job *Job, v, mv array.Batch, add func(v, mv array.Batch, left []float64)) error {
	if mv.IsZero() {
		mv = v.Device().Alloc(v.K(), v.N())
		defer mv.Free()
	}
	left := make([]float64, v.K())
	if err := job.oracle().Apply(ctx, mv, v, left); err != nil {
		return err
	}
	add(v, mv, left)
	return v.Device().Err()
}
