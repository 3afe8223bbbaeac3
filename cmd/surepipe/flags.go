package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"surepipe/array"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/hutch"
	"surepipe/internal/dataio"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/study/load"
	"surepipe/study/request"
	"surepipe/vjp"
)

// sigma2Value is the value of --sigma2: a number, or how to estimate it.
type sigma2Value struct{ *request.Request }

func (v sigma2Value) Set(text string) error {
	if slices.Contains(problems.Sigma2Methods(), text) {
		v.Sigma2, v.Sigma2Method = 0, text
		return nil
	}
	x, ok := dataio.ParseNumber(text)
	if !ok {
		return fmt.Errorf("expected a number or one of %s", strings.Join(problems.Sigma2Methods(), ", "))
	}
	v.Sigma2, v.Sigma2Method = x, ""
	return nil
}

func (v sigma2Value) String() string {
	switch {
	case v.Request == nil:
		return ""
	case v.Sigma2Method != "":
		return v.Sigma2Method
	case v.Sigma2 == 0:
		return ""
	}
	return strconv.FormatFloat(v.Sigma2, 'g', -1, 64)
}

func (v sigma2Value) Type() string { return "float|auto" }

// register binds the flags that run, sweep and montecarlo share to the parts of the request: which estimator, on which
// data, and how to compute its risk.
func (e *estimation) register(cmd *cobra.Command, parallel int) {
	e.cmd, e.Request = cmd, request.New()
	e.Machine.Parallel, e.Given = parallel, cmd.Flags().Changed
	cli.Bind(cmd, e.rows()...)
	cli.Bind(cmd, cli.Flag{Name: "verbose", Short: "v", To: &e.verbose, Usage: "log every sample on standard error"})
	cli.ShareFlags(cmd.Flags())
}

// parts are the table of the shared flags, part by part.
var parts = []func(*estimation) []cli.Flag{(*estimation).problemFlags, (*estimation).programFlags,
	(*estimation).dataFlags, (*estimation).variantFlags, (*estimation).lossFlags, (*estimation).weightFlags,
	(*estimation).solverFlags, (*estimation).traceFlags, (*estimation).machineFlags}

func (e *estimation) rows() (all []cli.Flag) {
	for _, part := range parts {
		all = append(all, part(e)...)
	}
	return all
}

func (e *estimation) problemFlags() []cli.Flag {
	return []cli.Flag{
		{Name: "problem", To: &e.Problem, Brief: "the estimator, such as lasso or tv2d (surepipe help data)",
			Usage:  "the estimator: " + strings.Join(problems.Names(), ", "),
			Values: problems.Names()},
		{Name: "spec", To: &e.Spec, Usage: "a problem of your own in place of --problem: a .yaml `file`, or a name " +
			"that surepipe spec lists", Role: cli.Reads, Extensions: []string{"yaml", "yml"}},
	}
}

func (e *estimation) programFlags() []cli.Flag {
	p := &e.Program
	return []cli.Flag{
		{Name: "exec", To: &p.Line, Usage: "a `command` in place of --problem: it reads y as .npy on standard input " +
			"and writes mu_hat as .npy; {lambda}, {lambda2}, {gamma} are replaced (see surepipe help black-boxes)"},
		{Name: "divergence", To: &p.Divergence, Usage: "with --exec: monte-carlo, differences of a continuous " +
			"estimator; for any estimator antithetic or coupled-bootstrap, at noise (1 + alpha) sigma2; thinning for " +
			"counts",
			Values: request.Divergences()},
		{Name: "eps", To: &p.Eps, Usage: "with --exec and monte-carlo: the step of the differences, in units of y; 0 " +
			"stands for 0.01 sigma"},
		{Name: "alpha", To: &p.Alpha, Usage: "elastic-net: with --lambda alone the penalty is lambda (alpha ||b||_1 " +
			"+ (1 - alpha)/2 ||b||^2); with --exec and another --divergence than monte-carlo: the share of noise " +
			"that is added, 0 for the default"},
		{Name: "exec-timeout", To: &p.Timeout, Usage: "with --exec: kill the command after this time, such as 30s; 0 " +
			"for no limit"},
	}
}

