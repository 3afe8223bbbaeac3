package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/study"
	"surepipe/study/load"
)

// runFlags are the flags of surepipe run.
type runFlags struct {
	estimatorFlags
	out, jsonl, shard string
	asJSON, explain   bool
	imageRisk         bool
	picture           pictureFlags
}

func newRun() *cobra.Command {
	cmd, _ := newRunCommand()
	return cmd
}

// newRunCommand is the command with its flags.
func newRunCommand() (*cobra.Command, *runFlags) {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Estimate the risk at one y",
		Long: `Solves one problem, differentiates the solution, and prints Stein's unbiased
estimate of the risk with its standard error, and what can be said without sigma2.

Results go to standard output, everything else to standard error.

` + exitHelp + "\n\n" + dataHelp(),
		Example: `  surepipe run --problem lasso --data diabetes.npz --lambda 20
  surepipe run --problem ridge --data diabetes.npz --lambda 0.1 --json
  surepipe run --problem matrix-completion --data mc.npz --lambda 0.25max --out fit.npz
  surepipe run --problem lasso --data table.csv --response price --lambda 0.1max --sigma2 auto
  surepipe run --problem lasso --data table.csv --response price --lambda 0.1max --coefficients --out fit.npz
  surepipe run --problem tv1d --data series.csv --lambda 12 --sigma2 auto --out smooth.csv
  surepipe run --spec denoise.yaml --data noisy.png --out clean.png
  surepipe run --problem robust-pca --data video.npz --sigma2 4 --lambda 60 --gamma 8 --trace hutchinson --queries 300` + execExample,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runRun(cmd, f)
		},
	}
	f.register(cmd, 1)
	f.coefficients.register(cmd, "")
	cmd.Flags().Lookup("parallel").Usage = "with --exec: calls of the command at once"
	cmd.Flags().StringVar(&f.out, "out", "",
		"write to this `file`: the fit, with all that surepipe predict needs (.npz), or mu_hat alone (.npy, "+
			".csv, .png, .jpg, .tif); for a specification with a synthesis also the signal (.npz), or the signal alone")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&f.imageRisk, "image-risk", false, "also estimate the risk of the image itself, in what "+
		"the operator sees, by projected SURE: the signal of tomography, MRI, deblurring; it solves once more")
	cmd.Flags().BoolVar(&f.explain, "explain", false, "also print what was chosen based on the structure of the "+
		"problem (method, derivative, linear systems), and why; --json always has this, as choices")
	f.picture.register(cmd)
	markFile(cmd, writes, "out", outExtensions()...)
	cmd.Flags().StringVar(&f.shard, "shard", "",
		"compute some of the probes of --trace hutchinson or exact, part `i/n`, auto or auto/n, to a file of its "+
			"own (see surepipe merge --help)")
	cmd.Flags().StringVar(&f.jsonl, "jsonl", "",
		"with --shard: the `file` for the merged result, after which the shard's is named")
	markFile(cmd, writes, "jsonl", "jsonl")
	return cmd, f
}

// formatsHelp lists the formats that are read.
func formatsHelp() string {
	var b strings.Builder
	for _, f := range dataio.Formats() {
		names := strings.Join(f.Extensions, ", ")
		for line := range strings.Lines(f.Help) {
			fmt.Fprintf(&b, "  %-17s  %s\n", names, strings.TrimSuffix(line, "\n"))
			names = ""
		}
	}
	return b.String()
}

