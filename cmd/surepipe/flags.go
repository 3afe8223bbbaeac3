package main

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/noise"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// estimatorFlags are the flags that run, sweep and montecarlo share: which estimator, on which
// data, and how to compute its risk.
type estimatorFlags struct {
	problem, spec          string
	data                   string
	x, y, mu, d            string
	intercept, alo         bool
	loss                   problems.Loss
	lossParameters         map[string]*float64 // by the loss
	anisotropic, vectorial bool
	order                  int
	table                  tableFlags
	coefficients           coefficientFlags
	lambda, lambda2, gamma string
	sigma2                 float64
	solver, derivative     string
	trace                  string
	queries                queryCount
	traceError             float64
	seed                   uint64
	tol                    float64
	maxIter                int
	parallel, probeBatch   int
	memory, device         string
	storage                string
	verbose, verify        bool

	// sigma2Method says how to estimate sigma2, "" where it is given; estimate is the result, once
	// the data have been read, or where fits says that it takes fits, once open has made them.
	sigma2Method string
	estimate     *noise.Estimate
	fits         bool
	// cmd is the command, once its flags have been checked.
	cmd *cobra.Command
	// specification is that of --spec.
	specification *problems.Spec
	// depth is that of the file of y.
	depth dataio.Depth
	// others are the devices of --device after the first.
	others []array.Device
	// keepB downloads b with each result; the intercept always requires it.
	keepB bool
	// exec are the flags of an estimator that is a command.
	exec execFlags
	// effectNames is --effects, and effects what it says, or the specification does.
	effectNames []string
	effects     problems.Effects
	// noMuHat says that mu_hat itself is not written.
	noMuHat bool
	// notes are the notes printed on standard error so far, for the warnings in the JSON.
	notes []pipeline.Warning
}

// mostParallel is the largest --parallel: every sample in flight has goroutines and memory of its own.
const mostParallel = 1 << 14

