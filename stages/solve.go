package stages

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/loss"
	"surepipe/progress"
	"surepipe/vjp"
)

// Settings are the settings for turning a sample into a job, besides the solver and its problem.
type Settings struct {
	// Plan is the trace estimator with its queries, and Seed the seed of its probes.
	Plan hutch.Plan
	Seed uint64
	// Closed takes the trace from the linearization where it is known without probes.
	Closed bool
	// TraceError, if positive, is the share to which [Refine] reduces the trace's error; quadratic
	// forms are computed as accurately as that requires.
	TraceError float64
	// Batch is the largest number of probes in one sweep; 0 chooses it so that a
	// sweep's working memory stays near the linearization's own.
	Batch   int
	Workers int
	// KeepB downloads b for [Risk].B, and NoMuHat leaves out [Risk].MuHat.
	KeepB, NoMuHat bool
	// ALO makes sure of leave-one-out: by the diagonal of D mu_hat, where that is known and cheap, or by
	// probes of its own where the trace needs none. Without it leave-one-out takes the probes of
	// the trace, and is absent where there are none.
	ALO bool
	// Unwatched leaves out leave-one-out where it is not asked for and takes more than a diagonal that is known.
	Unwatched bool
	// Together are the observations that leave-group-out leaves out together.
	Together Together
	// Noise says how the noise is correlated.
	Noise Autoregression
	// Compare, unless nil, has every job leave a digest by which its result can be compared with
	// others at the same y ([Risk].Digest).
	Compare *Comparing
	// Report, unless nil, receives the reports of the work on a sample, from its solve to its
	// verification. Calls come from several goroutines at once.
	Report func(sample int, r progress.Report)
}

// batchBytes is the working memory that all sweeps of a sample together may always have: enough to
// hide the overhead of a sweep, little enough to stay near the caches.
const batchBytes = 64 << 20

// iterativeBytes is the same where a sweep is conjugate gradients.
const iterativeBytes = 1 << 30

// momentBytes is the same where probes are used by their moments and y is short. For a long y it is
// half of what y takes: the sweeps are then the only other large part of the memory.
const momentBytes = 256 << 20

const (
	// Above maxBatch probes a sweep gains nothing.
	maxBatch = 96
	// A probe of at least wideProbe bytes is enough work for the device to share among its
	// processors; phases of narrower probes are divided among the workers.
	wideProbe = 128 << 10
	// Of vectors so large that few of them take an eighth of iterativeBytes, fewWide probes at a time
	// are as fast as many, or as many as the linearization takes together.
	fewWide = 4
)

// Solve is the step that runs the solver on every sample, on the device of its problem, and sends
// out the probes of the job's sketch. For a plan without a sketch, or a sample whose solve fails,
// it sends a single empty batch. It registers the jobs in jobs.
//
// It solves at y' of the problem's Origin.
func Solve(solver vjp.Solver, s Settings, jobs *Jobs) Step[Sample, Probes] {
	dev := solver.Problem().Device
	weight := sync.OnceValue(func() float64 { return meanWeight(solver.Problem().Loss) })
	return func(ctx context.Context, sample Sample, send func(Probes) error) error {
		job, err := solveOne(s.reporting(ctx, sample.Index), solver, s, sample, weight)
		if err != nil {
			job = &Job{Sample: sample, shared: dev}
			if err := job.settle(ctx, err); err != nil {
				return err
			}
			return send(Probes{Job: job, Phase: hutch.Sketching})
		}
		jobs.add(job)
		if job.plan.Dim > 0 {
			o := hutch.Options{Seed: s.Seed, Sample: uint64(sample.Index), Share: formShare(s),
				Diagonal: job.watched(), Seen: job.seen()}
			job.run = hutch.NewRun(job.view, job.plan, job.matrix(), o)
		}
		if err := job.settle(ctx, job.commonImages(ctx)); err != nil {
			return err
		}
		if err := job.settle(ctx, job.probeEarly(ctx)); err != nil {
			return err
		}
		if job.count(hutch.Sketching) == 0 {
			return send(Probes{Job: job, Phase: hutch.Sketching})
		}
		return split(job.count(hutch.Sketching), job.batch, func(first, n int) error {
			return send(Probes{Job: job, Phase: hutch.Sketching, First: first, Count: n})
		})
	}
}

// reporting returns a context in which the work on a sample reports to s.Report.
func (s Settings) reporting(ctx context.Context, sample int) context.Context {
	if s.Report == nil {
		return ctx
	}
	return progress.With(ctx, func(r progress.Report) { s.Report(sample, r) })
}

func meanWeight(l loss.Loss) float64 {
	if w := loss.Weighing(l); w != nil {
		return stat.Mean(w, nil)
	}
	return 0
}

