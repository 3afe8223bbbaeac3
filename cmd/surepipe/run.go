package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
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
	cmd.Flags().StringVar(&f.out, "out", "", "write to this `file`: the fit, with all that surepipe predict needs (.npz), or mu_hat alone (.npy, .csv, .png, .jpg, .tif); for a specification with a synthesis also the signal (.npz), or the signal alone")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&f.imageRisk, "image-risk", false, "also estimate the risk of the image itself, in what the operator sees, by projected SURE: the signal of tomography, MRI, deblurring; it solves once more")
	cmd.Flags().BoolVar(&f.explain, "explain", false, "also print what was chosen based on the structure of the problem (method, derivative, linear systems), and why; --json always has this, as choices")
	f.picture.register(cmd)
	markFile(cmd, writes, "out", "npz", "npy", "csv", "png", "jpg", "tif")
	cmd.Flags().StringVar(&f.shard, "shard", "", "compute some of the probes of --trace hutchinson or exact, part `i/n`, auto or auto/n, to a file of its own (see surepipe merge --help)")
	cmd.Flags().StringVar(&f.jsonl, "jsonl", "", "with --shard: the `file` for the merged result, after which the shard's is named")
	markFile(cmd, writes, "jsonl", "jsonl")
	return cmd, f
}

// dataHelp describes the data of a problem, and the files that hold it.
func dataHelp() string {
	return `The data of a problem are these arrays:

` + layoutHelp() + `  any, optional                    mu (as y), and the scalars sigma2, lambda,
                                   lambda2, gamma, used where no flag is given

They come from --data, a file of any of these formats:

  .npz               numpy's arrays by name
  .npz, .mtx         a sparse matrix, of scipy's save_npz or Matrix Market: X of a
                     regression, or the observed entries of a matrix
  .csv, .tsv         a table: y and X of a regression, with --response NAME for y (see
                     Tables below); or a table of numbers: one array
  .npy, dense .mtx   one array: y, or X where --y gives y
  .png, .jpg, .tif   an image, grey or (rows, columns, 3), pixels as numbers in [0, 1],
                     floating point ones of a .tif as they are: y. Where noise is clipped
                     at black or white it is not normal, and SURE is biased
  .npy of uint8,     an image too, for a specification whose y has 2 or 3 axes: scaled to
  uint16             [0, 1]. So are frames for robust-pca; a matrix for svt or robust-pca
                     is taken as the numbers that it holds

  .mat, .h5          arrays by name, of MATLAB 5 to 7.3 and HDF5; n x 1 and 1 x n arrays of
                     MATLAB are vectors
  .nii, .nii.gz,     one array, of NIfTI and BART: the axes in the order of the file, the
  .cfl and .hdr      last varying fastest, (time, z, y, x)

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
	*job
	cmd  *cobra.Command
	f    *runFlags
	bar  *progress
	file fileData
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
	if r.file, err = f.readData(); err != nil {
		f.closeDevices(dev)
		return nil, err
	}
	f.keepB = f.out != "" || f.coefficients.wanted() || f.picture.wanted()
	f.noMuHat = !f.keepB
	r.bar = newProgress(cmd)
	if r.job, err = f.open(cmd, dev, r.file.Data, r.bar); err != nil {
		r.bar.close()
		return nil, err
	}
	if f.out != "" {
		err = checkOut(f.out, r.problem)
	}
	if err == nil {
		err = f.coefficients.checkProblem(r.problem)
	}
	if err == nil {
		err = r.checkImageRisk()
	}
	if err == nil {
		err = f.picture.check(r.problem)
	}
	if err != nil {
		r.close()
		return nil, err
	}
	f.warn(cmd, r.problem)
	f.warnData(cmd, r.file.Data)
	return r, nil
}

func (r *runJob) close() {
	r.bar.close()
	r.job.close()
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
	risk, err := r.estimate(cmd.Context(), r.file.Y)
	r.bar.close()
	if err != nil {
		return err
	}
	return r.report(risk, func(result result) error { return f.print(cmd, result, f.asJSON, f.explain) })
}

// report writes the files that were asked for, prints the result, and says what is to be known of it.
func (r *runJob) report(risk pipeline.Risk, print func(result) error) (err error) {
	f := r.f
	// The result is printed even if a file cannot be written.
	var c coefficientsResult
	if f.coefficients.wanted() {
		if c, err = coefficientsOf(r.cmd.Context(), r.problem, r.file.Data, risk, r.sigma2); err != nil {
			return err
		}
	}
	unwritten := f.writeFiles(r.cmd, f.out, r.job, r.file.Data, risk, c)
	result := f.result(r.job)
	result.fill(r.problem, risk, r.file.Mu)
	if err := r.projected(&result); err != nil {
		return err
	}
	result.storageResult = storageOf(r.problem)
	loss, undrawn := f.picture.save(r.cmd, dataHash(r.file.Data), &f.estimatorFlags, r.problem, r.file.Data, risk, result)
	result.SignalLoss, unwritten = loss, cmp.Or(unwritten, undrawn)
	if f.coefficients.print {
		result.coefficientsResult = c
	}
	if err := print(result); err != nil {
		return err
	}
	if unwritten != nil {
		return unwritten
	}
	if risk.Floored {
		fmt.Fprintf(r.cmd.ErrOrStderr(), "surepipe: %s\n", zeroBarText(f.estimate != nil))
	}
	return f.converged(r.cmd, risk)
}

// writeFiles writes the estimate to the file out, if any, and the coefficients to theirs.
func (f *estimatorFlags) writeFiles(cmd *cobra.Command, out string, job *job, data problems.Data, risk pipeline.Risk, c coefficientsResult) error {
	var first error
	if out != "" {
		r := f.result(job)
		r.fill(job.problem, risk, nil)
		first = f.writeResult(cmd, out, job.problem, data, risk, r)
	}
	if f.coefficients.csv != "" {
		if err := c.writeCSV(f.coefficients.csv); first == nil {
			first = err
		}
	}
	return first
}

// print prints a result, as text or JSON.
func (f *estimatorFlags) print(cmd *cobra.Command, r result, asJSON, explain bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		return writeLine(out, r)
	}
	if err := r.writeTable(out); err != nil {
		return err
	}
	if r.Coefficients != nil {
		if err := r.coefficientsResult.write(out); err != nil {
			return err
		}
	}
	if explain {
		return r.writeChoices(out)
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
	for _, w := range warningsOf(risk, f.relStdErr()) {
		hint := hints[w.Code]
		if w.Code == pipeline.NoLeaveOneOut && (errors.Is(risk.ALOErr, pipeline.ErrNoDiagonal) || risk.Unresolved > 0 && risk.ALOErr != nil && risk.LossTerms == nil) {
			hint = " (--trace exact, or more --queries)"
		}
		if w.Code == pipeline.Sigma2TooLarge && f.depth.IsImage() && !f.depth.Float {
			hint = fmt.Sprintf(" (--sigma2: pixels are numbers from 0 to 1, where 1 is the integer %d of the file)", uint64(1)<<f.depth.Bits-1)
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
		f.note(cmd, noteConstant, "column %d of X, counted from 0, is constant up to rounding errors and counts as part of the intercept (%d such columns)", p.NearlyConstant[0], n)
	}
	f.noteImage(cmd, f.depth)
	if c := p.Center; c != nil {
		f.note(cmd, noteCenter, "the axis of rotation was found at detector %.6g ± %.2g, counted from 0, by %s: SURE takes it as given", c.Value, c.StdErr, c.By)
	}
	if p.Thresholds > 0 {
		f.note(cmd, noteThresholds, "%d thresholds were chosen by SURE at this y: SURE takes them as given, and is too small by nearly 2 sigma2 for each", p.Thresholds)
	}
	if p.Relative {
		f.note(cmd, noteRelativeWeight, "a weight is a multiple of its maximum at this y, so that it depends on y: SURE, where sigma2 is known, is only approximately unbiased, and the other criteria take the weight as fixed")
	}
}

// hyper parses the weights.
func (f *estimatorFlags) hyper() (h problems.Hyper, err error) {
	for _, w := range []struct {
		flag, text string
		to         *problems.Weight
	}{{"--lambda", f.lambda, &h.Lambda}, {"--lambda2", f.lambda2, &h.Lambda2}, {"--gamma", f.gamma, &h.Gamma}} {
		if w.text == "" {
			continue
		}
		if *w.to, err = problems.ParseWeight(w.text); err != nil {
			return h, usagef("%s is %q, expected a positive number, inf, or a multiple such as 0.25max", w.flag, w.text)
		}
	}
	return h, nil
}

// result is the part of the result that follows from the flags and the problem, the same for every
// sample.
func (f *estimatorFlags) result(j *job) result {
	weight := func(v float64) *number {
		if math.IsNaN(v) {
			return nil
		}
		n := number(v)
		return &n
	}
	method := ""
	if f.estimate != nil {
		method = f.estimate.Method
	}
	return result{
		Warnings:     slices.Clone(f.notes),
		lossResult:   aboutLoss(j.problem),
		Sigma2Method: method, Sigma2RelStdErr: f.relStdErr(),
		targetsResult: targetsOf(j.problem, j.sigma2), execResult: j.execResult(f.exec.line),
		Problem: j.problem.Name, D: j.problem.D, P: j.problem.P, Sigma2: j.sigma2,
		Lambda: weight(j.problem.Lambda), Lambda2: weight(j.problem.Lambda2), Gamma: weight(j.problem.Gamma),
		Standardize:   j.problem.Scales() != nil,
		effectsResult: effectsOf(j.problem), centerResult: centerOf(j.problem),
		Solver: solverResult{Name: j.name()}, Device: j.device(), Version: version(),
	}
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
	switch {
	case format == ".tif" && !isComplex && newView(shapeOut(p, shape), false) != nil:
	case slices.Contains(imageOut, format) && (p.Frames != nil || !isImageShape(shape)):
		return usagef("--out is %q, but %s has shape %s: an image is a matrix, or (rows, columns, 3)", path, name, dataio.ShapeString(shapeOut(p, shape)))
	case format == ".csv" && len(shapeOut(p, shape)) > 2:
		return usagef("--out is %q, but %s has shape %s: a table has two axes", path, name, dataio.ShapeString(shapeOut(p, shape)))
	}
	return nil
}

// writeResult writes the file of --out. A format of one array holds the signal, or else mu_hat.
// Images, and integers of a numpy file that were taken for one, have the depth of y.
func (f *estimatorFlags) writeResult(cmd *cobra.Command, path string, p *problems.Problem, data problems.Data, risk pipeline.Risk, r result) error {
	format, err := outFormat(path)
	if err != nil {
		return err
	}
	if format == ".npz" {
		return writeFit(cmd, path, p, data, risk, r)
	}
	a := dataio.Array{Name: "mu_hat", Shape: p.MuShape, Data: risk.MuHat, Complex: p.MuComplex}
	if p.Signal == nil && p.Original == nil && !linops.StructureOf(p.Operator).Identity {
		f.note(cmd, noteMuHatAlone, "%s holds only mu_hat; for b as well, give --out a name that ends in .npz", path)
	}
	if p.Signal != nil {
		if a, err = synthesize(p, risk.DenseB()); err != nil {
			return err
		}
	}
	if p.Original != nil && p.Signal == nil {
		a.Data = slices.Clone(a.Data)
		p.Original(a.Data)
	}
	a = labelled(presented(p, a), data.Labels)
	clamped, err := writeArray(path, format, a, f.depth, data.Y)
	if err == nil && clamped > 0 {
		f.note(cmd, noteClamped, "%s", clampedText(path, clamped, len(a.Data)))
	}
	return err
}

// labelled is an array with the names of the rows and columns that it has in the file of y, where it has so
// many.
func labelled(a dataio.Array, l dataio.Labels) dataio.Array {
	cols := 1
	if len(a.Shape) == 2 {
		cols = a.Shape[1]
	}
	if len(l.Columns) == cols && len(a.Shape) > 0 && len(a.Shape) < 3 && (l.RowNames == nil || len(l.RowNames) == a.Shape[0]) {
		a.Labels = l
	}
	return a
}

// synthesize is the signal of b.
func synthesize(p *problems.Problem, b []float64) (dataio.Array, error) {
	dev := p.Solve().Device
	n, _ := p.Signal.Dims()
	from, to := dev.Alloc(1, len(b)), dev.Alloc(1, n)
	defer from.Free()
	defer to.Free()
	dev.Upload(from, b)
	p.Signal.Forward(to, from)
	signal := to.ToHost()
	if p.Original != nil {
		p.Original(signal)
	}
	return dataio.Array{Name: "signal", Shape: p.SignalShape, Data: signal, Complex: p.SignalComplex}, dev.Sync()
}

// logger writes to standard error when --verbose asks for it.
func (f *estimatorFlags) logger(cmd *cobra.Command) *slog.Logger {
	if !f.verbose {
		return nil
	}
	return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
}