func (f *estimatorFlags) register(cmd *cobra.Command, parallel int) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.problem, "problem", "", "the estimator: "+strings.Join(problems.Names(), ", "))
	flags.StringVar(&f.spec, "spec", "", "a problem of your own in place of --problem: a .yaml `file` (see surepipe spec --help)")
	f.exec.register(cmd)
	flags.StringVar(&f.data, "data", "", "the data: a .npz, .npy, .csv, .mtx, .mat, .h5, .nii, .cfl, .png, .jpg or .tif `file` (see surepipe run --help)")
	f.table.register(flags)
	flags.StringVar(&f.x, "X", "", "a `file` with X, dense or sparse, which replaces that of --data")
	flags.StringVar(&f.d, "D", "", "generalized-lasso: a `file` with D, dense or sparse, which replaces that of --data")
	if cmd.Name() != "montecarlo" {
		// There y has many samples.
		flags.StringVar(&f.y, "y", "", "a `file` with y, which replaces that of --data")
	}
	flags.StringVar(&f.mu, "mu", "", "a `file` with the true mean mu, which replaces that of --data")
	flags.BoolVar(&f.intercept, "intercept", false, "regressions: also fit an unpenalized intercept; the columns of X, which may be sparse, are centered (default: true with --response; a specification's own)")
	flags.BoolVar(&f.table.standardize, "standardize", false, "regressions: penalize the coefficients of columns divided by their standard deviations; results are in the columns' own units, and a sparse X stays sparse (default: true with --response; a specification's own)")
	flags.StringSliceVar(&f.effectNames, "effects", nil, effectsFlag)
	f.registerLoss(flags)
	flags.BoolVar(&f.anisotropic, "anisotropic", false, "tv2d: the sum of the absolute values of all differences, in place of the lengths of those of each pixel")
	flags.BoolVar(&f.vectorial, "vectorial", false, "tv2d: the differences of all channels of a pixel in one length, so that edges of different colours coincide; else each channel has a total variation of its own")
	flags.IntVar(&f.order, "order", 1, "trend1d: the degree of the pieces: 0 constant, 1 linear, 2 quadratic; "+
		"whittaker: how often differences are taken, 2 by default")
	flags.StringVar(&f.lambda, "lambda", "", "weight of the regularizer: a number, inf, or a multiple of the smallest value that gives b = 0, such as 0.25max (default: the file's)")
	flags.StringVar(&f.lambda2, "lambda2", "", "elastic net: weight of 1/2 ||b||^2, a number (default: the file's); a specification may use all three weights in any way")
	flags.StringVar(&f.gamma, "gamma", "", "robust PCA: weight of ||S||_1, as --lambda (default: the file's)")
	flags.Var(sigma2Value{&f.sigma2, &f.sigma2Method}, "sigma2", "variance of the noise in each coordinate of y, or auto to estimate it, or the method to estimate it by: "+strings.Join(problems.Sigma2Methods()[1:], ", ")+" (default: the file's; where it has none, sigma2 is unknown)")
	flags.StringVar(&f.solver, "solver", "auto", "auto (the problem's own choice), "+strings.Join(vjp.Solvers(), ", "))
	flags.StringVar(&f.derivative, "derivative", string(vjp.Auto), "implicit (differentiate the fixed point), unrolled (differentiate the iterations in reverse), auto (implicit where the solver has converged)")
	flags.StringVar(&f.trace, "trace", pipeline.Auto, "estimator of the divergence: auto (exact where there is a closed form, else hutchinson), "+strings.Join(hutch.Estimators(), ", "))
	f.queries = queryCount{hutch.DefaultQueries, true}
	flags.Var(&f.queries, "queries", "products with the Jacobian that the trace estimator may use, or auto: as many as --trace-error requires, 24 or more where it is 0.1 and 6 or more from 0.2 on (hutchinson and hutch++ only; the other estimators take 102 by default)")
	flags.Float64Var(&f.traceError, "trace-error", pipeline.DefaultTraceError, "with --queries auto: stop when the trace's contribution to SURE's standard error is this share of SURE's own; where sigma2 is unknown, sigma2_df stands in for it")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of the trace estimator's probes")
	flags.BoolVar(&f.alo, "alo", false, "make sure of alo, the error of predicting an observation that is left out, without refits, also where the divergence takes no probes: by the exact diagonal of the derivative where that is cheap or with --trace exact, else by 48 probes")
	flags.Float64Var(&f.tol, "tol", vjp.DefaultTol, "stop at this distance from optimality, relative to the noise; where a duality gap is known, mu_hat is then within min(0.01, 100 sqrt(tol)) sigma sqrt(d) of the exact estimate")
	flags.IntVar(&f.maxIter, "max-iter", vjp.DefaultMaxIter, "stop after this many iterations, converged or not")
	flags.IntVar(&f.parallel, "parallel", parallel, "samples in flight at once")
	flags.IntVar(&f.probeBatch, "probe-batch", 0, "probes in one reverse sweep; 0 chooses. Results do not depend on it")
	flags.BoolVar(&f.verify, "verify", false, "check every result by other means: its derivative by solves at perturbed y and at nearby weights, its solution by products with A and, for small problems, by another solver. A discrepancy of more than four error bars makes the exit status 3. Takes several times as long")
	flags.StringVar(&f.memory, "memory", "4GiB", "memory for the tapes of all samples in flight and, if given, the limit of all memory on a card; a tape that does not fit is recomputed in parts. With --storage mapped or float32 also for the columns of X that one of them holds")
	flags.StringVar(&f.storage, "storage", storageAuto, storageFlag)
	flags.StringVar(&f.device, "device", "auto", "auto, or "+strings.Join(array.Kinds(), ", ")+"; cuda:1 is the second card, and cuda:0,cuda:1 spreads samples, points of a sweep or probes over both")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log every sample on standard error")
	for name, values := range map[string][]string{
		"problem": problems.Names(), "loss": loss.Names(), "solver": append([]string{"auto"}, vjp.Solvers()...),
		"derivative": {"auto", "implicit", "unrolled"}, "sigma2": problems.Sigma2Methods(), "trace": append([]string{pipeline.Auto}, hutch.Estimators()...), "queries": {"auto"}, "storage": storages, "device": append([]string{"auto"}, array.Kinds()...),
	} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
	}
	for _, name := range []string{"data", "X", "D", "y", "mu"} {
		if flags.Lookup(name) != nil {
			markFile(cmd, reads, name, "npz", "npy", "csv", "tsv", "mtx", "png", "jpg", "tif", "gz")
		}
	}
	markFile(cmd, reads, "spec", "yaml", "yml")
	shareFlags(flags)
}