// dataHelp describes the data of a problem, and the files that hold it.
func dataHelp() string {
	return `The data of a problem are these arrays:

` + layoutHelp() + `  any, optional                    mu (as y), and the scalars sigma2, lambda,
                                   lambda2, gamma, used where no flag is given

They come from --data, a file of any of these formats:

` + formatsHelp() + `
--X, --y and --mu each name a file of their own, in any of these formats. FILE:NAME is one
array of a .npz, .mat or .h5 file.

` + tableHelp + effectsHelp + `Regressions of arrays have no intercept, unless X has a constant column or --intercept adds
one. The intercept of --intercept is not penalized, and its degree of freedom is part of the
divergence; the output has it. b refers to the columns of X as they are in the file.

--sigma2 auto estimates the variance of the noise, by the method that applies:

  ols-residual           the residual variance of OLS on all columns (and the intercept,
                         with --intercept): regressions with d > p
  smooth-blocks          the high frequencies of an image's smoothest blocks of 8 x 8: images.
                         Its error includes the texture that may be left in them
  median-singular-value  Gavish and Donoho, of the values that do not stand out: a matrix y
                         under a nuclear norm. For an image, whose rank is not low, auto
                         takes smooth-blocks if that is less
  robust-low-rank        the entries that a low rank and outliers leave: robust-pca. An error
                         where these cannot be told apart; small outliers count in part
  mad                    the finest wavelet details: sequences
  gcv-residual           RSS / (d - df) of the fit of least gcv along a path of lambda:
                         regressions with d <= p, and missing entries. It takes fits first, the
                         same for run, sweep and montecarlo, at the other weights given. It is
                         biased up by the squared bias of that fit over d - df

--sigma2 mad and so on force one; the output names the method. One whose assumption has no
meaning for the data is an error: mad and smooth-blocks take y for a signal, and the rows of
a regression may be in any order. A SURE of less than -3 error bars is marked
sigma2-too-large: SURE estimates a squared error, and falls as sigma2 rises.

An estimate with relative standard error e (sigma2_rel_stderr in the output)
contributes e sigma2 (2 divergence - d) to the error of SURE, and sure_stderr is then
sqrt(bar^2 + (e sigma2 (2 divergence - d))^2), where bar is the error bar for a known
sigma2, about sigma2 sqrt(2 d).

` + storageHelp + execHelp + "\n" + criteriaHelp() + "\n\n" + lossHelp
}

// layoutHelp lists the arrays of the named problems, grouping those with the same layout.
func layoutHelp() string {
	var layouts []problems.Layout
	names := map[problems.Layout][]string{}
	for _, n := range problems.Registered() {
		if names[n.Layout] == nil {
			layouts = append(layouts, n.Layout)
		}
		names[n.Layout] = append(names[n.Layout], n.Name)
	}
	var s strings.Builder
	for _, l := range layouts {
		who := strings.Join(names[l], ", ")
		for line := range strings.SplitSeq(l.Arrays, "\n") {
			fmt.Fprintf(&s, "  %-32s %s\n", who, line)
			who = ""
		}
	}
	return s.String()
}

// runJob is an estimate that is ready to begin.
type runJob struct {
	*study.Estimator
	cmd  *cobra.Command
	f    *runFlags
	bar  *progress
	file load.Contents
}

// openRun reads the data and makes the estimator.
func (f *runFlags) openRun(cmd *cobra.Command) (*runJob, error) {
	if err := f.check(cmd); err != nil {
		return nil, err
	}
	if f.out != "" {
		if _, err := outFormat(f.out); err != nil {
			return nil, err
		}
	}
	if err := f.checkShard(cmd); err != nil {
		return nil, err
	}
	if err := f.picture.checkFlags(cmd.Flags(), f.shard); err != nil {
		return nil, err
	}
	dev, err := f.openDevice(cmd)
	if err != nil {
		return nil, err
	}
	r := &runJob{cmd: cmd, f: f}
	if r.file, err = f.readData(cmd); err != nil {
		f.closeDevices(dev)
		return nil, err
	}
	f.keep.b = f.out != "" || f.coefficients.wanted() || f.picture.wanted()
	f.keep.noMuHat = !f.keep.b
	r.bar = newProgress(cmd)
	if r.Estimator, err = f.open(cmd, dev, r.file.Data, r.bar); err != nil {
		r.bar.close()
		return nil, err
	}
	if f.out != "" {
		err = checkOut(f.out, r.Problem)
	}
	if err == nil {
		err = f.coefficients.checkProblem(r.Problem)
	}
	if err == nil {
		err = r.checkImageRisk()
	}
	if err == nil {
		err = f.picture.check(r.Problem)
	}
	if err != nil {
		r.close()
		return nil, err
	}
	f.warn(cmd, r.Problem)
	f.warnData(cmd, r.file.Data)
	return r, nil
}

func (r *runJob) close() {
	r.bar.close()
	r.Estimator.Close()
}

