package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"surepipe/internal/figure"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/risk"
	"surepipe/study"
	"surepipe/study/load"
	"surepipe/verify"
)

// sweepFlags are the flags of surepipe sweep.
type sweepFlags struct {
	estimatorFlags
	refine                int
	chain                 int // points in a chain of warm starts, 0 for the default
	csv, jsonl, plot, out string
	shard                 string
	asJSON, resume        bool
	picture               pictureFlags
	// criterion is what is minimized: "" stands for the default until the data are known.
	criterion risk.Criterion
	rule      pipeline.Rule // which point is chosen

	axes []study.Axis
}

// sweepHelp is the command's help.
const sweepHelp = `Estimates the risk on a logarithmic grid of one weight or two, FROM:TO:COUNT, from the
largest to the smallest with warm starts, and then searches for the minimum between the
neighbours of the grid's minimizer, by Brent's method on the logarithm of each weight.

The minimum is that of SURE, or where sigma2 is not known of gcv; --criterion chooses
another. sure is the squared error of mu_hat, and the best where sigma2 is known well. gcv
and alo are the error of predicting an observation that is left out, and need no sigma2:
alo is the safer where observations differ in leverage, and for matrix completion, where
the missing entries count. aic with a known sigma2 has the minimum of sure; without one, do
not trust it where df is a large part of d. bic looks for the smallest model that explains
y, at some cost in risk.

All points share y and the probes. Differences between points are therefore far more
certain than the values: most of a value's error is that of the noise's own norm, which
shifts the curve as a whole. Each point is compared with the minimizer: the difference's
error is 2 sigma ||h|| and 2 sigma2 ||J - J_min||_F together, for h the difference of the
two mu_hat and J their derivatives (Bellec and Zhang 2021), with those of the trace and of
an estimated sigma2. Points within one such error of the minimum are listed as alike, and
--rule 1se chooses the simplest of them, the one with the least divergence, for --out and
as "chosen". gcv and alo have such errors too, with the residual variance for sigma2; bic,
and aic without sigma2, have none.

The least of many estimates is too small on average. "optimism" is the estimate of that for
sure, and aic with sigma2 (Tibshirani and Rosset 2019): add it to SURE at the minimum. If
an end of the grid is a multiple of a maximum, the weights depend on y in another way too,
and SURE is only approximately unbiased.

Prints a table, or with --json one line a point, in order, with the keys of surepipe
run, "index" and "stage" (grid or refine); first a line of settings, with
"sweep": true; last a summary, with "summary": true:

  points, not_converged
  criterion       what was minimized
  minimizer       index, stage, weights, the criteria and their errors, divergence, loss,
                  converged; with --coefficients, coefficients
  edges           weights with the minimizer at the "lower" or "upper" end of their
                  grid, which should be extended
  rule, chosen    --rule, and the point that it chooses
  difference, difference_stderr
                  a list by index: the criterion minus the minimum, and its standard error
  alike           the indices of points that cannot be told from the minimizer
  optimism, optimism_stderr, optimism_leaves_out
                  how much too small the minimum is on average, because it was looked for
  least_loss      the least loss on the grid and its weights, where mu is known
  seconds
  warnings        what standard error says, of all points together

"digest" in a point's line is what differences are computed from: residual, images and
losses are random projections to 256 numbers (float32, little endian, base64, times unit).

--jsonl also writes these lines to a file, each as soon as it is known. A sweep that was
interrupted or killed continues with --resume: it reads the lines in the file, drops an
incomplete last one, and computes what is missing. The result is the same to the last bit,
times aside, as that of an uninterrupted sweep, for any --parallel and --probe-batch.
Other settings or data are an error.

Points that have not converged, or with which --verify disagrees, are marked and make the
exit status 3. Such a point is the minimizer only if all points are marked. A point whose
criterion is not known, such as gcv of a fit that interpolates y, or alo where leverages are too
near to 1 for the probes, is never the minimizer.

`

func newSweep() *cobra.Command {
	cmd, _ := newSweepCommand()
	return cmd
}

