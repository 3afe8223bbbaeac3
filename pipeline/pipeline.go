package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/stages"
	"surepipe/vjp"
)

// Risk is the outcome for one sample.
type Risk = stages.Risk

// Options are a pipeline's settings. The zero value of a field other than
// Sigma2 asks for the default.
type Options struct {
	// Sigma2 is the variance of the noise in each coordinate of y, positive.
	Sigma2 float64
	// Estimator names the trace estimator, default hutch.HutchPP.
	Estimator string
	// Queries is the number of products with the Jacobian that the estimator
	// may use, default hutch.DefaultQueries; an exact trace ignores it. With
	// TraceError it is the number to begin with.
	Queries int
	// TraceError, if positive, lets the number of queries follow from the accuracy:
	// probes are added until the trace's share of the error, 2 Sigma2
	// Trace.StdErr, is at most TraceError times the risk's StdErr, or the queries
	// are as many as the exact trace takes. It is for hutch.HutchPP and
	// hutch.Hutchinson; 0.1 is a good value.
	TraceError float64
	// Seed is that of all probes. Probe j of sample i is a function of
	// (Seed, i, j) alone.
	Seed uint64
	// Parallel is the number of samples in flight, default 1. It bounds memory:
	// each holds its solver cache.
	Parallel int
	// Batch is the largest number of probes in one sweep; by default it follows
	// from the problem's size. No result depends on it.
	Batch int
	// Progress, if not nil, is called from the pipeline's goroutines, one call
	// at a time, when work on a sample has advanced. It must return quickly.
	Progress func(Progress)
	// Logger, if not nil, is told about every sample.
	Logger *slog.Logger
}

// Progress says how far the work on a sample is.
type Progress struct {
	// Sample is its index, Done and Total count its probes.
	Sample, Done, Total int
}

// Pipeline estimates the risk of one estimator at any number of samples. It is
// safe for concurrent use; calls share the solver and nothing else.
type Pipeline struct {
	dev     array.Device
	solver  vjp.Solver
	d       int
	o       Options
	plan    hutch.Plan
	workers int
}

// firstQueries is what an estimate of chosen accuracy begins with: enough residual
// probes, 24, to know their spread to 15%.
var firstQueries = map[string]int{hutch.HutchPP: 72, hutch.Hutchinson: 24}

