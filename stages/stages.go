package stages

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/verify"
	"surepipe/vjp"
)

// Stage is a typed function between channels: it receives until in is closed or
// ctx is done, and sends what it makes of it. It neither closes out nor keeps a
// value that it has sent. It returns ctx's error when cancelled and the first
// error of its own work otherwise.
type Stage[In, Out any] func(ctx context.Context, in <-chan In, out chan<- Out) error

// Start runs workers copies of a stage in the group and returns the channel
// they send on, which is closed when all have returned. Its buffer holds one
// value a worker, so that a slow receiver holds the stage up.
func Start[In, Out any](ctx context.Context, g *errgroup.Group, workers int, in <-chan In, stage Stage[In, Out]) <-chan Out {
	out := make(chan Out, workers)
	inner, innerCtx := errgroup.WithContext(ctx)
	for range workers {
		inner.Go(func() error { return guard(func() error { return stage(innerCtx, in, out) }) })
	}
	g.Go(func() error {
		defer close(out)
		return inner.Wait()
	})
	return out
}

// guard makes a panic an error: a user's operator or regularizer may panic, and nobody
// else's goroutine should go down with it.
func guard(work func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	return work()
}

// PanicError is a panic in a stage, most likely of a user's operator or regularizer.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

// Error is one line: the stack is for logs.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// each is the common loop of the stages: receive, work, until the input ends or
// ctx is done.
func each[In any](ctx context.Context, in <-chan In, work func(In) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case v, ok := <-in:
			if !ok {
				return nil
			}
			if err := work(v); err != nil {
				return err
			}
		}
	}
}

// send gives v to out unless ctx is done first.
func send[Out any](ctx context.Context, out chan<- Out, v Out) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case out <- v:
		return nil
	}
}

// SampleError is a failure that belongs to one sample: its solver has failed, or its
// numbers left the range of floating point, or its memory did not fit on the device beside that
// of the others. Faults of the device itself, panics and the end of a context concern all samples
// and are not of this type.
type SampleError struct {
	// Index is the sample's place in the stream.
	Index int
	Err   error
}

func (e *SampleError) Error() string { return fmt.Sprintf("sample %d: %v", e.Index, e.Err) }

// Unwrap is the error without the sample.
func (e *SampleError) Unwrap() error { return e.Err }

// Sample is one y on its way in.
type Sample struct {
	// Index is the sample's place in the stream; with the seed it fixes the
	// probes.
	Index int
	// Y holds the d observations. It is not modified.
	Y []float64
}

// Job is a sample whose solution is known and whose trace is being estimated.
// Its device memory is freed by Jobs, never by a stage that fails.
type Job struct {
	Sample
	// Solution holds the solver cache: solution, iterates, prox derivatives. All
	// stages share it.
	Solution *vjp.Solution
	// Plan says which probes make up the estimate of the trace, Seed which
	// random numbers.
	Plan hutch.Plan
	Seed uint64
	// Batch is the largest number of probes that travel together.
	Batch int
	// Residual is ||y - mu_hat||^2.
	Residual float64
	// Begun is when the solver started on the sample, Solved when it finished.
	Begun, Solved time.Time

	// mean is what was taken off y, and constants how many dimensions of the constants
	// the estimate has beside the solver's: 1 with an intercept, where the Jacobian is the
	// solver's plus the projection on the constants, orthogonal to it; else 0.
	mean, constants float64
	// share is how accurate quadratic forms are to be.
	share float64
	// shared is the device of all samples, and view the job's own view of it: a fault of the
	// device ends all jobs, a fault of the view this job alone.
	shared, view array.Device
	// sketch holds the images M s of the sketch, one a row; Sketch fills it and
	// QR turns it into the orthonormal basis of its span, the first rank rows of
	// basis. Plans that combine all images keep the sketch, and ProjectedTrace
	// leaves those of the basis in images; they are zero otherwise.
	sketch, basis, images array.Batch
	rank                  int
	// sketchLeft and basisLeft bound what those images lack.
	sketchLeft, basisLeft []float64
	// tally collects what the probes found, from QR on. planned is how many probes
	// QR sent out, finished how many of them Refine has seen and arrived how many Verify.
	tally  *hutch.Tally
	closed *hutch.Estimate // the trace, where it needs no probes
	// lower and higher are how far decisions in doubt may move the trace ([vjp.Closed]).
	lower, higher, margin float64
	planned               int
	finished              atomic.Int64
	arrived               atomic.Int64
	// verification is what Verify found, nil without it; ended is when it began.
	verification *verify.Verification
	ended        time.Time

	failure atomic.Pointer[SampleError] // the first
}

