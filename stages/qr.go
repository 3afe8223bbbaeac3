package stages

import (
	"context"
	"fmt"

	"surepipe/array"
	"surepipe/hutch"
)

// QR is the stage that waits for the whole of a job's sketch, orthonormalizes
// it, and sends out the probes of the two phases that need the basis. It must
// run as one worker, for it counts each job's batches.
func QR() Stage[Probes, Probes] {
	return func(ctx context.Context, in <-chan Probes, out chan<- Probes) error {
		arrived := map[*Job]int{}
		return each(ctx, in, func(p Probes) error {
			job := p.Job
			if arrived[job] += p.Count; arrived[job] < job.Plan.Sketch {
				return nil
			}
			delete(arrived, job)
			if job.Plan.Sketch > 0 {
				if err := job.orthonormalize(); err != nil {
					return fmt.Errorf("sample %d: the sketch of the Jacobian: %w", job.Index, err)
				}
			}
			job.tally = hutch.NewTally(job.Plan, job.rank, job.Seed)
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

// orthonormalize turns the sketch into the basis.
func (j *Job) orthonormalize() (err error) {
	j.basis = j.sketch.Device().Alloc(j.sketch.K(), j.sketch.N())
	j.rank, err = hutch.Orthonormalize(j.basis, j.sketch)
	j.sketch.Free()
	j.sketch = array.Batch{}
	return err
}
