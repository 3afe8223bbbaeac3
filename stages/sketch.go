package stages

import (
	"context"

	"surepipe/hutch"
)

// Sketch is the stage that draws Rademacher vectors s and computes their images
// M s, batch by batch.
func Sketch() Stage[Probes, Probes] {
	return func(ctx context.Context, in <-chan Probes, out chan<- Probes) error {
		return each(ctx, in, func(p Probes) error {
			if job := p.Job; p.Count > 0 && !job.failed() {
				err := job.sweeps(ctx, p.Count, func(first, n int) error {
					first += p.First
					v := job.sketch.Device().Alloc(n, job.sketch.N())
					defer v.Free()
					hutch.Rademacher(v, job.Seed, uint64(job.Index), first)
					return job.sketchOracle().Apply(ctx, job.sketch.Rows(first, first+n), v, job.sketchLeft[first:first+n])
				})
				if err := job.settle(ctx, job.device(), err); err != nil {
					return err
				}
			}
			return send(ctx, out, p)
		})
	}
}