// check rejects flags that are wrong for any data.
func (f *estimatorFlags) check(cmd *cobra.Command) error {
	f.cmd = cmd
	if err := f.checkInputs(cmd.Flags().Changed); err != nil {
		return err
	}
	if err := f.checkStorage(cmd.Flags().Changed); err != nil {
		return err
	}
	switch {
	case cmd.Flags().Changed("sigma2") && f.sigma2Method == "" && (!(f.sigma2 > 0) || math.IsInf(f.sigma2, 0)):
		return usagef("--sigma2 is %g, expected a positive number", f.sigma2)
	case !(f.tol > 0) || f.tol >= 1:
		return usagef("--tol is %g, expected a number between 0 and 1 (at 1, b = 0 would be accepted)", f.tol)
	case f.maxIter < 1:
		return usagef("--max-iter is %d, expected at least 1", f.maxIter)
	case f.parallel < 1 || f.parallel > mostParallel:
		return usagef("--parallel is %d, expected 1 to %d", f.parallel, mostParallel)
	case f.probeBatch < 0:
		return usagef("--probe-batch is %d, expected 0 or more", f.probeBatch)
	case !slices.Contains(vjp.Derivatives(), vjp.Derivative(f.derivative)):
		return usagef("--derivative is %q, expected auto, implicit or unrolled", f.derivative)
	}
	if err := f.checkNamed(cmd); err != nil {
		return err
	}
	if _, err := f.memoryBytes(); err != nil {
		return err
	}
	switch {
	case f.trace != pipeline.Auto && !slices.Contains(hutch.Estimators(), f.trace):
		return usagef("--trace is %q, expected auto or one of %s%s", f.trace, strings.Join(hutch.Estimators(), ", "), ndarray.Meant(f.trace, hutch.Estimators()))
	case f.trace == pipeline.Auto && f.queries.n < 2:
		return usagef("--queries is %d, expected 2 or more, or auto", f.queries.n)
	}
	estimator := f.trace
	if estimator == pipeline.Auto {
		estimator = hutch.Hutchinson
	}
	adaptive := f.trace == hutch.Exact
	if e, ok := hutch.ByName(estimator); ok && e.First(f.traceError) > 0 {
		adaptive = true
	}
	if !adaptive && !cmd.Flags().Changed("queries") {
		f.queries.auto = false
	}
	if _, err := hutch.NewPlan(estimator, f.queries.n, math.MaxInt32); err != nil {
		return planError(err)
	}
	switch {
	case !f.queries.auto && cmd.Flags().Changed("trace-error"):
		return usagef("--trace-error is for --queries auto, found --queries %s", &f.queries)
	case f.queries.auto && (!(f.traceError > 0) || math.IsInf(f.traceError, 0)):
		return usagef("--trace-error is %g, expected a positive number", f.traceError)
	case f.queries.auto && !adaptive:
		return usagef("--queries is auto, but %s takes a fixed number: expected a number, or --trace hutch++ or hutchinson", f.trace)
	}
	if err := f.checkLoss(cmd); err != nil {
		return err
	}
	if f.solver != "auto" && !slices.Contains(vjp.Solvers(), f.solver) {
		return usagef("--solver is %q, expected auto or one of %s%s", f.solver, strings.Join(vjp.Solvers(), ", "), ndarray.Meant(f.solver, vjp.Solvers()))
	}
	return nil
}

