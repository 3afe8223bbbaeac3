package main

import (
	"errors"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/internal/dataio"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/study/load"
	"surepipe/vjp"
)

// estimatorFlags are the flags that run, sweep and montecarlo share: which estimator, on which
// data, and how to compute its risk.
type estimatorFlags struct {
	// source is where the data are, and found what was found of sigma2 in them.
	load.Source
	load.Variance
	depth dataio.Depth // of the file of y
	weightFlags
	traceFlags
	solverFlags
	machineFlags
	lossParameters map[string]*float64 // by the loss
	exec           execFlags
	coefficients   coefficientFlags
	order          int      // --order
	effectNames    []string // --effects
	sigma2         float64  // --sigma2, 0 where it is a method
	keep           keeping
	notes          []pipeline.Warning // those printed on standard error so far, for the JSON
}

// keeping says what a result holds besides numbers.
type keeping struct {
	b       bool // the intercept always requires it
	noMuHat bool // mu_hat itself is not written
}

func (f *estimatorFlags) register(cmd *cobra.Command, parallel int) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.Problem, "problem", "", "the estimator: "+strings.Join(problems.Names(), ", "))
	flags.StringVar(&f.Spec, "spec", "", "a problem of your own in place of --problem: a .yaml `file` (see "+
		"surepipe spec --help)")
	f.exec.register(cmd)
	flags.StringVar(&f.Data, "data", "", "the data: a .npz, .npy, .csv, .mtx, .mat, .h5, .nii, .cfl, .png, .jpg "+
		"or .tif `file` (see surepipe run --help)")
	registerTable(&f.Table, flags)
	flags.StringVar(&f.X, "X", "", "a `file` with X, dense or sparse, which replaces that of --data")
	flags.StringVar(&f.D, "D", "",
		"generalized-lasso: a `file` with D, dense or sparse, which replaces that of --data")
	if cmd.Name() != "montecarlo" {
		// There y has many samples.
		flags.StringVar(&f.Y, "y", "", "a `file` with y, which replaces that of --data")
	}
	flags.StringVar(&f.Mu, "mu", "", "a `file` with the true mean mu, which replaces that of --data")
	flags.BoolVar(&f.Intercept, "intercept", false, "regressions: also fit an unpenalized intercept; the columns "+
		"of X, which may be sparse, are centered (default: true with --response; a specification's own)")
	flags.BoolVar(&f.Table.Standardize, "standardize", false, "regressions: penalize the coefficients of columns "+
		"divided by their standard deviations; results are in the columns' own units, and a sparse X stays "+
		"sparse (default: true with --response; a specification's own)")
	flags.StringSliceVar(&f.effectNames, "effects", nil, effectsFlag)
	f.registerLoss(flags)
	flags.BoolVar(&f.Anisotropic, "anisotropic", false, "tv2d: the sum of the absolute values of all "+
		"differences, in place of the lengths of those of each pixel")
	flags.BoolVar(&f.Vectorial, "vectorial", false, "tv2d: the differences of all channels of a pixel in one "+
		"length, so that edges of different colours coincide; else each channel has a total variation of its own")
	flags.IntVar(&f.order, "order", 1, "trend1d: the degree of the pieces: 0 constant, 1 linear, 2 quadratic; "+
		"whittaker: how often differences are taken, 2 by default")
	f.weightFlags.register(flags)
	flags.Var(sigma2Value{&f.sigma2, &f.Sigma2Method}, "sigma2", "variance of the noise in each coordinate of y, "+
		"or auto to estimate it, or the method to estimate it by: "+strings.Join(problems.Sigma2Methods()[1:],
		", ")+" (default: the file's; where it has none, sigma2 is unknown)")
	f.solverFlags.register(flags)
	f.traceFlags.register(flags)
	f.registerStop(flags)
	f.machineFlags.register(flags, parallel, &f.Storage)
	for name, values := range map[string][]string{
		"problem": problems.Names(), "loss": loss.Names(), "solver": append([]string{"auto"}, vjp.Solvers()...),
		"derivative": {"auto", "implicit", "unrolled"}, "sigma2": problems.Sigma2Methods(),
		"trace": append([]string{pipeline.Auto}, hutch.Estimators()...), "queries": {"auto"},
		"storage": load.Storages, "device": append([]string{"auto"}, array.Kinds()...),
	} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(name,
			cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
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
	changed := cmd.Flags().Changed
	checks := []func() error{
		func() error { return f.checkInputs(changed) },
		func() error { return f.checkStorage(changed) },
		func() error { return f.checkSigma2(changed) },
		f.checkStop,
		f.machineFlags.check,
		f.checkDerivative,
		func() error { return f.checkNamed(cmd) },
		func() error {
			_, err := f.memoryBytes()
			return err
		},
		func() error { return f.traceFlags.check(changed) },
		func() error { return f.checkLoss(cmd) },
		f.checkSolver,
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	if changed("memory") {
		f.Limit, f.Collect = f.memory, limitGarbage
	}
	return nil
}

// checkSigma2 rejects a variance that is none.
func (f *estimatorFlags) checkSigma2(changed func(flag string) bool) error {
	if changed("sigma2") && f.Sigma2Method == "" && (!(f.sigma2 > 0) || math.IsInf(f.sigma2, 0)) {
		return usagef("--sigma2 is %g, expected a positive number", f.sigma2)
	}
	return nil
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
	return f.InFile(err)
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
		what = f.Name() + ": sigma2"
	}
	if sigma2 == 0 {
		if math.IsInf(squares, 0) {
			return usagef("%s: y is too large for a finite residual: ||y||^2 overflows", f.Name())
		}
		return nil
	}
	if math.IsInf(4*squares/sigma2, 0) || math.IsInf(4*sigma2*float64(d), 0) {
		return usagef("%s is %g, too far from the scale of y for a finite risk: ||y||^2/d is %.3g", what, sigma2,
			squares/float64(d))
	}
	return nil
}
