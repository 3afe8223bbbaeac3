package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/input"
	"surepipe/loss"
	"surepipe/risk/folds"
	"surepipe/stages"
	"surepipe/verify"
	"surepipe/vjp"
)

// Risk is the outcome for one sample.
type Risk = stages.Risk

// Autoregression is noise that is correlated in the order of the observations.
type Autoregression = stages.Autoregression

// Warning is a reason to doubt a result.
type Warning = stages.Warning

// ErrNoDiagonal says why leave-one-out is not known.
var ErrNoDiagonal = stages.ErrNoDiagonal

// ErrNoBlocks says why leave-group-out is not known.
var ErrNoBlocks = stages.ErrNoBlocks

// CloseMargin is the margin of the tangent space below which reports mention it.
const CloseMargin = stages.CloseMargin

// Verification is the result of an independent check.
type Verification = verify.Verification

// SampleError is a failure that belongs to one sample.
type SampleError = stages.SampleError

// Options are a pipeline's settings. The zero value of a field asks for the default.
type Options struct {
	// Sigma2 is the variance of the noise in each coordinate of y, or 0 where it is not known: SURE
	// and its error are then NaN, and the residual variance stands in where errors are weighed.
	Sigma2 float64
	// ALO makes sure of leave-one-out, the error of predicting an observation that is left out, also
	// where the trace takes no probes: from the exact diagonal of D mu_hat where that takes little
	// work or the Estimator is hutch.Exact ([risk.LeaveOneOut]), else from probes
	// ([risk.LeaveOneOutFromProbes]). Without it Risk.ALO is there where the trace takes random
	// probes, at least hutch.LeastProbes. Risk.ALOErr says why it is missing; it is ErrNoDiagonal for
	// fewer probes, and for hutch.HutchPP. Solvers
	// should be given [vjp.Options].Images with it.
	ALO bool
	// LeaveOut, if not nil, asks for leave-group-out by its groups or blocks: Risk.LGO, where blocks of D mu_hat are
	// known. In a sweep the criterion risk.LGO sets it.
	LeaveOut *folds.Folds
	// Noise says how the noise is correlated in the order of the observations: SURE is then
	// [risk.Correlated]'s, and the criteria for independent noise are not defined. It is for the squared loss and a
	// known Sigma2.
	Noise Autoregression
	// Estimator names the trace estimator. The default, Auto, takes the trace in closed form where
	// the linearization knows it ([vjp.Closed]), and is hutch.Hutchinson elsewhere: the spectra of
	// these Jacobians are flat, and sketching their range gains little.
	Estimator string
	// Queries is the number of products with the Jacobian that the estimator may use; an exact
	// trace ignores it. With TraceError it is the initial number. By default it follows from
	// TraceError where the estimator can add probes (hutch.Estimator.First), and is
	// hutch.DefaultQueries elsewhere.
	Queries int
	// TraceError, if positive, lets the number of queries follow from the accuracy: probes are
	// added until the trace's share of the error, 2 Sigma2 Trace.Error(), is at most TraceError
	// times the risk's StdErr, or there are as many queries as the exact trace takes. Where Sigma2 is
	// not known the residual variance stands in for it. It is for
	// estimators that can add probes; the default is DefaultTraceError where Queries is not given.
	TraceError float64
	// Seed is the seed of all probes. Probe j of sample i is a function of (Seed, i, j) alone.
	Seed uint64
	// Parallel is the number of samples in flight, default 1. It bounds memory:
	// each holds its solver cache.
	Parallel int
	// Batch is the largest number of probes in one sweep; by default it follows
	// from the problem's size. No result depends on it.
	Batch int
	// KeepGoing lets a stream go on after a sample that fails on its own: one of the wrong length,
	// one that holds NaN or Inf or is nearly 0, an error that the source yields in place of a
	// sample, a solver that fails at this y, a result beyond the range of floating point. The
	// sample's error is yielded in its place in the order, after the results of the samples before
	// it; without KeepGoing it ends the stream. A fault of the device, a panic and the end of the
	// context always end the stream.
	KeepGoing bool
	// KeepB downloads the solution b of every sample ([Risk].B), which may be far longer than y. A
	// sweep keeps only that of the minimizer.
	KeepB bool
	// NoMuHat leaves out [Risk].MuHat, which takes as much memory as y, except where the problem has an origin.
	NoMuHat bool
	// Verify, if not nil, has every result checked by means other than those that computed it:
	// solves at slightly different y, products with the operator alone, and another solver where
	// the problem is small. The findings are in Risk.Verification, with a warning where they exceed
	// verify.Limit error bars. It takes a few times as long as the estimate itself.
	Verify *verify.Options
	// Progress, if not nil, is called from the pipeline's goroutines, one call at a time for each
	// stream, when work on a sample has advanced: after every iteration of the solver, every step of
	// the derivative's linear systems, and every batch of probes. That may be many thousand times a
	// second: it must return quickly, and show only some of what it is told.
	Progress func(Progress)
	// Observe, if not nil, is called when work on a sample, or on a point of a sweep, begins and
	// when it ends, for metrics. The context is that of the call that the sample belongs to. Calls
	// come from several goroutines at once. It must return quickly.
	Observe func(context.Context, Event)
	// Logger, if not nil, logs every sample that succeeds, with the context of the call that the
	// sample belongs to.
	Logger *slog.Logger

	compare   *stages.Comparing // of a sweep
	unwatched bool              // leave-one-out is left out where it takes work
}