// newSweepCommand is the command with its flags.
func newSweepCommand() (*cobra.Command, *sweepFlags) {
	f := &sweepFlags{}
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Estimate the risk over a grid of hyperparameters, and find its minimum",
		Long:  sweepHelp + dataHelp(),
		Example: `  surepipe sweep --problem matrix-completion --data mc.npz --lambda 0.05max:2max:40 --plot sure.png
  surepipe sweep --problem lasso --data table.csv --response price --lambda 0.01max:max:40 --criterion alo
  surepipe sweep --problem lasso --data diabetes.npz --lambda 1:1000:30 --csv curve.csv --out best.npz
  surepipe sweep --problem robust-pca --data video.npz --lambda 0.02max:max:20 --gamma 0.01max:max:20 \
      --jsonl sweep.jsonl --resume --plot map.pdf
  surepipe sweep --exec './denoise --strength {lambda}' --data noisy.npy --sigma2 auto --lambda 0.1:10:12 --parallel 4`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSweep(cmd, f) },
	}
	f.register(cmd, 1)
	f.coefficients.register(cmd, " at the minimizer")
	flags := cmd.Flags()
	describeFlags(flags, map[string]string{
		"lambda": "weight of the regularizer: a grid such as 0.01max:2max:40 or 1:100:20, or one value as " +
			"surepipe run takes it (default: the file's)",
		"lambda2":  "elastic net: weight of 1/2 ||b||^2, a grid of numbers or a number (default: the file's)",
		"gamma":    "robust PCA: weight of ||S||_1, as --lambda (default: the file's)",
		"parallel": "points in flight at once",
		"memory": "memory for the tapes of all points in flight and, if given, the limit of all memory on a " +
			"card; a tape that does not fit is recomputed in parts",
		"verbose": "log every point on standard error",
	})
	flags.StringVar((*string)(&f.criterion), "criterion", "",
		"minimize this: "+risk.JoinCriteria(risk.CriterionNames())+" (default: sure where sigma2 is known, gcv "+
			"where it is not, alo where the loss is not squared)")
	flags.StringVar((*string)(&f.rule), "rule", string(pipeline.MinimumRule),
		"choose this point: min, the minimum, or 1se, the simplest fit within one standard error of it")
	flags.IntVar(&f.refine, "refine", pipeline.DefaultRefine, "at most this many points beyond the grid for each "+
		"weight; 0 for none")
	flags.IntVar(&f.chain, "chain", 0, "at most this many points of the grid in a chain of warm starts: chains "+
		"run at once with --parallel, and are divided among shards; 1 for none (default: 10, or all points where "+
		"the solver follows the path)")
	flags.Lookup("chain").DefValue = "0"
	flags.StringVar(&f.csv, "csv", "", "write the points to this .csv `file`")
	flags.StringVar(&f.jsonl, "jsonl", "", "write a line of JSON for each point to this `file`, as soon as it is "+
		"known; an existing file is an error without --resume")
	flags.BoolVar(&f.resume, "resume", false, "continue the sweep in the --jsonl file, if the file exists")
	flags.StringVar(&f.shard, "shard", "", "compute some chains of the grid, part `i/n`, auto or auto/n, to a "+
		"file of its own (see surepipe merge --help)")
	flags.StringVar(&f.plot, "plot", "", "draw the criterion, the loss and the divergence, or with two grids a "+
		"map of the criterion, to this `file`: ."+strings.Join(figure.Formats(), ", ."))
	flags.StringVar(&f.out, "out", "", "write the fit at the minimizer to this `file`, in the formats of "+
		"surepipe run --out")
	f.picture.register(cmd)
	flags.BoolVar(&f.asJSON, "json", false, "print lines of JSON")
	markFile(cmd, writes, "out", outExtensions()...)
	markFile(cmd, writes, "csv", "csv")
	markFile(cmd, writes, "jsonl", "jsonl")
	markFile(cmd, writes, "plot", figure.Formats()...)
	cmd.SetUsageFunc(ownFlagsFirst)
	return cmd, f
}