func runRun(cmd *cobra.Command, f *runFlags) error {
	r, err := f.openRun(cmd)
	if err != nil {
		return err
	}
	defer r.close()
	if f.shard != "" {
		return r.computeShard()
	}
	risk, err := r.Estimate(cmd.Context(), r.file.Y)
	r.bar.close()
	if err != nil {
		return err
	}
	return r.report(risk, func(result study.Result) error { return f.print(cmd, result, f.asJSON, f.explain) })
}

// report writes the files that were asked for, prints the result, and says what is to be known of it.
func (r *runJob) report(risk pipeline.Risk, print func(study.Result) error) (err error) {
	f := r.f
	// The result is printed even if a file cannot be written.
	var c study.CoefficientsResult
	if f.coefficients.wanted() {
		if c, err = study.CoefficientsOf(r.cmd.Context(), r.Problem, r.file.Data, risk, r.Sigma2); err != nil {
			return err
		}
	}
	unwritten := f.writeFiles(r.cmd, f.out, r.Estimator, r.file.Data, risk, c)
	result := f.result(r.Estimator)
	result.Fill(r.Problem, risk, r.file.Mu)
	if err := r.projected(&result); err != nil {
		return err
	}
	result.StorageResult = study.StorageOf(r.Problem)
	loss, undrawn := f.picture.save(r.cmd, study.DataHash(r.file.Data), &f.estimatorFlags, r.Problem, r.file.Data,
		risk, result)
	result.SignalLoss, unwritten = loss, cmp.Or(unwritten, undrawn)
	if f.coefficients.print {
		result.CoefficientsResult = c
	}
	if err := print(result); err != nil {
		return err
	}
	if unwritten != nil {
		return unwritten
	}
	if risk.Floored {
		fmt.Fprintf(r.cmd.ErrOrStderr(), "surepipe: %s\n", study.ZeroBarText(f.Estimate != nil))
	}
	return f.converged(r.cmd, risk)
}

// writeFiles writes the estimate to the file out, if any, and the coefficients to theirs.
func (f *estimatorFlags) writeFiles(cmd *cobra.Command, out string, job *study.Estimator, data problems.Data,
	risk pipeline.Risk, c study.CoefficientsResult) error {
	var first error
	if out != "" {
		r := f.result(job)
		r.Fill(job.Problem, risk, nil)
		first = f.writeResult(cmd, out, job.Problem, data, risk, r)
	}
	if f.coefficients.csv != "" {
		if err := c.WriteCSV(f.coefficients.csv); first == nil {
			first = err
		}
	}
	return first
}

// print prints a result, as text or JSON.
func (f *estimatorFlags) print(cmd *cobra.Command, r study.Result, asJSON, explain bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		return study.WriteLine(out, r)
	}
	if err := writeResultTable(&r, out); err != nil {
		return err
	}
	if r.Coefficients != nil {
		if err := writeCoefficients(&r.CoefficientsResult, out); err != nil {
			return err
		}
	}
	if explain {
		return writeChoices(&r, out)
	}
	return nil
}

// hints are the flags that may remedy a warning, by its code.
var hints = map[string]string{
	pipeline.NotConverged:           " (raise --max-iter or --tol, or change --solver)",
	pipeline.DerivativeNotConverged: " (raise --lambda, or give --derivative unrolled)",
	pipeline.Unverified:             " (lower --tol, or try another --solver or --derivative)",
	pipeline.Ambiguous:              " (--tol, --lambda)",
	pipeline.NearBoundary:           " (--tol, --lambda)",
	pipeline.NotDetermined:          " (--huber-delta, --lambda)",
	pipeline.Sigma2TooLarge:         " (--sigma2)",
	pipeline.NotSmooth:              " (--divergence coupled-bootstrap, or another --eps)",
	pipeline.ImplausibleDivergence:  " (lower --tol and raise --max-iter, or give --derivative implicit)",
}

