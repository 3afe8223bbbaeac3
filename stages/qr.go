package stages

import (
	"context"
	"fmt"

	"surepipe/array"
	"surepipe/hutch"
)

// QR is the stage that waits for the whole of a job's sketch, orthonormalizes
// it, and sends out the probes of the two phases that follow; where there are
// none, or the job has failed, a single empty batch. Plans that need no basis only wait for their sketch.
// It must run as one worker, for it counts each job's batches.
func QR() Stage[Probes, Probes] {
	return func(ctx context.Context, in <-chan Probes, out chan<- Probes) error {
		arrived := map[*Job]int{}
		return each(ctx, in, func(p Probes) error {
			job := p.Job
			if arrived[job] += p.Count; arrived[job] < job.Plan.Sketch {
				return nil
			}
			delete(arrived, job)
			if !job.failed() && job.Plan.NeedsBasis() {
				if err := job.orthonormalize(); err != nil {
					if err := job.settle(ctx, job.device(), fmt.Errorf("the sketch of the Jacobian: %w", err)); err != nil {
						return err
					}
				}
			}
			if job.failed() {
				return send(ctx, out, Probes{Job: job, Phase: Projected})
			}
			job.tally = hutch.NewTally(job.Plan, job.rank, job.Seed)
			job.basisLeft = make([]float64, job.tally.Projected())
			if job.closed == nil {
				job.planned = job.tally.Projected() + job.Plan.Residual
			}
			if job.planned == 0 {
				return send(ctx, out, Probes{Job: job, Phase: Projected})
			}
			for _, phase := range []struct {
				phase Phase
				count int
			}{{Projected, job.tally.Projected()}, {Residual, job.Plan.Residual}} {
				err := split(phase.count, job.Batch, func(first, n int) error {
					return send(ctx, out, Probes{Job: job, Phase: phase.phase, First: first, Count: n})
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// orthonormalize makes the basis of the sketch, and frees what no one needs any
// more.
func (j *Job) orthonormalize() (err error) {
	j.basis = j.sketch.Device().Alloc(j.sketch.K(), j.sketch.N())
	j.rank, err = hutch.Orthonormalize(j.basis, j.sketch)
	if !j.Plan.Combines() {
		j.sketch.Free()
		j.sketch = array.Batch{}
	} else if err == nil {
		j.images = j.basis.Device().Alloc(j.rank, j.basis.N())
	}
	return err
}
