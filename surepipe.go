package surepipe

import (
	"context"
	"errors"
	"slices"
	"sync"

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
	// unset are the weights that nobody has given, at which there is no fit.
	unset []string
	// jobs are the estimators that have been made, by their weights, one at a time.
	jobs    map[request.Weights]*study.Estimator
	opening sync.Mutex
	mu      sync.Mutex
	notes   []Warning // on the data
	// work is what uses the estimator, and Close waits for.
	work   sync.WaitGroup
	closed bool
}

// Open reads the data and makes the estimator, with its solver, its tolerance and sigma2 as the command does.
func Open(ctx context.Context, d Data, o Options) (*Estimator, error) {
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
	return OpenRequest(ctx, r)
}

// OpenRequest is [Open] of a request, which has all options of the command and names files. The estimator takes it.
func OpenRequest(ctx context.Context, r *request.Request) (*Estimator, error) {
	return call(ctx, func() (*Estimator, error) { return open(ctx, r) }, func(e *Estimator) { e.Close() })
}

// open checks the request, reads the data and makes the estimator.
func open(ctx context.Context, r *request.Request) (_ *Estimator, err error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	e := &Estimator{request: r, jobs: map[request.Weights]*study.Estimator{}}
	told := r.Watch.Note
	r.Watch.Note = func(n study.Note) {
		e.mu.Lock()
		e.notes = append(e.notes, Warning{Code: n.Code, Text: r.Watch.Text(n.Text)})
		e.mu.Unlock()
		if told != nil {
			told(n)
		}
	}
	if e.data, err = r.Read(ctx); err != nil {
		return nil, err
	}
	if err := e.first(ctx); err != nil {
		return nil, err
	}
	for _, n := range r.NotesOn(e.data.Data, r.Noise(e.data.Data)) {
		r.Watch.Note(n)
	}
	return e, nil
}

// first makes the estimator. Weights that nobody has given are their maximum there, or 1 where they have none.
func (e *Estimator) first(ctx context.Context) (err error) {
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
	for {
		var weight *problems.WeightError
		if e.job, err = e.at(ctx, r); !errors.As(err, &weight) || !slices.Contains(e.unset, weight.Weight) ||
			*r.Weights.Named()[weight.Weight] == "1" {
			return err
		}
		*r.Weights.Named()[weight.Weight] = "1"
	}
}

// make makes an estimator on devices of its own, whose operations end with ctx until it is made.
func (e *Estimator) make(ctx context.Context, r *request.Request) (*study.Estimator, error) {
	life, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	release := context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })
	defer release()
	devices, err := r.Devices(life)
	if err != nil {
		return nil, err
	}
	return r.Open(ctx, devices, e.data.Data)
}

// Close releases what the estimator holds, when the last call that uses it has ended. Fits of it can no longer be
// drawn or written.
func (e *Estimator) Close() {
	e.mu.Lock()
	closed := e.closed
	e.closed = true
	e.mu.Unlock()
	if !closed {
		go func() {
			e.work.Wait()
			for _, job := range e.jobs {
				job.Close()
			}
		}()
	}
}

// begin says that a call uses the estimator, until e.work.Done.
func (e *Estimator) begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return study.Errorf("the estimator is closed, expected one that is open")
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

// fittable refuses an estimator without weights.
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
		f := &Fit{of: e, job: e.job, risk: risk, Result: e.result()}
		f.Fill(e.job.Problem, risk, e.data.Mu)
		f.StorageResult = study.StorageOf(e.job.Problem)
		return f, nil
	})
}

// result is what all results at the estimator's weights share.
func (e *Estimator) result() study.Result {
	r := e.job.Result()
	r.Warnings = e.warnings(e.job)
	return r
}