// converged prints the result's warnings, and returns errNotConverged where it should not be
// trusted.
func (f *estimatorFlags) converged(cmd *cobra.Command, risk pipeline.Risk) error {
	for _, w := range study.WarningsOf(risk, f.relStdErr()) {
		hint := hints[w.Code]
		if w.Code == pipeline.NoLeaveOneOut &&
			(errors.Is(risk.ALOErr, pipeline.ErrNoDiagonal) || risk.Unresolved > 0 && risk.ALOErr != nil &&
				risk.LossTerms == nil) {
			hint = " (--trace exact, or more --queries)"
		}
		if w.Code == pipeline.Sigma2TooLarge && f.depth.IsImage() && !f.depth.Float {
			hint = fmt.Sprintf(" (--sigma2: pixels are numbers from 0 to 1, where 1 is the integer %d of the file)",
				uint64(1)<<f.depth.Bits-1)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: %s%s\n", w.Text, hint)
	}
	if !risk.Trusted() {
		return errNotConverged
	}
	return nil
}

// warn prints what the user should know about the estimator that the flags describe.
func (f *estimatorFlags) warn(cmd *cobra.Command, p *problems.Problem) {
	if n := len(p.NearlyConstant); n > 0 {
		f.note(cmd, study.NoteConstant, "column %d of X, counted from 0, is constant up to rounding errors and "+
			"counts as part of the intercept (%d such columns)", p.NearlyConstant[0], n)
	}
	f.noteImage(cmd, f.depth)
	if c := p.Center; c != nil {
		f.note(cmd, study.NoteCenter, "the axis of rotation was found at detector %.6g ± %.2g, counted from 0, "+
			"by %s: SURE takes it as given", c.Value, c.StdErr, c.By)
	}
	if p.Thresholds > 0 {
		f.note(cmd, study.NoteThresholds, "%d thresholds were chosen by SURE at this y: SURE takes them as "+
			"given, and is too small by nearly 2 sigma2 for each", p.Thresholds)
	}
	if p.Relative {
		f.note(cmd, study.NoteRelativeWeight, "a weight is a multiple of its maximum at this y, so that it "+
			"depends on y: SURE, where sigma2 is known, is only approximately unbiased, and the other criteria "+
			"take the weight as fixed")
	}
}

// result is the part of the result that follows from the flags and the problem, the same for every
// sample.
func (f *estimatorFlags) result(j *study.Estimator) study.Result {
	r := j.Result()
	r.Warnings = slices.Clone(f.notes)
	return r
}

// checkOut rejects a format that cannot hold the result.
func checkOut(path string, p *problems.Problem) error {
	format, err := outFormat(path)
	if err != nil {
		return err
	}
	name, shape, isComplex := "mu_hat", p.MuShape, p.MuComplex
	if p.Signal != nil {
		name, shape, isComplex = "the signal", p.SignalShape, p.SignalComplex
	}
	return checkShape(format, path, name, study.ShapeOut(p, shape), p.Frames != nil, isComplex)
}

// writeResult writes the file of --out. A format of one array holds the signal, or else mu_hat.
// Images, and integers of a numpy file that were taken for one, have the depth of y.
func (f *estimatorFlags) writeResult(cmd *cobra.Command, path string, p *problems.Problem, data problems.Data,
	risk pipeline.Risk, r study.Result) error {
	format, err := outFormat(path)
	if err != nil {
		return err
	}
	if format.WriteArrays != nil {
		return study.SaveFit(path, p, data, risk, r, commandLine(cmd))
	}
	a := dataio.Array{Name: "mu_hat", Shape: p.MuShape, Data: risk.MuHat, Complex: p.MuComplex}
	if p.Signal == nil && p.Original == nil && !linops.StructureOf(p.Operator).Identity {
		f.note(cmd, study.NoteMuHatAlone,
			"%s holds only mu_hat; for b as well, give --out a name that ends in .npz", path)
	}
	if p.Signal != nil {
		if a, err = study.Synthesize(p, risk.DenseB()); err != nil {
			return err
		}
	}
	if p.Original != nil && p.Signal == nil {
		a.Data = slices.Clone(a.Data)
		p.Original(a.Data)
	}
	a = study.Labelled(study.Presented(p, a), data.Labels)
	clamped, err := format.WriteArray(path, a, f.depth, eightBit(data.Y))
	if err == nil && clamped > 0 {
		f.note(cmd, study.NoteClamped, "%s", clampedText(path, clamped, len(a.Data)))
	}
	return err
}
