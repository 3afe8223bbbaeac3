package stages

import (
	"context"

	"surepipe/array"
	"surepipe/hutch"
)

// ResidualTrace is the stage that computes g_i* M g_i for fresh random probes
// projected off Q, g = (I - QQ*) z: Hutchinson's estimator of what the sketch
// left. Other probes pass.
func ResidualTrace() Stage[Probes, Probes] {
	return func(ctx context.Context, in <-chan Probes, out chan<- Probes) error {
		return each(ctx, in, func(p Probes) error {
			if job := p.Job; p.Phase == Residual && !job.failed() {
				if err := job.settle(ctx, job.device(), residual(ctx, p)); err != nil {
					return err
				}
			}
			return send(ctx, out, p)
		})
	}
}

// residual draws a batch of probes, projects them off Q and applies M.
func residual(ctx context.Context, p Probes) error {
	job := p.Job
	mu := job.Solution.MuHat
	return job.sweeps(ctx, p.Count, func(first, n int) error {
		first += p.First
		z := mu.Device().Alloc(n, mu.N())
		defer z.Free()
		hutch.Rademacher(z, job.Seed, uint64(job.Index), job.Plan.Sketch+first)
		if job.rank > 0 {
			hutch.Deflate(z, z, job.basis.Rows(0, job.rank))
		}
		return images(ctx, job, job.share, z, array.Batch{}, func(v, mv array.Batch, left []float64) {
			job.tally.AddResidual(first, v, mv, left)
		})
	})
}