func solveOne(ctx context.Context, solver vjp.Solver, s Settings, sample Sample, weight func() float64) (*Job, error) {
	problem := solver.Problem()
	// All memory for the sample is allocated on the device of its y: a view of its own, so that
	// running out of memory does not affect the other samples.
	view := problem.Device.Request()
	job := &Job{
		Sample: sample, shared: problem.Device, view: view,
		problem: problem, solver: solver, settings: s,
		sweeper: sweeper{batch: s.Batch}, clock: clock{begun: time.Now()},
	}
	if err := checkLoss(problem.Loss, sample.Y); err != nil {
		return nil, err
	}
	y := Observations(view, problem, sample.Y)
	var sol *vjp.Solution
	done := false
	defer func() {
		if !done { // also where the linearization panics
			if sol != nil {
				sol.Release()
			}
			job.within.release()
			y.Free()
		}
	}()
	sol, err := solver.Solve(ctx, y)
	if err != nil {
		return nil, cause(view, err)
	}
	if sol.Linearization == nil {
		return nil, fmt.Errorf("stages: the solution of solver %q has no derivative, expected a solver whose "+
			"vjp.Options.Derivative is not %q", solver.Name(), vjp.None)
	}
	job.solution, job.y, job.meanWeight = sol, y, weight()
	if err := job.linearizeWithin(ctx, solver); err != nil {
		return nil, err
	}
	if !s.ALO && s.Compare == nil { // these need the images of probes
		job.moments = sol.Linearization.Moments()
	}
	c := sol.Linearization.Closed()
	if c.Known && s.Closed {
		job.closed = hutch.Known(c.Trace, c.Frobenius2, s.Seed)
	}
	inner := sol.Linearization.Inner()
	if _, bounded := view.Available(); inner.Iterative && !bounded && sol.Linearization.ProbeBytes() >= wideProbe {
		job.turn = make(chan struct{}, 1)
	}
	if job.batch == 0 {
		job.batch = chooseBatch(view, sol.Linearization, job.moments, s.Plan, s.Workers, job.turn != nil)
	}
	if job.misfit(); view.Err() != nil {
		return nil, view.Err()
	}
	job.solved = time.Now()
	if err := job.leave(c); err != nil {
		return nil, cause(view, err)
	}
	done = true
	return job, nil
}

// digest.
func (j *Job) misfit() {
	sol, dev := j.solution, j.view
	if sol.Implied != nil && j.settings.Compare == nil && loss.Quadratic(j.problem.Loss) {
		j.residual = sol.Implied.Residual2
		return
	}
	mu := sol.MuHat
	if sol.Implied != nil {
		mu = sol.Implied.WriteMuHat(dev)
		defer mu.Free()
	}
	z := dev.Alloc(1, j.y.N())
	defer z.Free()
	dev.Lin(z, 1, j.y, -1, mu)
	if l := j.problem.Loss; loss.Quadratic(l) {
		j.residual = z.Dot(z)
	} else {
		j.at = lossAt(l, mu, j.y)
		j.lossTerms = lossTerms(l, j.at, mu, j.y)
		j.residual = j.lossTerms.misfit()
	}
	j.open(z)
}

// formShare is the share for [vjp.Linearization]'s Forms: the bounded error is a tenth of the
// trace's where that is a tenth of sigma2 sqrt(2d), and proportionally less or more where the trace must be
// more accurate or less, or there are more probes or fewer.
//
// Leave-one-out magnifies errors where leverages are near 1, and gets a tenth of that where it was
// asked for.
func formShare(s Settings) float64 {
	const usualError, usualProbes, mostLoose = 0.1, 100, 10
	share := hutch.DefaultShare
	if s.ALO {
		share /= 10
	}
	if s.TraceError > 0 {
		return share * min(mostLoose, s.TraceError/usualError)
	}
	return share * min(mostLoose, math.Sqrt(usualProbes/float64(max(s.Plan.Residual, 1))))
}

// chooseBatch is the number of probes in a sweep: a whole phase, or a worker's share of it where a
// probe is little work, but no more than the allowed working memory, which is about that of the
// tape. A device with memory of its own shares a sweep among its own processors, and reports how
// much memory it has. Where sweeps take turns (see [Job]) one may have all of the memory, and a phase is
// divided into about equal sweeps: they share what they read, and kernels work on many probes at a time.
func chooseBatch(dev array.Device, l vjp.Linearization, m hutch.Moments, plan hutch.Plan, workers int, turns bool) int {
	phase := plan.Vectors()
	probe, whole := sweepMemory(l, m, plan, hutch.Residual)
	together := l.Inner().Together
	if turns {
		room := int64(iterativeBytes)
		if whole {
			room = max(room/8, min(room, probe*int64(max(fewWide, together))))
		} else {
			room = min(room, max(momentBytes, 8*int64(plan.Dim)/2))
		}
		most := max(min(maxBatch, int(room/probe)), fewest)
		if together > 0 && most > together {
			most -= most % together
		}
		sweeps := max((phase+most-1)/most, 1)
		each := max((phase+sweeps-1)/sweeps, fewest)
		if together > 0 && each > together {
			each = min((each+together-1)/together*together, most)
		}
		return each
	}
	room := max(batchBytes, l.Bytes()/2)
	if l.Inner().Iterative {
		// There is no tape to compare with, and conjugate gradients read all their data at every
		// step.
		room = max(room, iterativeBytes)
	}
	if free, bounded := dev.Available(); bounded {
		room = max(room, free)
	} else if probe < wideProbe {
		phase = (phase + workers - 1) / workers
	}
	// Two stages sweep at the same time, each with all its workers.
	room /= int64(2 * workers)
	return int(max(min(int64(phase), maxBatch, room/probe), 2))
}
