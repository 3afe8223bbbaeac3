package surepipe

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"surepipe/array"
	"surepipe/problems"
	"surepipe/study"
	"surepipe/study/load"
	"surepipe/study/request"
)

// Estimator is an estimator at one y, ready to be fitted and swept. It is safe for concurrent use.
type Estimator struct {
	request *request.Request
	data    load.Contents
	job     *study.Estimator
	samples *study.SampleSource // many y, nil for one
	// unset are the weights that nobody has given, at which there is no fit.
	unset []string
	// jobs are the estimators that have been made, by their weights, one at a time.
	jobs    map[request.Weights]*study.Estimator
	opening sync.Mutex
	mu      sync.Mutex
	notes   []Warning // on the data, and on the problem at the first weights
	told    func(study.Note)
	// work is what uses the estimator, and Close waits for.
	work   sync.WaitGroup
	closed bool
	// several are the estimators of several responses, which this one stands for; nil for one response.
	several *several
}

// Open reads the data and makes the estimator, with its solver, its tolerance and sigma2 as the command does. Where
// there are several responses, [Estimator.Responses] has the estimator of each.
func Open(ctx context.Context, d Data, o Options) (*Estimator, error) {
	r, err := o.asked(ctx, d)
	if err != nil {
		return nil, err
	}
	return call(ctx, func() (*Estimator, error) { return open(ctx, r, true) }, (*Estimator).Close)
}

func (o *Options) asked(ctx context.Context, d Data) (*request.Request, error) {
	r, err := o.request()
	if err != nil {
		return nil, err
	}
	if err := o.admit(ctx, d); err != nil {
		return nil, err
	}
	d.of(r)
	r.Keep.B = true
	r.Watch.Logger, r.Watch.Progress = o.Logger, o.Progress
	if o.Warn != nil {
		r.Watch.Note = func(n study.Note) { o.Warn(Warning{Code: n.Code, Text: n.Text.Error()}) }
	}
	return r, r.Check()
}

// OpenRequest is [Open] of a request that has been checked: it has all options of the command, and names files. The
// estimator takes it.
func OpenRequest(ctx context.Context, r *request.Request) (*Estimator, error) {
	return call(ctx, func() (*Estimator, error) { return open(ctx, r, r.Free) }, (*Estimator).Close)
}

// open reads the data and makes the estimator; free says that weights may be left open.
func open(ctx context.Context, r *request.Request, free bool) (_ *Estimator, err error) {
	if r.Many == nil && !r.Program.Given() && r.Own == nil && r.Machine.On == nil {
		return openResponses(ctx, r, free)
	}
	e := newEstimator(r)
	devices, err := e.devices(ctx, r)
	if err != nil {
		return nil, err
	}
	if r.Many != nil {
		e.samples, e.data, err = r.ReadSamples(ctx)
	} else {
		e.data, err = r.Read(ctx)
	}
	if err != nil {
		request.Close(devices)
		return nil, err
	}
	if err := e.make(ctx, devices, free); err != nil {
		e.closeSamples()
		return nil, err
	}
	return e, nil
}

func newEstimator(r *request.Request) *Estimator {
	e := &Estimator{request: r, jobs: map[request.Weights]*study.Estimator{}}
	e.told = r.Watch.Note
	r.Watch.Note = func(n study.Note) {
		w := Warning{Code: n.Code, Text: r.Watch.Text(n.Text)}
		e.mu.Lock()
		known := slices.Contains(e.notes, w) // as of an estimator that is made again, with the weights of a sweep
		if !known {
			e.notes = append(e.notes, w)
		}
		e.mu.Unlock()
		if !known && e.told != nil {
			e.told(n)
		}
	}
	return e
}

func (e *Estimator) make(ctx context.Context, devices []array.Device, free bool) error {
	r := e.request
	if free {
		e.free()
	}
	if err := e.first(ctx, devices); err != nil {
		return err
	}
	if len(e.unset) == 0 && (e.samples == nil || e.samples.Total >= 0) {
		e.noteProblem(e.job)
	}
	for _, n := range r.NotesOn(e.data.Data, r.Noise(e.data.Data)) {
		r.Watch.Note(n)
	}
	return nil
}

