// Package request is an estimate that is asked for: which estimator, on which data, and how it is computed. A command
// binds flags to the parts of a [Request], a service the fields of a message. Check rejects what contradicts itself and
// reads the specification; Read reads the data; Open makes the estimator.
//
// Errors are bad input ([study.Error]). The names of options in them are those of the command's flags.
package request

import (
	"context"
	"errors"
	"log/slog"
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/design"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
	"surepipe/risk/folds"
	"surepipe/study"
	"surepipe/study/load"
)

// Request says which estimate is computed. New has the defaults.
type Request struct {
	// Source is where the data are; Variance is what was found of sigma2 in them.
	load.Source
	load.Variance
	Weights Weights
	Trace   Trace
	Solver  Solver
	Machine Machine
	// Program is an estimator in the place of a problem, and so are the parts Own.
	Program Program
	Own     *problems.Own
	// Sigma2 is the variance of the noise, 0 where it is estimated, that of the data, or not known.
	Sigma2 float64
	// Correlation is "ar1" for noise that is correlated along y, whose correlation Open estimates; "" for white noise.
	Correlation string
	// Free says that weights may be left open, for a sweep.
	Free bool
	// Verify asks for checks of every result by other means.
	Verify bool
	// EffectNames, Order and LossParameters, by the name of the loss, complete the variant of the problem.
	EffectNames    []string
	Order          int
	LossParameters map[string]*float64
	Keep           Keep
	Provenance
	// Many, if not nil, says where many y come from, in the place of the one of the data.
	Many *Many
	// Folds says which observations are left out together, in cross-validation and audits. Read sets its groups
	// where Table.Groups names them.
	Folds folds.Folds
	Watch Watch

	noise pipeline.Autoregression // as estimated
	// Given reports whether an option was given: where it was not, a problem or a specification decides.
	Given func(option string) bool
}

// Provenance is what files keep of the command: fits its line, and shards the flags that determine the result, and
// where the data are, by the names of those flags.
type Provenance struct {
	CommandLine string
	Flags       map[string][]string
	Paths       map[string]string
}

// Keep says what a result holds besides numbers.
type Keep struct {
	B       bool // the intercept always requires it
	NoMuHat bool // mu_hat itself is not used
	Going   bool // a stream goes on after a sample that fails on its own
}

// Watch are those who are told of the work; each may be nil.
type Watch struct {
	Logger   *slog.Logger
	Progress func(pipeline.Progress)
	// Lost is told of a device that has failed, and Note of what is to be known of the data.
	Lost func(device string, fault error)
	Note func(study.Note)
	// Named gives options the names that texts have for them; nil leaves them as they are.
	Named func(study.Option) string
}

// Text is the text of an error, or of a note.
func (w *Watch) Text(err error) string {
	if w.Named == nil {
		return err.Error()
	}
	return study.Text(err, w.Named)
}

// New is a request with the defaults, of which nothing is given.
func New() *Request {
	r := &Request{
		Trace: defaultTrace(), Solver: defaultSolver(), Machine: Machine{Parallel: 1, Memory: "4GiB", Device: "auto"},
		Program: defaultProgram(), Order: 1, LossParameters: map[string]*float64{},
		Given: func(string) bool { return false },
	}
	for _, k := range loss.Kinds() {
		if k.Parameter != nil {
			r.LossParameters[k.Name] = new(float64)
		}
	}
	r.Files, r.Storage, r.Table.Missing = problems.Disk, load.StorageAuto, string(design.Refuse)
	return r
}

// Check rejects options that are wrong for any data, reads the specification, and sets what follows from it.
func (r *Request) Check() error {
	checks := []func() error{r.checkSigma2, r.Machine.check, r.Solver.check,
		func() error { return r.Trace.check(r.Given) }}
	if r.Own != nil {
		r.Problem, r.Command, r.Loss = r.Own.Name, true, r.Own.LossOf()
	} else {
		checks = append([]func() error{r.checkInputs, r.checkLoss}, checks...)
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	if r.Given("memory") {
		r.Limit = r.Machine.Memory
	}
	return nil
}

// Read reads the data, and estimates sigma2 where that is asked for.
func (r *Request) Read(ctx context.Context) (load.Contents, error) {
	data, err := r.Source.Read(ctx)
	return data, r.take(data, err)
}

// ReadMany is Read of one or several responses, with a request for each.
func (r *Request) ReadMany(ctx context.Context) (each []*Request, all []load.Contents, err error) {
	if all, err = r.Source.ReadMany(ctx); err != nil {
		return nil, nil, err
	}
	for _, data := range all {
		one := r
		if len(all) > 1 {
			clone := *r
			if one = &clone; one.Table.Response != "" {
				one.Table.Response = data.Response
			}
		}
		if err := one.take(data, nil); err != nil {
			return nil, nil, err
		}
		each = append(each, one)
	}
	return each, all, nil
}

func (r *Request) take(data load.Contents, err error) error {
	r.Variance = data.Variance
	r.Folds.Seed, r.Folds.Each = r.Trace.Seed, data.Each
	if r.Table.Groups != "" {
		r.Folds.Groups, r.Folds.By = data.Together, r.Table.Groups
	}
	if err == nil && (r.Folds.Groups != nil || r.Folds.Blocks > 0) {
		if wrong := r.Folds.Check(len(data.Y)); wrong != nil {
			err = study.Bad(wrong)
		}
	}
	return err
}

func (r *Request) checkSigma2() error {
	given := r.Given("sigma2") && r.Sigma2Method == ""
	return checkValues(value{"sigma2", r.Sigma2, !given || positive(r.Sigma2), "a positive number"})
}

// inData names the source of the value that a problem rejects: the option of a weight that was given, else the
// file of the data.
func (r *Request) inData(err error) error {
	var weight *problems.WeightError
	var placed *problems.SpecError
	switch {
	case errors.As(err, &placed):
		return study.Bad(err)
	case errors.As(err, &weight) && *r.Weights.Named()[weight.Weight] != "":
		return study.Because(err, "--%s %s", weight.Weight, weight.Reason)
	}
	return r.InFile(err)
}

// Noise is the variance of the noise, 0 where neither the request nor the data give one.
func (r *Request) Noise(data problems.Data) float64 {
	if r.Sigma2 == 0 && data.Sigma2 != nil {
		return *data.Sigma2
	}
	return r.Sigma2
}

func (r *Request) variance(data problems.Data) (float64, error) {
	sigma2 := r.Noise(data)
	if (data.Sigma2 != nil || sigma2 != 0) && !(sigma2 > 0) || math.IsInf(sigma2, 0) {
		return 0, study.Errorf("%s: sigma2 is %g, expected a positive number", r.Name(), sigma2)
	}
	return sigma2, nil
}

func (r *Request) checkScale(data problems.Data, sigma2 float64, d int) error {
	squares := floats.Dot(data.Y, data.Y)
	var what any = study.Option("sigma2")
	switch overflows := risk.Overflows(squares, sigma2, d); {
	case !overflows:
		return nil
	case sigma2 == 0:
		return study.Errorf("%s: y is too large for a finite residual: ||y||^2 overflows", r.Name())
	case r.Sigma2 == 0:
		what = r.Name() + ": sigma2"
	}
	return study.Errorf("%s is %g, too far from the scale of y for a finite risk: ||y||^2/d is %.3g", what, sigma2,
		squares/float64(d))
}

// RelStdErr is the standard error of sigma2 over its value; nil where it was given.
func (r *Request) RelStdErr() *float64 {
	if r.Estimate == nil {
		return nil
	}
	return &r.Estimate.RelStdErr
}