// checkSweep rejects flags that are wrong for any data, and parses the grids; after that the flags
// of weights hold single values.
func (f *sweepFlags) checkSweep(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	f.alo = f.alo || f.criterion.Rule().Diagonal
	for _, w := range []struct {
		name string
		text *string
	}{{"lambda", &f.lambda}, {"lambda2", &f.lambda2}, {"gamma", &f.gamma}} {
		if !strings.Contains(*w.text, ":") {
			continue
		}
		grid, err := problems.ParseGrid(*w.text)
		if err != nil {
			return usagef("--%s is %w", w.name, err)
		}
		f.axes = append(f.axes, study.Axis{Name: w.name, Grid: grid})
		// The value with which the problem is opened, which then gives the maximum.
		*w.text = "max"
		if !grid.Relative() {
			*w.text = "1"
		}
	}
	if cmd.Flags().Changed("criterion") {
		if _, err := risk.ParseCriterion(string(f.criterion)); err != nil {
			return usagef("--criterion is %w", err)
		}
	}
	switch {
	case len(f.axes) == 0:
		return usagef("no weight is a grid: expected one such as --lambda 0.01max:2max:40; for a single value " +
			"use surepipe run")
	case len(f.axes) > 2:
		return usagef("--lambda, --lambda2 and --gamma are grids, expected one or two")
	case len(f.axes) == 2 && f.axes[0].Grid.N > pipeline.MostPoints/f.axes[1].Grid.N:
		return usagef("--%s and --%s make a grid of %d x %d points, expected at most %d", f.axes[0].Name,
			f.axes[1].Name, f.axes[0].Grid.N, f.axes[1].Grid.N, pipeline.MostPoints)
	case f.refine < 0:
		return usagef("--refine is %d, expected 0 or more", f.refine)
	case f.chain < 0:
		return usagef("--chain is %d, expected at least 1, or 0 for the default", f.chain)
	case f.resume && f.jsonl == "":
		return usagef("--resume needs --jsonl, which is missing")
	}
	if err := f.checkShard(cmd); err != nil {
		return err
	}
	if err := f.picture.checkFlags(cmd.Flags(), f.shard); err != nil {
		return err
	}
	if f.plot != "" {
		if _, err := figure.Format(f.plot); err != nil {
			return usagef("--plot: %w", err)
		}
	}
	if f.out != "" {
		if _, err := outFormat(f.out); err != nil {
			return err
		}
	}
	return nil
}

// sweepRun is a sweep that is ready to begin.
type sweepRun struct {
	cmd     *cobra.Command
	f       *sweepFlags
	bar     *progress
	job     *study.Estimator
	file    load.Contents
	family  pipeline.Family
	options pipeline.SweepOptions
	grid    [][]float64
	header  study.SweepHeader
	// flags and files are those given, for the header of a shard.
	flags map[string][]string
	files map[string]string
}