// queryCount is the value of --queries.
type queryCount struct {
	n    int
	auto bool
}

// Set reads a number or "auto", which leaves n at its default.
func (q *queryCount) Set(text string) error {
	if text == "auto" {
		*q = queryCount{hutch.DefaultQueries, true}
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return errors.New("expected a number or auto")
	}
	*q = queryCount{n, false}
	return nil
}

func (q *queryCount) String() string {
	if q.auto {
		return "auto"
	}
	return strconv.Itoa(q.n)
}

// Type is its name in the help.
func (q *queryCount) Type() string { return "int|auto" }

// planError names the flag of the argument that a trace estimator rejects.
func planError(err error) error {
	var refused *hutch.PlanError
	if !errors.As(err, &refused) {
		return err
	}
	flag := map[string]string{"estimator": "--trace", "queries": "--queries"}[refused.Argument]
	return usagef("%s is %v: %s", flag, refused.Value, refused.Reason)
}

func (f *estimatorFlags) memoryBytes() (int64, error) {
	n, err := humanize.ParseBytes(f.memory)
	if err != nil || n == 0 || n > math.MaxInt64 {
		return 0, usagef("--memory is %q, expected a size such as 4GiB", f.memory)
	}
	return int64(n), nil
}

// dataError names the source of the value that a problem rejects: the flag of a weight that was
// given by a flag, else the data file.
func (f *estimatorFlags) dataError(err error) error {
	var weight *problems.WeightError
	given := map[string]string{"lambda": f.lambda, "lambda2": f.lambda2, "gamma": f.gamma}
	switch {
	case specError(err):
		return usageError{err}
	case errors.As(err, &weight) && given[weight.Weight] != "":
		return usagef("--%w", weight)
	}
	return f.inFile(err)
}

// noise is the variance of the noise, 0 where neither the flags nor the data give one.
func (f *estimatorFlags) noise(data problems.Data) float64 {
	if f.sigma2 == 0 && data.Sigma2 != nil {
		return *data.Sigma2
	}
	return f.sigma2
}

// checkScale rejects y and sigma2 for which the error bar of the risk overflows.
func (f *estimatorFlags) checkScale(data problems.Data, sigma2 float64, d int) error {
	squares := 0.0
	for _, v := range data.Y {
		squares += v * v
	}
	what := "--sigma2"
	if f.sigma2 == 0 {
		what = f.source() + ": sigma2"
	}
	if sigma2 == 0 {
		if math.IsInf(squares, 0) {
			return usagef("%s: y is too large for a finite residual: ||y||^2 overflows", f.source())
		}
		return nil
	}
	if math.IsInf(4*squares/sigma2, 0) || math.IsInf(4*sigma2*float64(d), 0) {
		return usagef("%s is %g, too far from the scale of y for a finite risk: ||y||^2/d is %.3g", what, sigma2, squares/float64(d))
	}
	return nil
}

// solverOptions are the solver's settings for one of the samples, or points of a sweep, in flight.
func (f *estimatorFlags) solverOptions(dev array.Device, sigma2 float64) (vjp.Options, error) {
	memory, err := f.memoryBytes()
	if err != nil {
		return vjp.Options{}, err
	}
	if free, bounded := dev.Available(); bounded {
		memory = min(memory, free/2) // the other half is for the probes
	}
	return vjp.Options{
		Tol: f.tol, MaxIter: f.maxIter, Sigma2: sigma2, Derivative: vjp.Derivative(f.derivative), Memory: max(memory/int64(f.parallel), 1), Columns: max(memory/2, 1), Images: f.alo, Compact: true,
	}, nil
}

func defaultParallel() int { return runtime.GOMAXPROCS(0) }
