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
			if p.Phase == Residual {
				if err := residual(ctx, p); err != nil {
					return err
				}
			}
			return send(ctx, out, p)
		})
	}
}

// residual draws a batch of probes, projects them off Q and applies M.
func residual(ctx context.Context, p Probes) error {
	mu := p.Job.Solution.MuHat
	z := mu.Device().Alloc(p.Count, mu.N())
	defer z.Free()
	hutch.Rademacher(z, p.Job.Seed, uint64(p.Job.Index), p.Job.Plan.Sketch+p.First)
	if p.Job.rank > 0 {
		hutch.Deflate(z, z, p.Job.basis.Rows(0, p.Job.rank))
	}
	return images(ctx, p, z, array.Batch{}, p.Job.tally.AddResidual)
}
