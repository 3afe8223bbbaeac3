package stages

import (
	"context"
	"fmt"

	"surepipe/hutch"
)

// phases are those after the sketch.
var phases = []hutch.Phase{hutch.Projected, hutch.Residual}

// QR is the step that waits for the whole of a job's sketch, makes the orthonormal basis of
// its span where the plan has one, and sends out the probes of the two phases that follow. Where
// there are none, or the job has failed, it sends a single empty batch.
func QR() Step[Probes, Probes] {
	return func(ctx context.Context, p Probes, send func(Probes) error) error {
		job := p.Job
		if int(job.sketched.Add(int64(p.Count))) < job.count(hutch.Sketching) {
			return nil
		}
		if !job.failed() && job.run != nil && !job.queried {
			if err := job.run.EndSketch(); err != nil {
				if err := job.settle(ctx, fmt.Errorf("the sketch of the Jacobian: %w", err)); err != nil {
					return err
				}
			}
		}
		if !job.failed() && !job.queried {
			for _, phase := range phases {
				job.planned += job.count(phase)
			}
		}
		if job.planned == 0 {
			return send(Probes{Job: job, Phase: hutch.Projected})
		}
		for _, phase := range phases {
			err := split(job.count(phase), job.batch, func(first, n int) error {
				return send(Probes{Job: job, Phase: phase, First: first, Count: n})
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}