// arrays are the extensions that shells complete for files of data.
var arrays = append(extensions(dataio.Formats()), "gz")

// lossesThat is the flag of the losses of which something holds.
func lossesThat(holds func(loss.Kind) bool) string { return "--loss " + loss.NamesThat(holds) }

// naFlag describes the flag --na.
var naFlag = "in a table: the `texts` that stand for a missing value, separated by commas, besides an empty cell, " +
	"in place of " + strings.Join(dataio.MissingMarks, " ") + "; cells in quotes are texts"

func (e *estimation) dataFlags() []cli.Flag {
	t := &e.Table
	timed := lossesThat(func(k loss.Kind) bool { return k.Timed })
	trials := lossesThat(func(k loss.Kind) bool { return k.Trials })
	levels := lossesThat(func(k loss.Kind) bool { return k.Levels == 2 })
	rows := []cli.Flag{
		{Name: "data", To: &e.Data, Brief: "the data: a table, archive, array, matrix or image (help data)",
			Usage: "the data: a .npz, .npy, .csv, .mtx, .mat, .h5, .nii, .cfl, .png, .jpg or " +
				".tif `file` (see surepipe help data)"},
		{Name: "response", To: &t.Response, Usage: "in a table (.csv, .tsv) with a header line: the `column` that " +
			"is y; the others are X, and columns of texts are coded as indicators. Regressions take several, a,b,c, " +
			"each with weights and criteria of its own"},
		{Name: "index", To: &t.Index, Usage: "in a table of a sequence: the `column` of its places, dates or " +
			"numbers in order, which --out keeps and whose distances whittaker uses (default: the first other " +
			"column, if it is such)"},
		{Name: "drop", To: &t.Drop, Usage: "in a table: leave out these `columns`, separated by commas"},
		{Name: "only", To: &t.Only, Usage: "in a table: only these `columns`, besides the response"},
		{Name: "categorical", To: &t.Categorical, Usage: "in a table: `columns` of numbers that stand for categories"},
		{Name: "weights", To: &t.Weights, Usage: "regressions, matrix-completion: in a table, the `column` of " +
			"weights of the observations in the loss, 1/2 sum_i w_i (mu_i - y_i)^2 or another (an archive has them " +
			"as the array weights)"},
		{Name: "offset", To: &t.Offset, Usage: "regressions: in a table, the `column` of what the linear predictor " +
			"has besides X b (in an archive the array offset)"},
		{Name: "exposure", To: &t.Exposure, Usage: "regressions: in a table, the `column` of the time, area or " +
			"number from which y counts, whose logarithm is an offset (the array exposure)"},
		{Name: "trials", To: &t.Trials, Usage: trials + ": in a table, the `column` of the numbers of trials, " +
			"of which y are the numbers of successes (the array trials)"},
		{Name: "time", To: &t.Time, Usage: timed + ": in a table, the `column` of the times of the " +
			"events, or of the ends of the observations without one, as --response says (the array time)"},
		{Name: "start", To: &t.Start, Usage: timed + ": in a table, the `column` of the times from " +
			"which on the observations are at risk (left truncation; the array start)"},
		{Name: "strata", To: &t.Strata, Usage: timed + ": in a table, the `column` of groups with " +
			"baseline hazards of their own (the array strata)"},
		{Name: "success", To: &t.Success, Usage: levels + ": the `level` of a response of two levels, " +
			"texts or numbers, that is 1 (default: the second in alphabetical order)"},
		{Name: "na", To: &t.NA, Usage: naFlag},
		{Name: "missing", To: &t.Missing, Usage: "in a table: what to do about missing values: error, drop (leave " +
			"out such rows; of a sequence or an image, estimate them) or mean (in X, the mean of the column; rows " +
			"without a response are left out)"},
		{Name: "X", To: &e.X, Usage: "a `file` with X, dense or sparse, which replaces that of --data"},
		{Name: "D", To: &e.D, Usage: "generalized-lasso: a `file` with D, dense or sparse, which replaces that of " +
			"--data"},
		{Name: "y", To: &e.Y, Usage: "a `file` with y, which replaces that of --data"},
		{Name: "mu", To: &e.Mu, Usage: "a `file` with the true mean mu, which replaces that of --data"},
	}
	for i := range rows {
		if slices.Contains([]string{"data", "X", "D", "y", "mu"}, rows[i].Name) {
			rows[i].Role, rows[i].Extensions = cli.Reads, arrays
		}
	}
	if e.cmd.Name() == "montecarlo" { // there y has many samples
		rows = slices.DeleteFunc(rows, func(f cli.Flag) bool { return f.Name == "y" })
	}
	return rows
}

