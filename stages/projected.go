package stages

import (
	"context"
	"math"

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
	return images(ctx, job, job.basisShare(), v, mv, func(v, mv array.Batch, left []float64) {
		copy(job.basisLeft[first:first+n], left)
		job.tally.AddProjected(first, v, mv, left)
	})
}

// basisShare is the share of vectors of the basis: they are few and of length 1, and all of
// them together lack half as much as a random probe of length sqrt(d) may, a thousandth of
// what a form can be at most.
func (j *Job) basisShare() float64 {
	const most = 1e-3
	d := float64(len(j.Y))
	return min(j.share*d/(2*float64(max(j.rank, 1))), most*math.Sqrt(2*d))
}

// images computes M v for a batch of probes, in mv where that is given, and hands both
// to add with the oracle's bounds; share is that of its forms.
func images(ctx context.Context, job *Job, share float64, v, mv array.Batch, add func(v, mv array.Batch, left []float64)) error {
	if mv.IsZero() {
		mv = v.Device().Alloc(v.K(), v.N())
		defer mv.Free()
	}
	left := make([]float64, v.K())
	if err := job.oracle(share).Apply(ctx, mv, v, left); err != nil {
		return err
	}
	add(v, mv, left)
	return v.Device().Err()
}
