package stages

import (
	"context"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/vjp"
)

// Settings are what turns a sample into a job.
type Settings struct {
	Device array.Device
	Plan   hutch.Plan
	// Closed takes the trace from the linearization where it knows it.
	Closed bool
	Seed   uint64
	// TraceError, if positive, is the share that [Refine] brings the trace's error to; forms
	// are as accurate as that needs.
	TraceError float64
	// Intercept solves at y less its mean, and adds the mean to mu_hat and its derivative
	// to the trace. The solver's estimates must then be orthogonal to the constants.
	Intercept bool
	// Batch is the largest number of probes in one sweep; 0 chooses it so that a
	// sweep's working memory stays near the linearization's own.
	Batch int
	// Workers is how many goroutines each of the three probe stages has.
	Workers int
}

// batchBytes is the working memory that all sweeps of a sample together may
// always have: enough to hide what a sweep costs beside its arithmetic, little
// enough to stay near the caches.
const batchBytes = 64 << 20

// formerBytes is the same where a sweep is conjugate gradients.
const formerBytes = 1 << 30

const (
	// Above maxBatch probes a sweep gains nothing more.
	maxBatch = 96
	// A probe of at least wideProbe bytes is work enough for the device to share
	// between its processors; phases of narrower ones are shared out between the
	// workers.
	wideProbe = 128 << 10
)

// Solve is the stage that runs the solver on every sample and sends out the
// probes of the job's sketch; a plan without one, or a sample that the solver fails at,
// sends a single empty batch.
func Solve(solver vjp.Solver, s Settings, jobs *Jobs) Stage[Sample, Probes] {
	return func(ctx context.Context, in <-chan Sample, out chan<- Probes) error {
		return each(ctx, in, func(sample Sample) error {
			job, err := solveOne(ctx, solver, s, sample)
			if err != nil {
				job = &Job{Sample: sample, shared: s.Device}
				if err := job.settle(ctx, job.device(), err); err != nil {
					return err
				}
				return send(ctx, out, Probes{Job: job, Phase: Sketching})
			}
			jobs.add(job)
			if job.Plan.Sketch == 0 {
				return send(ctx, out, Probes{Job: job, Phase: Sketching})
			}
			job.sketch = job.view.Alloc(job.Plan.Sketch, len(sample.Y))
			job.sketchLeft = make([]float64, job.Plan.Sketch)
			return split(job.Plan.Sketch, job.Batch, func(first, n int) error {
				return send(ctx, out, Probes{Job: job, Phase: Sketching, First: first, Count: n})
			})
		})
	}
}

func solveOne(ctx context.Context, solver vjp.Solver, s Settings, sample Sample) (*Job, error) {
	begin := time.Now()
	// Whatever is made for the sample is allocated on y's device: a view of its own, which keeps
	// a lack of memory from the other samples.
	view := s.Device.Request()
	y := view.Alloc(1, len(sample.Y))
	defer y.Free()
	values, mean, constants := sample.Y, 0.0, 0.0
	if s.Intercept {
		mean, constants = stat.Mean(values, nil), 1
		values = slices.Clone(values)
		floats.AddConst(-mean, values)
	}
	view.Upload(y, values)
	sol, err := solver.Solve(ctx, y)
	if err != nil {
		return nil, err
	}
	job := &Job{Sample: sample, shared: s.Device, view: view, Solution: sol, Plan: s.Plan, Seed: s.Seed, Batch: s.Batch, share: formShare(s), mean: mean, constants: constants}
	if c := sol.Linearization.Closed(); c.Known {
		job.lower, job.higher, job.margin = c.Trace-c.Low, c.High-c.Trace, c.Margin
		if s.Closed {
			job.Plan = hutch.Plan{Estimator: hutch.Exact, Dim: len(sample.Y), Exact: true}
			job.closed = &hutch.Estimate{Estimator: hutch.Exact, Trace: c.Trace, Frobenius2: c.Frobenius2, Seed: s.Seed, Exact: true}
		}
	}
	if job.Batch == 0 {
		job.Batch = chooseBatch(view, sol.Linearization, job.Plan, s.Workers)
	}
	view.Lin(y, 1, y, -1, sol.MuHat)
	var r [1]float64
	view.Dot(r[:], y, y)
	if err := view.Err(); err != nil {
		sol.Release()
		return nil, err
	}
	job.Residual = r[0]
	job.Begun, job.Solved = begin, time.Now()
	return job, nil
}

// formShare is the share of [vjp.Linearization]'s Forms: the error that is bounded is a tenth of the
// trace's, where that is a tenth of sigma2 sqrt(2d), and less in proportion where the trace
// is to be more accurate or the probes are many.
func formShare(s Settings) float64 {
	const share, usualError, usualProbes = 0.01, 0.1, 100
	if s.TraceError > 0 {
		return share * min(1, s.TraceError/usualError)
	}
	return share * math.Sqrt(min(1, usualProbes/float64(max(s.Plan.Residual, 1))))
}

// chooseBatch is the number of probes in a sweep: a whole phase, or a worker's
// share of it where a probe is little work, and no more than fit in room for the
// working memory, which is about that of the tape. A device with memory of its own
// shares a sweep between its own processors, and says how much room there is.
func chooseBatch(dev array.Device, l vjp.Linearization, plan hutch.Plan, workers int) int {
	phase := max(plan.Sketch, plan.Residual)
	if plan.Exact {
		phase = plan.Dim
	}
	room := max(batchBytes, l.Bytes()/2)
	if l.Inner().Iterative {
		// There is no tape to measure by, and conjugate gradients read all that they keep
		// at every step.
		room = max(room, formerBytes)
	}
	if free, bounded := dev.Available(); bounded {
		room = max(room, free)
	} else if l.ProbeBytes() < wideProbe {
		phase = (phase + workers - 1) / workers
	}
	// Two stages sweep at the same time, each with all its workers.
	room /= int64(2 * workers)
	return int(max(min(int64(phase), maxBatch, room/l.ProbeBytes()), 2))
}