// openSweep reads the data and makes the estimator.
func (f *sweepFlags) openSweep(cmd *cobra.Command) (_ *sweepRun, err error) {
	s := &sweepRun{cmd: cmd, f: f}
	s.flags, s.files = givenFlags(cmd)
	if err := f.checkSweep(cmd); err != nil {
		return nil, err
	}
	dev, err := f.openDevice(cmd)
	if err != nil {
		return nil, err
	}
	if s.file, err = f.readData(cmd); err != nil {
		f.closeDevices(dev)
		return nil, err
	}
	s.bar = newProgress(cmd)
	s.bar.label("", "points")
	if s.job, err = f.open(cmd, dev, s.file.Data, s.bar); err != nil {
		s.bar.close()
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := f.chooseCriterion(s.job.Sigma2); err != nil {
		return nil, err
	}
	if err := f.checkRule(s.job.Sigma2); err != nil {
		return nil, err
	}
	s.grid = make([][]float64, len(f.axes))
	for a := range f.axes {
		axis := &f.axes[a]
		if axis.Values, err = axis.Grid.Values(study.WeightsOf(s.job.Problem)[axis.Name]); err != nil {
			return nil, usagef("--%s: %w", axis.Name, err)
		}
		s.grid[a] = axis.Values
	}
	s.family, s.options = f.sweep(cmd, s.job, s.file.Data)
	s.options.Progress = s.bar.follower()
	if err := f.checkOutputs(s.job.Problem); err != nil {
		return nil, err
	}
	s.header = f.header(s.job, s.file.Data)
	return s, nil
}

func (s *sweepRun) close() {
	s.bar.close()
	s.job.Close()
}

// warn prints what is to be known before the sweep begins.
func (s *sweepRun) warn() {
	s.f.warn(s.cmd, s.job.Problem)
	s.f.warnData(s.cmd, s.file.Data)
}

// report is a report of the sweep's points to out.
func (s *sweepRun) report(out io.Writer) *sweepReport {
	r := &sweepReport{bar: s.bar, cmd: s.cmd, out: out, f: s.f, job: s.job, about: s.f.result(s.job),
		hash: s.header.Data, data: s.file.Data, total: 1, hasLoss: s.file.Mu != nil}
	for _, axis := range s.grid {
		r.total *= len(axis)
	}
	return r
}

// follow computes the points and reports them.
func (s *sweepRun) follow(r *sweepReport, begin time.Time) error {
	if err := r.begin(s.header); err != nil {
		return err
	}
	return r.follow(pipeline.Sweep(s.cmd.Context(), s.file.Y, s.family, s.grid, s.options), begin)
}

func runSweep(cmd *cobra.Command, f *sweepFlags) error {
	begin := time.Now()
	s, err := f.openSweep(cmd)
	if err != nil {
		return err
	}
	defer s.close()
	if f.shard != "" {
		return s.computeShard()
	}
	r := s.report(cmd.OutOrStdout())
	if f.jsonl != "" {
		if r.log, r.known, err = openSweepLog(f.jsonl, f.resume, s.header); err != nil {
			return err
		}
		defer r.log.Close()
		if s.options.Known, err = f.valuesOf(r.known); err != nil {
			return err
		}
	}
	s.warn()
	return s.follow(r, begin)
}

// follow writes the points as they come, and at last the summary.
func (r *sweepReport) follow(points iter.Seq2[pipeline.SweepPoint, error], begin time.Time) error {
	var best *pipeline.SweepPoint
	for point, err := range points {
		if err != nil {
			r.bar.close()
			if errors.Is(err, context.Canceled) && r.f.jsonl != "" {
				fmt.Fprintf(r.cmd.ErrOrStderr(), "surepipe: %d points are in %s; continue with --resume\n",
					len(r.lines), r.f.jsonl)
			}
			if errors.Is(err, pipeline.ErrNoDiagonal) {
				return usagef("--criterion alo: %w; raise --queries, give --trace exact, which takes d probes, "+
					"or choose another criterion", err)
			}
			return err
		}
		switch point.Stage {
		case pipeline.MinimizerStage:
			if best = &point; point.Choice.Chosen == point.Index {
				return r.finish(point, point, time.Since(begin))
			}
		case pipeline.ChosenStage:
			return r.finish(*best, point, time.Since(begin))
		default:
			if err := r.add(point); err != nil {
				return err
			}
		}
	}
	return errors.New("the sweep ended without a minimizer")
}

// checkOutputs rejects output that the problem does not have.
func (f *sweepFlags) checkOutputs(p *problems.Problem) error {
	if f.out != "" {
		if err := checkOut(f.out, p); err != nil {
			return err
		}
	}
	if err := f.picture.check(p); err != nil {
		return err
	}
	return f.coefficients.checkProblem(p)
}

// sweep returns the family and the options that the flags describe.
func (f *sweepFlags) sweep(cmd *cobra.Command, j *study.Estimator, data problems.Data) (family pipeline.Family,
	o pipeline.SweepOptions) {
	if j.BlackBox != nil {
		return j.Family(f.axes), f.sweepOptions(cmd, j, data)
	}
	family = f.family(&j.Instance)
	for i := range j.Others {
		family.Others = append(family.Others, f.family(&j.Others[i]))
	}
	return family, f.sweepOptions(cmd, j, data)
}

// family is the family of estimators on a device.
func (f *sweepFlags) family(on *study.Instance) pipeline.Family {
	return pipeline.Family{
		Problem: on.Problem.Solve(), Solver: on.Solver.Name(), Settings: on.Options,
		Regularizer: func(swept []float64) (prox.Prox, error) {
			w := study.WeightsOf(on.Problem)
			for a, axis := range f.axes {
				w[axis.Name] = swept[a]
			}
			return on.Problem.Reweighted(w["lambda"], w["lambda2"], w["gamma"])
		},
	}
}

// sweepOptions are those of the sweep and of its points.
func (f *sweepFlags) sweepOptions(cmd *cobra.Command, j *study.Estimator, data problems.Data) pipeline.SweepOptions {
	o := pipeline.SweepOptions{Lost: lost(cmd), Criterion: f.criterion, Rule: f.rule, Mu: data.Mu,
		Refine: f.refine, Chain: f.chain, Options: pipeline.Options{
			Sigma2: j.Sigma2, Parallel: f.parallel, Batch: f.probeBatch,
			KeepB: (f.out != "" || (f.plot != "" || f.picture.wanted()) && j.Problem.Signal != nil ||
				f.Intercept || f.coefficients.wanted()) && j.BlackBox == nil, Logger: f.logger(cmd),
		}}
	if f.Estimate != nil {
		o.Sigma2RelStdErr = f.Estimate.RelStdErr
	}
	if f.verify {
		o.Verify = &verify.Options{}
	}
	if f.refine == 0 {
		o.Refine = -1
	}
	f.traceFlags.options(&o.Options)
	return o
}