// Pipeline estimates the risk of one estimator at any number of samples. It is safe for concurrent
// use; calls share only the solver.
type Pipeline struct {
	solver  vjp.Solver
	dev     array.Device // the solver's
	d       int          // the length of its y
	o       Options
	plan    hutch.Plan
	closed  bool // take the trace in closed form where it is known
	workers int
	// together are the observations that leave-group-out leaves out together.
	together stages.Together

	inFlight atomic.Int64 // samples begun and not ended, over all calls
}

// Auto is the default trace estimator: the exact trace where that takes no probes, else
// Hutchinson's.
const Auto = "auto"

// DefaultTraceError is the default of Options.TraceError: the error bar is at most 2% longer than with the exact trace.
const DefaultTraceError = 0.2

// New returns a pipeline for samples that are solved by solver. The length of the samples, the
// device and the origin are those of the solver's problem. The caller keeps the solver and
// releases it after the last call. Invalid settings are errors of type [*OptionError]. The solver
// must compute derivatives: with [vjp.None], which is not known before a solve, every sample fails
// with a [SampleError].
func New(solver vjp.Solver, o Options) (*Pipeline, error) {
	if solver == nil {
		return nil, input.Errorf("pipeline: the solver is nil, expected one")
	}
	problem := solver.Problem()
	if problem.A == nil || problem.Device == nil {
		return nil, input.Errorf("pipeline: the solver's problem has no operator or no device, expected both")
	}
	if err := o.checkLoss(problem); err != nil {
		return nil, err
	}
	if o.Verify != nil {
		if err := o.Verify.Check(solver); err != nil {
			return nil, fmt.Errorf("pipeline: %w", err)
		}
	}
	d, _ := problem.A.Dims()
	p := &Pipeline{solver: solver, dev: problem.Device, d: d, workers: runtime.GOMAXPROCS(0)}
	var err error
	if p.o, p.closed, err = o.resolve(); err != nil {
		return nil, err
	}
	if o.LeaveOut != nil {
		f := *o.LeaveOut
		f.Each = loss.StructureOf(problem.Loss).Each
		if err := f.Check(d); err != nil {
			return nil, refuse("LeaveOut", f, "%v", err)
		}
		p.together.Unit, p.together.Units = f.Units(d)
	}
	if p.plan, err = hutch.NewPlan(p.o.Estimator, p.o.Queries, d); err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	return p, nil
}

// OptionError says which of the [Options] is invalid, and why.
type OptionError struct {
	// Option is the name of the field, and Value what it holds.
	Option string
	Value  any
	// Reason says what is wrong, with the value.
	Reason string
}

func (e *OptionError) Error() string { return "pipeline: " + e.Reason }

// Unwrap is the refusal of the field.
func (e *OptionError) Unwrap() error {
	return input.Errorf("%s: %s", input.Option(e.Option), e.Reason)
}

func refuse(option string, value any, format string, args ...any) error {
	return &OptionError{option, value, fmt.Sprintf(format, args...)}
}

