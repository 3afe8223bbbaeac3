package stages

import (
	"context"
	"fmt"

	"surepipe/hutch"
)

// Sketch is the stage that draws Rademacher vectors s and computes their images
// M s, batch by batch.
func Sketch() Stage[Probes, Probes] {
	return func(ctx context.Context, in <-chan Probes, out chan<- Probes) error {
		return each(ctx, in, func(p Probes) error {
			if p.Count > 0 {
				job := p.Job
				err := job.sweeps(ctx, p.Count, func(first, n int) error {
					first += p.First
					v := job.sketch.Device().Alloc(n, job.sketch.N())
					defer v.Free()
					hutch.Rademacher(v, job.Seed, uint64(job.Index), first)
					return job.sketchOracle().Apply(ctx, job.sketch.Rows(first, first+n), v)
				})
				if err != nil {
					return fmt.Errorf("sample %d: %w", job.Index, err)
				}
			}
			return send(ctx, out, p)
		})
	}
}
