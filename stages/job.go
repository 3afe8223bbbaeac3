package stages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/risk"
	"surepipe/solve/engine"
	"surepipe/verify"
	"surepipe/vjp"
)

// Sample is one y, the input of the stages.
type Sample struct {
	// Index is the sample's position in the stream; together with the seed it determines the
	// probes.
	Index int
	// Y holds the d observations. No stage modifies it.
	Y []float64
}

// Job is a sample on its way through the stages, from [Solve] to [Assemble], which all share it by
// its pointer. Solve makes it, with the solution and the estimate of the trace in progress; the
// stages of probes write to that estimate; Assemble reads it. Each field is written by Solve, before the job is
// sent on, unless its comment names another stage.
//
// A job's device memory belongs to the [Jobs] in which Solve registered it: Assemble releases it
// there, and the code that runs the stages releases the jobs that remain after an early end.
type Job struct {
	// Sample is the sample of the job.
	Sample

	// The device that all samples share, and the job's view of it, on which all memory for the sample is
	// allocated. A fault of the device ends all jobs, a fault of the view only this job. A job whose solve failed
	// has no view.
	shared, view array.Device
	// The solver with its problem, and the settings.
	problem  vjp.Problem
	solver   vjp.Solver
	settings Settings

	// The solution and its linearization; y, to which they may refer, as the solver was given it; and
	// ||y - mu_hat||^2.
	solution *vjp.Solution
	y        array.Batch
	residual float64
	// Where the derivative is that at other observations, these with their solution; else nil.
	within *within
	// Where the loss is not quadratic, what takes the place of the residual, which is then a stand-in by which
	// errors are weighed, and the loss at the solver's fit; else nil and 0.
	lossTerms *LossTerms
	at        atFit
	// The mean of the weights of the observations, 0 where they have none.
	meanWeight float64

	// The moments of the derivative, where no images of probes are needed.
	moments hutch.Moments

	traceEstimate
	leverageSource
	sweeper
	progressCounts
	clock

	// What a digest needs, nil where none was asked for: by Solve and the stages of probes.
	traces       *traces
	verification *verify.Verification
	// By any stage: the first failure. A job that has failed travels on to Assemble, without further work.
	failure atomic.Pointer[SampleError]
}

// traceEstimate is the estimate of the solver's part of the trace.
type traceEstimate struct {
	// The probes of the trace, or where that is known those of leave-one-out; nil where there are none, and
	// then the plan's Dim is 0.
	run  *hutch.Run
	plan hutch.Plan
	// The trace where it is known without probes; else its Estimator is "".
	closed hutch.Estimate
}

func (t *traceEstimate) known() bool { return t.closed.Estimator != "" }

func (t *traceEstimate) count(p hutch.Phase) int {
	if t.run == nil {
		return 0
	}
	return t.run.Count(p)
}

func (t *traceEstimate) estimate() (hutch.Estimate, error) {
	if t.known() {
		return t.closed, nil
	}
	return t.run.Estimate()
}

// progressCounts count the probes of a job.
type progressCounts struct {
	// By QR: how many are sent out after the sketch.
	planned int
	// By QR, of the sketch, and by Refine, Verify and Assemble: how many they have seen.
	sketched, finished, arrived, ready atomic.Int64
}

// last adds n to the probes that a stage has seen, and reports whether these are now all.
func (c *progressCounts) last(seen *atomic.Int64, n int) bool {
	return seen.Add(int64(n)) == int64(c.planned)
}

// clock has the times at which the solver started on the sample and finished, and at which Verify began; that is
// zero without it.
type clock struct{ begun, solved, ended time.Time }

// spent sets the durations of a result, up to now or to the check.
func (c clock) spent(r *Risk) {
	end := time.Now()
	if !c.ended.IsZero() {
		end = c.ended
	}
	r.Solve, r.Divergence, r.Total = c.solved.Sub(c.begun), end.Sub(c.solved), end.Sub(c.begun)
}

