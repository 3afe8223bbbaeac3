package surepipe

import (
	"cmp"
	"log/slog"
	"reflect"
	"strconv"
	"strings"

	"surepipe/internal/lists"
	"surepipe/internal/noise"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
	"surepipe/risk/folds"
	"surepipe/study"
	"surepipe/study/load"
	"surepipe/study/request"
	"surepipe/vjp"
)

// Options say which estimator is opened, and how its risk is computed. The zero value of a field stands for what the
// command does where the flag of that name is not given.
type Options struct {
	// Problem is the name of an estimator: [Lasso], [Completion], ... Spec is the text of a specification in its
	// place, as surepipe spec --help describes it. Own and BlackBox are estimators of one's own.
	Problem  Problem
	Spec     string
	Own      *Own
	BlackBox *BlackBox
	// Table says which columns of a table are what.
	Table Table
	// Lambda, Lambda2 and Gamma are the weights: a number, inf, or a multiple such as "0.25max" of the smallest
	// that gives b = 0. One that neither they nor the data have has to be swept.
	Lambda, Lambda2, Gamma string
	// Alpha, if not 0, is that of the elastic net Lambda (Alpha ||b||_1 + (1 - Alpha)/2 ||b||^2), in place of Lambda2.
	Alpha float64
	// Sigma2 is the variance of the noise in each coordinate of y, and Sigma2By a way to estimate it in its place,
	// such as "auto", or "ar1" for autoregressive noise of a sequence. Without either it is that of the data, or not
	// known.
	Sigma2   float64
	Sigma2By string
	// Intercept and Standardize are of regressions: by default true for a table with a response.
	Intercept, Standardize *bool
	// Effects are unpenalized effects of a completion: rows, cols, mean, none, or auto, as nil, for those that
	// leave-one-out chooses.
	Effects []string
	// Loss is squared, logistic, multinomial, mgaussian, poisson, huber, cox or cox-efron, and LossParameter that of
	// huber.
	Loss          string
	LossParameter float64
	// Order is that of trend filtering and of Whittaker's differences.
	Order *int
	// Folds says which observations cross-validation ([Grid].Criterion cv) leaves out together: by default ten random
	// folds, or those of [Table].Groups.
	Folds Folds
	// Anisotropic and Vectorial are variants of the total variation of images.
	Anisotropic, Vectorial bool
	// Compute says how it is computed.
	Compute
	// Logger, Progress and Warn are told of the work; each may be nil, and is called from several goroutines. Progress
	// is called often, and must return quickly. Warn is told what is to be known of the data and the estimator, which
	// results have too.
	Logger   *slog.Logger
	Progress func(Progress)
	Warn     func(Warning)
}

// Compute says how an estimate is computed. None of it changes what is estimated.
type Compute struct {
	// Solver is one of [Solvers], with its tolerance and its most iterations; Derivative is implicit or unrolled.
	Solver     Solver
	Tol        float64
	MaxIter    int
	Derivative string
	// Trace is the estimator of the divergence, with Queries probes or as many as TraceError requires. LeaveOneOut
	// makes sure of it.
	Trace       string
	Queries     int
	TraceError  float64
	LeaveOneOut bool
	// Seed is that of all probes and draws: equal seeds give equal bits, whatever is computed at the same time.
	Seed uint64
	// Verify checks every result by other means.
	Verify bool
	// KeepGoing lets a stream go on after a sample that fails on its own.
	KeepGoing bool
	// Parallel is how many samples, or points of a sweep, are in flight at once. 0 stands for one sample, or for up to
	// four points where y has at most a million values and lies in the memory of the host.
	Parallel int
	// Memory bounds what the estimate takes, in bytes; a fit that needs more is refused before it takes any.
	Memory int64
	// Device is auto, cpu, or the name of a card.
	Device string
}

// Names of types of other packages that stand here too.
type (
	// Progress says how far a computation has come.
	Progress = pipeline.Progress
	// Warning is a reason to doubt a number, or something to know of it, with its code.
	Warning = pipeline.Warning
	// Folds divide observations into those that are left out together.
	Folds = folds.Folds
	// Table says which columns of a table are what.
	Table = load.Table
	// Criterion is a number that falls as an estimator gets better, one of [Criteria].
	Criterion = risk.Criterion
)

// Problem is the name of an estimator.
type Problem string

// The problems. docs/ has a guide for each, and surepipe help data their arrays.
const (
	OLS              Problem = "ols"
	Ridge            Problem = "ridge"
	Lasso            Problem = "lasso"
	ElasticNet       Problem = "elastic-net"
	GroupLasso       Problem = "group-lasso"
	FusedLasso       Problem = "fused-lasso"
	GeneralizedLasso Problem = "generalized-lasso"
	SVT              Problem = "svt"
	Completion       Problem = "matrix-completion"
	RobustPCA        Problem = "robust-pca"
	LocalLowRank     Problem = "local-low-rank"
	TV1D             Problem = "tv1d"
	TV2D             Problem = "tv2d"
	Trend            Problem = "trend1d"
	Whittaker        Problem = "whittaker"
)

// Problems lists the named problems; others are specifications.
func Problems() []Problem {
	return lists.Map(problems.Names(), func(name string) Problem { return Problem(name) })
}

// Solver is the name of a method by which an estimator is computed; "" chooses one.
type Solver string