func (e *estimation) foldFlags() []cli.Flag {
	f := &e.Folds
	rows := []cli.Flag{
		{Name: "groups", To: &e.Table.Groups, Usage: "leave out observations of a group together: in a table the " +
			"`column` of the groups, which is then no column of X; rows or cols of a matrix-completion; an array of " +
			"--data, or a file with one, of whole numbers. The criterion is then lgo by default"},
		{Name: "blocks", To: &f.Blocks, Usage: "leave out runs of so many consecutive observations together"},
	}
	if e.cmd.Name() == "run" {
		return rows
	}
	return append(rows,
		cli.Flag{Name: "folds", To: &f.K, Usage: "with --criterion cv: the number of folds, 10 by " +
			"default; 20 of entries of a matrix or a sequence"},
		cli.Flag{Name: "repeats", To: &f.Repeats, Usage: "with --criterion cv: how often folds are drawn, once by " +
			"default, drawn by the seed"},
		cli.Flag{Name: "forward", To: &f.Time, Usage: "with --criterion cv: the folds are runs of consecutive " +
			"observations, each of which is predicted from those before it alone"})
}

func (e *estimation) variantFlags() []cli.Flag {
	return []cli.Flag{
		{Name: "intercept", To: &e.Intercept, Usage: "regressions: also fit an unpenalized intercept; the columns " +
			"of X, which may be sparse, are centered (default: true with --response; a specification's own)"},
		{Name: "standardize", To: &cli.Auto{On: &e.Standardize, Auto: &e.StandardizeAuto},
			Brief: "regressions, matrix-completion: divide columns by their standard deviations",
			Usage: "regressions: penalize the coefficients of columns " +
				"divided by their standard deviations; results are in the columns' own units, and a sparse X stays " +
				"sparse (default: true with --response; a specification's own); matrix-completion: divide the " +
				"columns of the matrix by theirs, so that weights, criteria and sigma2 are those of the quotients, " +
				"and completed entries in the columns' units; auto does it where they differ by more than a factor " +
				"of 10 and sigma2 is not given (default of a table, whose columns may be in different units)"},
		{Name: "factors", To: &e.Table.Factors,
			Usage: "regressions: `NAME=NUMBER` of columns or patterns of names such as " +
				"snp*, separated by commas: factors of their penalties, 0 for none (in an archive the array factors)"},
		{Name: "lower", To: &e.Table.Lower,
			Usage: "regressions: lower bounds of coefficients, at most 0: `NAME=NUMBER` or " +
				"patterns, or a number for all (the array lower)"},
		{Name: "upper", To: &e.Table.Upper,
			Usage: "regressions: upper bounds of coefficients, at least 0, likewise, as " +
				"`NAME=NUMBER` (the array upper)"},
		{Name: "column-groups", To: &e.ColumnGroups, Usage: "group-lasso: a `file` of the groups of the columns " +
			"of X: a table with two columns, a name or pattern and a group, or an array of labels (default: " +
			"the columns of X that come from one column of a table, or the array groups)",
			Role: cli.Reads, Extensions: arrays},
		{Name: "effects", To: &e.EffectNames, Usage: "matrix-completion: unpenalized effects of the rows and " +
			"columns of the matrix, rows, cols or rows,cols, each with a constant, mean for the constant alone, " +
			"none, or auto: those of the least leave-one-out error (default: auto with the squared loss; a " +
			"specification's own)"},
	}
}