// noteProblem tells what is to be known of an estimator's problem.
func (e *Estimator) noteProblem(job *study.Estimator) {
	for _, n := range load.NotesOnProblem(job.Problem, e.data.Depth) {
		e.request.Watch.Note(n)
	}
}

func (e *Estimator) free() {
	r := e.request
	switch {
	case r.Program.Given():
	case r.Own != nil:
		e.unset = slices.Clone(r.Own.Weights)
	default:
		e.unset = problems.Unset(r.Problem, e.data.Data)
	}
	e.unset = slices.DeleteFunc(e.unset, func(name string) bool {
		to := r.Weights.Named()[name]
		return to != nil && *to != ""
	})
	for _, name := range e.unset {
		*r.Weights.Named()[name] = "max"
	}
}

func (e *Estimator) first(ctx context.Context, devices []array.Device) (err error) {
	r := e.request
	for {
		var weight *problems.WeightError
		if e.job, err = e.at(ctx, r, devices); !errors.As(err, &weight) || !slices.Contains(e.unset, weight.Weight) ||
			*r.Weights.Named()[weight.Weight] == "1" {
			return err
		}
		*r.Weights.Named()[weight.Weight], devices = "1", nil
	}
}

// devices are devices of an estimator, whose operations do not end with the call that opens it.
func (e *Estimator) devices(ctx context.Context, r *request.Request) ([]array.Device, error) {
	return r.Devices(context.WithoutCancel(ctx))
}

// Close releases what the estimator holds, when the last call that uses it has ended. Fits of it can no longer be
// drawn or written.
func (e *Estimator) Close() {
	e.mu.Lock()
	closed := e.closed
	e.closed = true
	e.mu.Unlock()
	if closed {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.work.Wait()
		for _, job := range e.jobs {
			job.Close()
		}
		e.closeSamples()
		e.several.close()
	}()
	select {
	case <-done:
	case <-time.After(patience): // it is closed when what is left behind ends
	}
}

func (e *Estimator) closeSamples() {
	if e.samples != nil {
		e.samples.Close()
	}
}

func (e *Estimator) begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return study.Errorf("the estimator is closed, expected one that is open")
	case e.several != nil:
		return study.Errorf("y has %d responses, expected one: several are for surepipe run and sweep, and in Go for "+
			"Estimator.Responses", len(e.several.each))
	}
	e.work.Add(1)
	return nil
}

// use is [call] of what uses the estimator.
func use[T any](ctx context.Context, e *Estimator, f func() (T, error)) (none T, err error) {
	return call(ctx, func() (T, error) {
		if err := e.begin(); err != nil {
			return none, err
		}
		defer e.work.Done()
		return f()
	}, nil)
}

// Warnings are what is to be known of the data and the estimator. Results have them too.
func (e *Estimator) Warnings() []Warning {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.notes)
}

func (e *Estimator) fittable() error {
	if len(e.unset) > 0 {
		return study.Errorf("--%s is missing: neither given nor in the data", e.unset[0])
	}
	return nil
}

// Fit estimates b and mu_hat at y, and the risk.
func (e *Estimator) Fit(ctx context.Context) (*Fit, error) {
	return use(ctx, e, func() (*Fit, error) {
		if err := e.fittable(); err != nil {
			return nil, err
		}
		risk, err := e.job.Estimate(ctx, e.data.Y)
		if err != nil {
			return nil, err
		}
		f := fitOf(ctx, e, risk)
		f.tell(study.RowNotes(e.data.Data, risk, e.request.Folds))
		f.tell(f.diagnostics.Notes())
		if ctx.Err() != nil { // and notes may lack
			return nil, context.Cause(ctx)
		}
		return f, nil
	})
}

// Below are the estimator and its data for the packages below.
func (e *Estimator) Below() (*study.Estimator, load.Contents) { return e.job, e.data }

func (e *Estimator) result() study.Result {
	r := e.job.Result()
	r.Warnings = e.Warnings()
	return r
}