// Solvers lists the methods of the table of package solve. One of your own is used by vjp.FromMethod and has no name
// here.
func Solvers() []Solver {
	return lists.Map(vjp.Solvers(), func(name string) Solver { return Solver(name) })
}

// Criteria lists what a sweep may minimize.
func Criteria() []Criterion { return risk.CriterionNames() }

// request is the request that the options make, of which those that are not zero are given.
func (o *Options) request() (*request.Request, error) {
	r, given := request.New(), map[string]bool{}
	r.Given = func(option string) bool { return given[option] }
	r.Problem = string(o.Problem)
	if o.Spec != "" {
		spec, err := problems.ParseSpec([]byte(o.Spec), "spec")
		if err != nil {
			return nil, study.Bad(err)
		}
		r.Specification, r.Spec = spec, "spec"
	}
	missing := r.Table.Missing
	r.Table = o.Table
	r.Table.Missing = cmp.Or(o.Table.Missing, missing)
	for field, column := range reflect.ValueOf(o.Table).Fields() {
		given[strings.ToLower(field.Name)] = !column.IsZero()
	}
	for _, text := range []struct {
		option string
		to     *string
		value  string
	}{
		{"lambda2", &r.Weights.Lambda2, o.Lambda2}, {"lambda", &r.Weights.Lambda, o.Lambda},
		{"gamma", &r.Weights.Gamma, o.Gamma}, {"sigma2", &r.Sigma2Method, o.Sigma2By}, {"loss", &r.Loss.Name, o.Loss},
		{"solver", &r.Solver.Name, string(o.Solver)}, {"derivative", &r.Solver.Derivative, o.Derivative},
		{"trace", &r.Trace.Estimator, o.Trace}, {"device", &r.Machine.Device, o.Device},
	} {
		set(given, text.option, text.to, text.value, text.value != "")
	}
	o.correlation(r, given)
	set(given, "effects", &r.EffectNames, o.Effects, o.Effects != nil)
	if o.Intercept != nil {
		set(given, "intercept", &r.Intercept, *o.Intercept, true)
	}
	if o.Standardize != nil {
		set(given, "standardize", &r.Standardize, *o.Standardize, true)
	}
	if o.Order != nil {
		set(given, "order", &r.Order, *o.Order, true)
	}
	if r.Folds.Groups = o.Folds.Groups; o.Folds.Groups != nil && o.Table.Groups != "" {
		return nil, study.Errorf("--groups is %q, and Folds.Groups has labels, expected one of them", o.Table.Groups)
	}
	set(given, "alpha", &r.Program.Alpha, o.Alpha, o.Alpha != 0)
	set(given, "folds", &r.Folds.K, o.Folds.K, o.Folds.K != 0)
	set(given, "repeats", &r.Folds.Repeats, o.Folds.Repeats, o.Folds.Repeats != 0)
	set(given, "blocks", &r.Folds.Blocks, o.Folds.Blocks, o.Folds.Blocks != 0)
	set(given, "forward", &r.Folds.Time, o.Folds.Time, o.Folds.Time)
	r.Anisotropic, r.Vectorial = o.Anisotropic, o.Vectorial
	if to := r.LossParameters[o.Loss]; to != nil {
		*to = o.LossParameter
	} else if o.LossParameter != 0 {
		return nil, study.Errorf("loss-parameter is %g, but the %s loss has none", o.LossParameter, o.Loss)
	}
	set(given, "sigma2", &r.Sigma2, o.Sigma2, o.Sigma2 != 0)
	if o.Sigma2 != 0 && o.Sigma2By != "" {
		return nil, study.Errorf("--sigma2 is %g and estimated by %q, expected one of them", o.Sigma2, o.Sigma2By)
	}
	o.compute(r, given)
	switch {
	case o.Own != nil && o.BlackBox != nil || (o.Own != nil || o.BlackBox != nil) && o.Problem+Problem(o.Spec) != "":
		return nil, study.Errorf("--problem, spec, own and black-box: several are given, expected one of them")
	case o.Own != nil:
		return r, o.Own.of(r)
	case o.BlackBox != nil:
		return r, o.BlackBox.of(r, given)
	}
	return r, nil
}

func (c *Compute) compute(r *request.Request, given map[string]bool) {
	set(given, "tol", &r.Solver.Tol, c.Tol, c.Tol != 0)
	set(given, "max-iter", &r.Solver.MaxIter, c.MaxIter, c.MaxIter != 0)
	set(given, "queries", &r.Trace.Queries, request.Queries{N: c.Queries}, c.Queries != 0)
	set(given, "trace-error", &r.Trace.Error, c.TraceError, c.TraceError != 0)
	set(given, "parallel", &r.Machine.Parallel, c.Parallel, c.Parallel != 0)
	r.Trace.ALO, r.Trace.Seed, r.Verify, r.Keep.Going = c.LeaveOneOut, c.Seed, c.Verify, c.KeepGoing
	set(given, "memory", &r.Machine.Memory, strconv.FormatInt(c.Memory, 10), c.Memory != 0)
	r.Machine.Bound = c.Memory
}

func set[T any](given map[string]bool, option string, to *T, value T, is bool) {
	if is {
		*to, given[option] = value, true
	}
}

// correlation takes the way to estimate sigma2 that also estimates how the noise is correlated.
func (o *Options) correlation(r *request.Request, given map[string]bool) {
	if o.Sigma2By == noise.MethodAR1 {
		r.Sigma2Method, r.Correlation = "", noise.MethodAR1
		delete(given, "sigma2")
	}
}