// New returns a pipeline for samples of length d that are solved by solver on
// dev. The solver stays the caller's, to release after the last call.
func New(dev array.Device, solver vjp.Solver, d int, o Options) (*Pipeline, error) {
	if !(o.Sigma2 > 0) || math.IsInf(o.Sigma2, 0) {
		return nil, fmt.Errorf("pipeline: sigma2 is %g, expected a positive number", o.Sigma2)
	}
	if o.Parallel < 0 || o.Batch < 0 {
		return nil, fmt.Errorf("pipeline: %d samples in flight and %d probes a batch, expected none negative", o.Parallel, o.Batch)
	}
	if o.Estimator == "" {
		o.Estimator = hutch.HutchPP
	}
	if !(o.TraceError >= 0) || math.IsInf(o.TraceError, 0) {
		return nil, fmt.Errorf("pipeline: trace error is %g, expected a positive number, or 0 for a fixed number of queries", o.TraceError)
	}
	if o.TraceError > 0 && !slices.Contains([]string{hutch.HutchPP, hutch.Hutchinson, hutch.Exact}, o.Estimator) {
		return nil, fmt.Errorf("pipeline: %s takes a fixed number of queries, expected no trace error, or hutch++ or hutchinson", o.Estimator)
	}
	if o.Queries == 0 {
		o.Queries = hutch.DefaultQueries
		if o.TraceError > 0 {
			o.Queries = firstQueries[o.Estimator]
		}
	}
	if o.Parallel == 0 {
		o.Parallel = 1
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	plan, err := hutch.NewPlan(o.Estimator, o.Queries, d)
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	return &Pipeline{dev: dev, solver: solver, d: d, o: o, plan: plan, workers: runtime.GOMAXPROCS(0)}, nil
}

// Estimate computes the risk estimate at one y of length d, as sample 0.
func (p *Pipeline) Estimate(ctx context.Context, y []float64) (Risk, error) {
	one := func(yield func([]float64, error) bool) { yield(y, nil) }
	for risk, err := range p.Stream(ctx, one) {
		return risk, err
	}
	if err := ctx.Err(); err != nil {
		return Risk{}, err
	}
	return Risk{}, errors.New("pipeline: the stages ended without a result")
}

// reorderWindow is how many samples a place in flight may run ahead of the
// oldest unfinished one.
const reorderWindow = 4

// Stream computes the risk estimates of a stream of samples and yields them in
// the order of the input. Up to Options.Parallel samples are in flight at once;
// no further one is taken from ys before there is room, and none once the
// consumer falls behind. The stream ends at the first error, which is yielded
// last: a sample's, one that ys yields, or the context's. Breaking out of
// the loop stops all work; when the loop has ended every goroutine has returned
// and all device memory is free.
//
// ys is iterated on a goroutine of the pipeline. If it can block for long it
// should watch the context itself. The slices must not be modified after they
// are yielded.
func (p *Pipeline) Stream(ctx context.Context, ys iter.Seq2[[]float64, error]) iter.Seq2[Risk, error] {
	return p.StreamFrom(ctx, 0, ys)
}

// StreamFrom is [Pipeline.Stream] of samples numbered first, first+1, ...: it
// goes on where a stream has ended, and its results are those of the whole.
func (p *Pipeline) StreamFrom(ctx context.Context, first int, ys iter.Seq2[[]float64, error]) iter.Seq2[Risk, error] {
	return func(yield func(Risk, error) bool) {
		outer := ctx
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		g, ctx := errgroup.WithContext(ctx)
		var jobs stages.Jobs
		defer jobs.ReleaseAll()

		inFlight := make(chan struct{}, p.o.Parallel)
		window := make(chan struct{}, p.o.Parallel*reorderWindow)
		samples := make(chan stages.Sample)
		g.Go(func() error {
			defer close(samples)
			return p.feed(ctx, first, ys, samples, inFlight, window)
		})
		settings := stages.Settings{Device: p.dev, Plan: p.plan, Seed: p.o.Seed, Batch: p.o.Batch, Workers: p.workers}
		solved := stages.Start(ctx, g, p.o.Parallel, samples, stages.Solve(p.solver, settings, &jobs))
		sketched := stages.Start(ctx, g, p.workers, solved, stages.Sketch())
		probes := stages.Start(ctx, g, 1, sketched, stages.QR())
		projected := stages.Start(ctx, g, p.workers, probes, stages.ProjectedTrace())
		done := stages.Start(ctx, g, p.workers, projected, stages.ResidualTrace())
		if p.o.TraceError > 0 {
			done = stages.Start(ctx, g, p.workers, done, stages.Refine(p.o.Sigma2, p.o.TraceError, p.workers))
		}
		risks := stages.Start(ctx, g, 1, done, stages.Assemble(p.o.Sigma2, &jobs, p.progress))

		if !p.inOrder(first, risks, inFlight, window, yield) {
			cancel()
			for range risks {
			}
			g.Wait() // whatever it says, nobody is listening
			return
		}
		// Every stage has closed its channel: the stream is over or one has failed.
		// Stages return their own errors before the group cancels the others', so
		// the group's error is the cause.
		err := g.Wait()
		if outer.Err() != nil {
			err = outer.Err()
		}
		if err != nil {
			yield(Risk{}, err)
		}
	}
}

func (p *Pipeline) progress(sample, done, total int) {
	if p.o.Progress != nil {
		p.o.Progress(Progress{sample, done, total})
	}
}

// feed checks the samples and sends them on, one for each place in flight and
// in the window.
func (p *Pipeline) feed(ctx context.Context, index int, ys iter.Seq2[[]float64, error], out chan<- stages.Sample, gates ...chan<- struct{}) error {
	for y, err := range ys {
		if err != nil {
			return fmt.Errorf("sample %d: %w", index, err)
		}
		if err := p.check(y); err != nil {
			return fmt.Errorf("sample %d: %w", index, err)
		}
		for _, gate := range gates {
			select {
			case gate <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		select {
		case out <- stages.Sample{Index: index, Y: y}:
		case <-ctx.Done():
			return ctx.Err()
		}
		index++
	}
	return nil
}

func (p *Pipeline) check(y []float64) error {
	if len(y) != p.d {
		return fmt.Errorf("y has %d values, expected %d", len(y), p.d)
	}
	for i, v := range y {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("y[%d] is %g, expected a finite number", i, v)
		}
	}
	return nil
}

// inOrder yields the risks in the order of their samples and reports whether
// the consumer still wants what follows.
func (p *Pipeline) inOrder(next int, risks <-chan Risk, inFlight, window <-chan struct{}, yield func(Risk, error) bool) bool {
	early := map[int]Risk{}
	for risk := range risks {
		<-inFlight
		p.o.Logger.Info("sample done", "sample", risk.Index, "sure", risk.SURE, "iterations", risk.Iterations,
			"converged", risk.Converged, "solve", risk.Solve, "divergence", risk.Divergence,
			"cache_bytes", risk.CacheBytes, "device_peak_bytes", p.dev.Stats().PeakBytes)
		early[risk.Index] = risk
		for {
			risk, ok := early[next]
			if !ok {
				break
			}
			delete(early, next)
			next++
			<-window
			if !yield(risk, nil) {
				return false
			}
		}
	}
	return true
}