// Probes is a batch of probes of one job on its way from stage to stage. It says which probes they
// are; their vectors exist on the device only while a stage works on them, and the results go to
// the job.
type Probes struct {
	Job   *Job
	Phase hutch.Phase
	// First is the first probe of the batch, counted within its phase, and Count how many there
	// are. A batch with Count 0 carries a job past the phases that it does not have.
	First, Count int
}

// Work reports whether there are probes in the batch.
func (p Probes) Work() bool { return p.Count > 0 }

// settle records err as the job's failure and returns nil, so that the job travels to its end
// without further work; or it returns an error that ends all jobs: the end of ctx, a fault of the
// shared device or a panic.
func (j *Job) settle(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if fault := j.shared.Err(); fault != nil {
		return fmt.Errorf("sample %d: %w", j.Index, fault)
	}
	if p := new(PanicError); errors.As(err, &p) {
		return fmt.Errorf("sample %d: %w", j.Index, err)
	}
	j.failure.CompareAndSwap(nil, &SampleError{j.Index, cause(j.view, err)})
	return nil
}

// cause is what a failure on a view is reported as: the view's fault, which names the device, the
// operation and the size, in place of what followed from it, such as numbers that are not finite.
func cause(view array.Device, err error) error {
	if view == nil {
		return err
	}
	if p := new(PanicError); errors.As(err, &p) {
		return err
	}
	if fault := view.Err(); fault != nil && !errors.Is(err, fault) {
		return fault
	}
	return err
}

func (j *Job) failed() bool { return j.failure.Load() != nil }

// terms are the numbers from which the risk is computed; trace is the solver's part of the trace.
func (j *Job) terms(sigma2 float64, trace hutch.Estimate) risk.Terms {
	c := j.asked(engine.Closed{Trace: trace.Trace, Frobenius2: trace.Frobenius2})
	return risk.Terms{D: len(j.Y), Sigma2: sigma2, Residual: j.residual, Divergence: c.Trace, Frobenius2: c.Frobenius2}
}

// weighing are the terms by which errors of the trace are weighed. Where sigma2 is 0, not known, the
// residual variance stands in for it. A fit that leaves next to no residual is weighed by a small
// part of y.
func (j *Job) weighing(sigma2 float64, trace hutch.Estimate) risk.Terms {
	const leastPart = 1e-8
	t := j.terms(sigma2, trace)
	if t.Sigma2 > 0 {
		return t
	}
	norm := floats.Norm(j.Y, 2) / math.Sqrt(float64(len(j.Y)))
	t.Sigma2 = leastPart * norm * norm
	if v := t.Sigma2DF(); v > t.Sigma2 {
		t.Sigma2 = v
	}
	return t
}

// Jobs is the set of jobs that hold device memory. The zero value is an empty set.
type Jobs struct {
	mu   sync.Mutex
	live map[*Job]struct{}
}

func (s *Jobs) add(j *Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		s.live = map[*Job]struct{}{}
	}
	s.live[j] = struct{}{}
}

// Release frees what a job in the set holds, and removes it. No stage may be using the job.
func (s *Jobs) Release(j *Job) {
	s.mu.Lock()
	_, ok := s.live[j]
	delete(s.live, j)
	s.mu.Unlock()
	if ok {
		j.solution.Release()
		j.within.release()
		if j.run != nil {
			j.run.Free()
		}
		j.y.Free()
	}
}

// ReleaseAll frees what all jobs hold: those that a cancelled pipeline left behind. Every stage
// must have returned.
func (s *Jobs) ReleaseAll() {
	s.mu.Lock()
	left := make([]*Job, 0, len(s.live))
	for j := range s.live {
		left = append(left, j)
	}
	s.mu.Unlock()
	for _, j := range left {
		s.Release(j)
	}
}

// split calls f for consecutive ranges of at most batch that cover count.
func split(count, batch int, f func(first, n int) error) error {
	for first := 0; first < count; first += batch {
		if err := f(first, min(batch, count-first)); err != nil {
			return err
		}
	}
	return nil
}