// settle notes err as the job's failure and returns nil, so that the job goes on to its
// end without further work; or it returns what ends all jobs: ctx's end, dev's fault or
// a panic.
func (j *Job) settle(ctx context.Context, dev array.Device, err error) error {
	if err == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if fault := dev.Err(); fault != nil {
		return fmt.Errorf("sample %d: %w", j.Index, fault)
	}
	if p := new(PanicError); errors.As(err, &p) {
		return fmt.Errorf("sample %d: %w", j.Index, err)
	}
	j.failure.CompareAndSwap(nil, &SampleError{j.Index, err})
	return nil
}

// device is the one that all samples share.
func (j *Job) device() array.Device { return j.shared }

// failed tells whether there is no use in further work.
func (j *Job) failed() bool { return j.failure.Load() != nil }

// estimate is that of the trace, when all probes are done.
func (j *Job) estimate() (hutch.Estimate, error) {
	if j.closed != nil {
		return *j.closed, nil
	}
	if j.Plan.Combines() {
		return hutch.Combine(j.Plan, j.Seed, uint64(j.Index), j.sketch, j.basis.Rows(0, j.rank), j.images, j.sketchLeft, j.basisLeft)
	}
	return j.tally.Estimate()
}

// oracle is v -> D mu_hat v, as accurate as the plan needs: an exact trace and
// one that combines images are worth exact images, others quadratic forms that lack no more than
// the share.
func (j *Job) oracle(share float64) hutch.Oracle {
	l := j.Solution.Linearization
	if j.Plan.Exact || j.Plan.Combines() {
		return l.Images
	}
	return func(ctx context.Context, dst, v array.Batch, left []float64) error {
		return l.Forms(ctx, dst, v, share, left)
	}
}

// sketchOracle is that of the sketch.
func (j *Job) sketchOracle() hutch.Oracle {
	if j.Plan.SpanOnly() {
		return unbounded(j.Solution.Linearization.Span)
	}
	return j.oracle(j.share)
}

// unbounded is an oracle whose images are exact, or whose error does not matter.
func unbounded(apply func(ctx context.Context, dst, v array.Batch) error) hutch.Oracle {
	return func(ctx context.Context, dst, v array.Batch, _ []float64) error { return apply(ctx, dst, v) }
}

// Jobs is the set of jobs whose device memory is held.
type Jobs struct {
	mu   sync.Mutex
	live map[*Job]struct{}
}

// add notes a new job.
func (s *Jobs) add(j *Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		s.live = map[*Job]struct{}{}
	}
	s.live[j] = struct{}{}
}

// Release frees what a job holds. No stage may be using it.
func (s *Jobs) Release(j *Job) {
	s.mu.Lock()
	_, ok := s.live[j]
	delete(s.live, j)
	s.mu.Unlock()
	if ok {
		j.Solution.Release()
		j.sketch.Free()
		j.basis.Free()
		j.images.Free()
	}
}

// ReleaseAll frees what all jobs hold, once every stage has returned: those
// that a cancelled pipeline left behind.
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

// Phase is what a batch of probes is for.
type Phase int

// The phases of a trace estimate. Exact traces have a projected phase only, on
// the unit vectors; Hutchinson's estimator has a residual phase only, with an
// empty basis Q.
const (
	Sketching Phase = iota // V random, MV = M V spans the dominant directions
	Projected              // V = rows of Q: tr(Q* M Q)
	Residual               // V random, projected off Q: tr((I - QQ*) M (I - QQ*))
)

// Probes is a batch of probes of one job, flowing from stage to stage. What is
// found out about them goes to the job's tally.
type Probes struct {
	Job   *Job
	Phase Phase
	// First is the batch's first probe, counted within its phase; Count how many
	// there are.
	First, Count int
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