func (e *estimation) lossFlags() (rows []cli.Flag) {
	var names []string
	for _, k := range loss.Kinds() {
		text := k.Name
		if k.Help != "" {
			text += " (" + k.Help + ")"
		}
		names = append(names, text)
		if k.Parameter != nil {
			rows = append(rows, cli.Flag{Name: request.ParameterOption(k), To: e.LossParameters[k.Name],
				Usage: k.Parameter.Help})
		}
	}
	return append(rows, cli.Flag{Name: "loss", To: &e.Loss.Name,
		Brief: strings.Join(loss.Names(), ", "),
		Usage: "the loss: " + strings.Join(names,
			", ") + "; " +
			"with a loss other than the squared one mu_hat is the linear predictor A b, and leave-one-out takes the " +
			"place of SURE (default: the specification's, or squared)", Values: loss.Names()},
		cli.Flag{Name: "anisotropic", To: &e.Anisotropic,
			Brief: "tv2d: sums of absolute differences in place of lengths",
			Usage: "tv2d: the sum of the absolute values of all " +
				"differences, in place of the lengths of those of each pixel"},
		cli.Flag{Name: "vectorial", To: &e.Vectorial,
			Brief: "tv2d: one length for the differences of all channels of a pixel",
			Usage: "tv2d: the differences of all channels of a pixel in " +
				"one length, so that edges of different colours coincide; else each channel has a total variation of " +
				"its own"},
		cli.Flag{Name: "order", To: &e.Order, Usage: "trend1d: the degree of the pieces: 0 constant, 1 linear, 2 " +
			"quadratic; whittaker: how often differences are taken, 2 by default"})
}

func (e *estimation) weightFlags() []cli.Flag {
	return []cli.Flag{
		{Name: "lambda", To: &e.Weights.Lambda,
			Brief: "weight of the regularizer: a number, or 0.25max of its maximum",
			Usage: "weight of the regularizer: a number, inf, or a multiple of " +
				"the smallest value that gives b = 0, such as 0.25max (default: the file's)"},
		{Name: "lambda2", To: &e.Weights.Lambda2, Usage: "elastic net: weight of 1/2 ||b||^2, a number (default: the " +
			"file's); a specification may use all three weights in any way"},
		{Name: "gamma", To: &e.Weights.Gamma, Usage: "robust PCA: weight of ||S||_1, as --lambda (default: the " +
			"file's)"},
		{Name: "noise", To: &e.Correlation,
			Brief: "ar1: the noise of a sequence is autoregressive (help data)",
			Usage: "ar1: the noise of a sequence is autoregressive; its correlation and sigma2 are estimated beside " +
				"a trend, and SURE takes its covariance", Values: []string{"ar1"}},
		{Name: "sigma2", To: sigma2Value{e.Request},
			Brief: "variance of the noise, auto, or how to estimate it (help data)",
			Usage: "variance of the noise in each coordinate of y, or auto " +
				"to estimate it, or the method to estimate it by: " + strings.Join(problems.Sigma2Methods()[1:], ", ") +
				" (default: the file's; where it has none, sigma2 is unknown)", Values: problems.Sigma2Methods()},
	}
}

func (e *estimation) solverFlags() []cli.Flag {
	return []cli.Flag{
		{Name: "solver", To: &e.Solver.Name, Usage: "auto (the problem's own choice), " +
			strings.Join(vjp.Solvers(), ", "), Values: append([]string{"auto"}, vjp.Solvers()...)},
		{Name: "derivative", To: &e.Solver.Derivative, Usage: "implicit (differentiate the fixed point), unrolled " +
			"(differentiate the iterations in reverse), auto (implicit where the solver has converged)",
			Values: []string{"auto", "implicit", "unrolled"}},
	}
}