// resolve fills in the defaults. closed says to take the trace in closed form where it is known.
func (o Options) resolve() (_ Options, closed bool, err error) {
	if !(o.Sigma2 >= 0) || math.IsInf(o.Sigma2, 0) {
		return o, false, refuse("Sigma2", o.Sigma2,
			"sigma2 is %g, expected a positive number, or 0 where it is not known", o.Sigma2)
	}
	if r := o.Noise.Rho; !(math.Abs(r) < 1) || r != 0 && o.Sigma2 == 0 {
		return o, false, refuse("Noise", o.Noise, "noise of correlation %g with sigma2 = %g, expected a correlation "+
			"between -1 and 1, and a known sigma2", r, o.Sigma2)
	}
	if o.Parallel < 0 {
		return o, false, refuse("Parallel", o.Parallel, "%d samples in flight, expected at least 0", o.Parallel)
	}
	if o.Batch < 0 {
		return o, false, refuse("Batch", o.Batch, "%d probes a batch, expected at least 0", o.Batch)
	}
	closed = o.Estimator == "" || o.Estimator == Auto
	if closed {
		o.Estimator = hutch.Hutchinson
	}
	first := 0
	if e, ok := hutch.ByName(o.Estimator); ok {
		if first = e.First(cmp.Or(o.TraceError, DefaultTraceError)); o.Queries == 0 && o.TraceError == 0 && first > 0 {
			o.TraceError = DefaultTraceError
		}
	}
	if !(o.TraceError >= 0) || math.IsInf(o.TraceError, 0) {
		return o, false, refuse("TraceError", o.TraceError,
			"trace error is %g, expected a positive number, or 0 for a fixed number of queries", o.TraceError)
	}
	if o.Queries == 0 {
		o.Queries = hutch.DefaultQueries
		if o.TraceError > 0 && first > 0 {
			o.Queries = first
			if o.ALO && o.Estimator == hutch.Hutchinson {
				o.Queries = max(first, hutch.LeastProbes)
			}
		}
	}
	if o.Parallel == 0 {
		o.Parallel = 1
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, closed, nil
}

// Dim is the length d of the samples.
func (p *Pipeline) Dim() int { return p.d }

// Estimate computes the risk estimate at one y of length d, as sample 0.
func (p *Pipeline) Estimate(ctx context.Context, y []float64) (Risk, error) {
	return p.estimate(ctx, 0, y)
}

// estimate is the estimate at y as the sample of that index, with the bits of a stream.
func (p *Pipeline) estimate(ctx context.Context, index int, y []float64) (Risk, error) {
	s := &stream{Pipeline: p, caller: ctx}
	p.begin(ctx, index)
	o := stages.Outcome{Err: checkSample(y, p.d, p.o.Sigma2)}
	if o.Err != nil {
		o.Err = &SampleError{Index: index, Err: o.Err}
	} else {
		var jobs stages.Jobs
		first, between, last := p.steps(s.settings(), &jobs)
		var err error
		sample := stages.Sample{Index: index, Y: y}
		o, err = stages.Call(ctx, p.workers, sample, first, between, last, stages.Probes.Work)
		jobs.ReleaseAll()
		if err != nil {
			o.Err = s.ended(err)
		}
	}
	o.Risk.Index = index
	s.finish(o)
	return o.Risk, o.Err
}

// reorderWindow is how many samples, for each one in flight, may be ahead of the oldest unfinished
// one.
const reorderWindow = 4

// Stream computes the risk estimates of a stream of samples and yields them in the order of the
// input. Up to Options.Parallel samples are in flight at once; at most one more is taken from ys
// before there is room for it, and none once the consumer falls behind.
//
// The stream ends at the first error, which is yielded last. The error of one sample, a
// [SampleError], is yielded in its place in the order, with a Risk of which only Index is set, and
// with Options.KeepGoing it does not end the stream. Any other error, such as a fault of the
// device, a panic or the context's end, is yielded at once, with a Risk of Index -1; the results of
// samples still in flight are lost.
//
// Breaking out of the loop stops all work, and so does a panic in its body; when
// the loop has ended every goroutine has returned and all device memory is free.
//
// ys is iterated on a goroutine of the pipeline, and the loop does not end before ys returns. If ys
// can block for long, then code that cancels the context, breaks out of the loop or receives an
// error should also interrupt what ys waits for. A panic in ys becomes an error. The slices must
// not be modified after they are yielded.
func (p *Pipeline) Stream(ctx context.Context, ys iter.Seq2[[]float64, error]) iter.Seq2[Risk, error] {
	return p.StreamFrom(ctx, 0, ys)
}

// StreamFrom is [Pipeline.Stream] of samples numbered first, first+1, ...: it continues where a
// stream has ended, with the same results as an uninterrupted stream.
func (p *Pipeline) StreamFrom(ctx context.Context, first int, ys iter.Seq2[[]float64, error]) iter.Seq2[Risk, error] {
	return func(yield func(Risk, error) bool) {
		s := &stream{
			Pipeline: p,
			caller:   ctx,
			places:   make(chan struct{}, p.o.Parallel),
			window:   make(chan struct{}, p.o.Parallel*reorderWindow),
			refused:  make(chan stages.Outcome),
			early:    map[int]stages.Outcome{},
			begun:    first,
			next:     first,
		}
		ctx, cancel := context.WithCancel(ctx)
		g, ctx := errgroup.WithContext(ctx)
		var jobs stages.Jobs

		// The source is outside the group, so that an error is yielded even where the source
		// blocks.
		samples, fed := make(chan stages.Sample), make(chan error, 1)
		go func() {
			defer close(fed)
			defer close(samples)
			fed <- s.feed(ctx, ys, samples)
		}()
		outcomes := p.stages(ctx, g, samples, s.settings(), &jobs)

		ended := context.Canceled
		defer func() {
			cancel()
			for range outcomes {
			}
			g.Wait() // its error has been yielded, or the consumer has stopped
			for range fed {
			}
			jobs.ReleaseAll()
			s.abandon(ended)
		}()
		if !s.inOrder(outcomes, yield) {
			return
		}
		// Every stage has closed its channel: the stream is over or one has failed.
		// Stages return their own errors before the group cancels the others', so
		// the group's error is the cause.
		err := g.Wait()
		if err == nil {
			err = <-fed
		}
		if err = s.ended(err); err != nil {
			ended = err
			yield(Risk{Index: -1}, err)
		}
	}
}

func (s *stream) settings() stages.Settings {
	of := stages.Settings{
		Plan: s.plan, Closed: s.closed, Seed: s.o.Seed, TraceError: s.o.TraceError, Batch: s.o.Batch,
		Workers: s.workers, KeepB: s.o.KeepB, NoMuHat: s.o.NoMuHat, ALO: s.o.ALO, Compare: s.o.compare,
		Unwatched: s.o.unwatched, Together: s.together, Noise: s.o.Noise,
	}
	if s.o.Progress != nil {
		of.Report = s.tell
	}
	return of
}

func (s *stream) ended(err error) error {
	if s.caller.Err() != nil {
		err = s.caller.Err()
	}
	if p := new(stages.PanicError); errors.As(err, &p) {
		s.o.Logger.ErrorContext(s.caller, "panic", "value", p.Value, "stack", string(p.Stack))
	}
	return err
}

func (p *Pipeline) steps(s stages.Settings, jobs *stages.Jobs) (first stages.Step[stages.Sample, stages.Probes],
	between []stages.Pass[stages.Probes], last stages.Step[stages.Probes, stages.Outcome]) {
	add := func(workers int, step stages.Step[stages.Probes, stages.Probes]) {
		between = append(between, stages.Pass[stages.Probes]{Workers: workers, Step: step})
	}
	add(p.workers, stages.Query(hutch.Sketching))
	add(1, stages.QR())
	add(p.workers, stages.Query(hutch.Projected))
	add(p.workers, stages.Query(hutch.Residual))
	if p.o.TraceError > 0 {
		add(p.workers, stages.Refine(p.o.Sigma2, p.o.TraceError, p.workers))
	}
	if p.o.Verify != nil {
		add(p.o.Parallel, stages.Verify(p.solver, p.o.Sigma2, *p.o.Verify))
	}
	return stages.Solve(p.solver, s, jobs), between, stages.Assemble(p.o.Sigma2, jobs, s.Report)
}

func (p *Pipeline) stages(ctx context.Context, g *errgroup.Group, samples <-chan stages.Sample, s stages.Settings,
	jobs *stages.Jobs) <-chan stages.Outcome {
	first, between, last := p.steps(s, jobs)
	probes := stages.Start(ctx, g, p.o.Parallel, samples, stages.Loop(first))
	for _, pass := range between {
		probes = stages.Start(ctx, g, pass.Workers, probes, stages.Loop(pass.Step))
	}
	return stages.Start(ctx, g, 1, probes, stages.Loop(last))
}