func (e *estimation) traceFlags() []cli.Flag {
	t := &e.Trace
	return []cli.Flag{
		{Name: "trace", To: &t.Estimator, Usage: "estimator of the divergence: auto (exact where there is a closed " +
			"form, else hutchinson), " + strings.Join(hutch.Estimators(), ", "),
			Values: append([]string{pipeline.Auto}, hutch.Estimators()...)},
		{Name: "queries", To: &t.Queries, Usage: "products with the Jacobian that the trace estimator may use, or " +
			"auto: as many as --trace-error requires, 24 or more up to 0.2 and 6 or more from 0.4 on",
			Values: []string{"auto"}},
		{Name: "trace-error", To: &t.Error, Usage: "with --queries auto: stop when the trace's contribution to " +
			"SURE's standard error is this share of SURE's own; where sigma2 is unknown, sigma2_df stands in for it"},
		{Name: "seed", To: &t.Seed, Usage: "seed of the trace estimator's probes"},
		{Name: "alo", To: &t.ALO, Usage: "make sure of alo, the error of predicting an observation that is left out, " +
			"without refits, also where the divergence takes no probes: by the exact diagonal of the derivative " +
			"where that is cheap or with --trace exact, else by 48 probes; in a sweep at every weight"},
		{Name: "tol", To: &e.Solver.Tol, Usage: "stop at this distance from optimality, relative to the noise; " +
			"where a duality gap is known, mu_hat is then within min(0.01, 100 sqrt(tol)) sigma sqrt(d) of the " +
			"exact estimate"},
		{Name: "max-iter", To: &e.Solver.MaxIter, Usage: "stop after this many iterations, converged or not"},
	}
}

func (e *estimation) machineFlags() []cli.Flag {
	m := &e.Machine
	return []cli.Flag{
		{Name: "parallel", To: &m.Parallel, Usage: "samples in flight at once"},
		{Name: "probe-batch", To: &m.ProbeBatch, Usage: "probes in one reverse sweep; 0 chooses. Results do not " +
			"depend on it"},
		{Name: "verify", To: &e.Verify, Usage: "check every result by other means: its derivative by solves at " +
			"perturbed y, its solution by products with A and, for small problems, by another " +
			"solver. A discrepancy of more than four error bars makes the exit status 3. Takes several times as long"},
		{Name: "memory", To: &m.Memory, Usage: "memory for the tapes of all samples in flight and, if given, the " +
			"limit of all memory on a card; a tape that does not fit is recomputed in parts. With --storage mapped " +
			"or float32 also for the columns of X that one of them holds"},
		{Name: "storage", To: &e.Storage, Usage: "where the matrix X of a regression is: memory, as float64; " +
			"mapped, on the disk, of which the columns that matter are held in memory (a .npy file, or a member of " +
			"a .npz file that is not compressed, of float64 or float32; a sparse matrix of scipy's save_npz with " +
			"compressed=False; a PLINK .bed file always is); float32, in half the memory, see surepipe help storage; " +
			"auto: mapped if X takes more than half of the machine's memory, and can be mapped", Values: load.Storages},
		{Name: "device", To: &m.Device, Usage: "auto, or " + strings.Join(array.Kinds(), ", ") + "; cuda:1 is the " +
			"second card, and cuda:0,cuda:1 spreads samples or points of a sweep over both",
			Values: append([]string{"auto"}, array.Kinds()...)},
	}
}

// logger writes to standard error when --verbose asks for it.
func (e *estimation) logger() *slog.Logger {
	if !e.verbose {
		return nil
	}
	return slog.New(slog.NewTextHandler(e.cmd.ErrOrStderr(), nil))
}
