package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
)

func newRun() *cobra.Command {
	var f estimatorFlags
	var out string
	var asJSON, explain bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Estimate the risk at one y",
		Long: `Solves one problem, differentiates the solution, and prints Stein's unbiased
estimate of the risk with its standard error, and what can be said without sigma2.

Results go to standard output, everything else to standard error.

` + exitHelp + "\n\n" + dataHelp,
		Example: `  surepipe run --problem lasso --data diabetes.npz --lambda 20
  surepipe run --problem ridge --data diabetes.npz --lambda 0.1 --json
  surepipe run --problem matrix-completion --data mc.npz --lambda 0.25max --out fit.npz
  surepipe run --problem lasso --data table.csv --column price --intercept --lambda 0.1max --sigma2 auto
  surepipe run --problem tv1d --data series.csv --lambda 12 --sigma2 auto --out smooth.csv
  surepipe run --spec denoise.yaml --data noisy.png --out clean.png
  surepipe run --problem robust-pca --data video.npz --sigma2 4 --lambda 60 --gamma 8 --trace hutchinson --queries 300`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runRun(cmd, &f, out, asJSON, explain)
		},
	}
	f.register(cmd, 1)
	cobra.CheckErr(cmd.Flags().MarkHidden("parallel"))
	cmd.Flags().StringVar(&out, "out", "", "write to this `file`: mu_hat, b and the intercept, if there is one (.npz), or mu_hat alone (.npy, .csv, .png); for a specification with a synthesis also the signal (.npz), or the signal alone")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&explain, "explain", false, "also print what was chosen based on the structure of the problem (method, derivative, linear systems), and why; --json always has this, as choices")
	cobra.CheckErr(cmd.MarkFlagFilename("out", "npz", "npy", "csv", "png"))
	return cmd
}

// dataHelp describes the data of a problem, and the files that hold it.
var dataHelp = `The data of a problem are these arrays:

` + layoutHelp() + `  any, optional                    mu (as y), and the scalars sigma2, lambda,
                                   lambda2, gamma, used where no flag is given

They come from --data, a file of any of these formats:

  .npz               numpy's arrays by name
  .npz, .mtx         a sparse matrix, of scipy's save_npz or Matrix Market: X of a
                     regression, or the observed entries of a matrix
  .csv, .tsv         a table: y and X of a regression, with --column NAME for y; y of
                     other problems
  .npy, dense .mtx   one array: y, or X where --y gives y
  .png               a grayscale image, pixels as numbers in [0, 1]: y. Where noise is
                     clipped at black or white it is not normal, and SURE is biased

--X, --y and --mu each name a file of their own, in any of these formats.

Regressions have no intercept, unless X has a constant column or --intercept adds one.
The intercept of --intercept is not penalized, and its degree of freedom is part of the divergence;
b refers to the columns of X as they are in the file, and the output has the intercept.

--sigma2 auto estimates the variance of the noise, by the method that applies:

  ols-residual           the residual variance of OLS on all columns (and the intercept,
                         with --intercept): regressions with d > p
  median-singular-value  Gavish and Donoho: a matrix y under a nuclear norm, where entries
                         of a sparse part count as noise
  mad                    the finest wavelet details: sequences and images

--sigma2 mad and so on force one; the output names the method. Where none applies, auto is
an error. An estimate with relative standard error e (sigma2_rel_stderr in the output)
contributes e sigma2 (2 divergence - d) to the error of SURE, and sure_stderr is then
sqrt(bar^2 + (e sigma2 (2 divergence - d))^2), where bar is the error bar for a known
sigma2, about sigma2 sqrt(2 d).

` + criteriaHelp

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

func runRun(cmd *cobra.Command, f *estimatorFlags, out string, asJSON, explain bool) error {
	ctx := cmd.Context()
	if err := f.check(cmd); err != nil {
		return err
	}
	if out != "" {
		if _, err := outFormat(out); err != nil {
			return err
		}
		if err := checkWritable(out); err != nil {
			return err
		}
	}
	dev, err := f.openDevice(cmd)
	if err != nil {
		return err
	}
	file, err := f.readData()
	if err != nil {
		dev.Close()
		return err
	}
	f.keepB, f.noMuHat = out != "", out == ""
	bar := newProgress(cmd)
	defer bar.close()
	job, err := f.open(cmd, dev, file.Data, bar)
	if err != nil {
		return err
	}
	defer job.close()
	if out != "" {
		if err := checkOut(out, job.problem); err != nil {
			return err
		}
	}
	f.warn(cmd, job.problem)
	f.warnIntercept(cmd, file.Data)
	risk, err := job.pipeline.Estimate(ctx, file.Y)
	bar.close()
	if err != nil {
		return err
	}
	// The result is printed even if the file cannot be written.
	var unwritten error
	if out != "" {
		unwritten = f.writeResult(cmd, out, job.problem, file.Y, risk)
	}
	r := f.result(job)
	r.fill(job.problem, risk, file.Mu)
	if asJSON {
		err = writeLine(cmd.OutOrStdout(), r)
	} else {
		err = r.writeTable(cmd.OutOrStdout())
		if err == nil && explain {
			err = r.writeChoices(cmd.OutOrStdout())
		}
	}
	if err != nil {
		return err
	}
	if unwritten != nil {
		return unwritten
	}
	if risk.Floored {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: %s\n", zeroBarText(f.estimate != nil))
	}
	return f.converged(cmd, risk)
}

// hints are the flags that may remedy a warning, by its code.
var hints = map[string]string{
	pipeline.NotConverged:           " (raise --max-iter or --tol, or change --solver)",
	pipeline.DerivativeNotConverged: " (raise --lambda, or give --derivative unrolled)",
	pipeline.Unverified:             " (lower --tol, or try another --solver or --derivative)",
	pipeline.Ambiguous:              " (--tol, --lambda)",
	pipeline.NearBoundary:           " (--tol, --lambda)",
	pipeline.ImplausibleDivergence:  " (lower --tol and raise --max-iter, or give --derivative implicit)",
}

// converged prints the result's warnings, and returns errNotConverged where it should not be
// trusted.
func (f *estimatorFlags) converged(cmd *cobra.Command, risk pipeline.Risk) error {
	for _, w := range risk.Warnings() {
		hint := hints[w.Code]
		if w.Code == pipeline.NoLeaveOneOut && errors.Is(risk.ALOErr, pipeline.ErrNoDiagonal) {
			hint = " (--trace exact)"
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
	method, stderr := "", (*float64)(nil)
	if f.estimate != nil {
		method, stderr = f.estimate.Method, &f.estimate.RelStdErr
	}
	return result{
		Warnings:     slices.Clone(f.notes),
		Sigma2Method: method, Sigma2RelStdErr: stderr,
		targetsResult: targetsOf(j.problem, j.sigma2),
		Problem:       j.problem.Name, D: j.problem.D, P: j.problem.P, Sigma2: j.sigma2,
		Lambda: weight(j.problem.Lambda), Lambda2: weight(j.problem.Lambda2), Gamma: weight(j.problem.Gamma),
		Solver: solverResult{Name: j.solver.Name()}, Device: j.dev.Name(), Version: version(),
	}
}

// outFormat is the format of --out by the name's extension.
func outFormat(path string) (string, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".npz", ".npy", ".csv", ".png":
		return ext, nil
	}
	return "", usagef("--out is %q, expected a name that ends in .npz, .npy, .csv or .png", path)
}

// checkOut rejects a format that cannot hold the result.
func checkOut(path string, p *problems.Problem) error {
	format, err := outFormat(path)
	if err != nil {
		return err
	}
	name, shape := "mu_hat", p.MuShape
	if p.Signal != nil {
		name, shape = "the signal", p.SignalShape
	}
	switch {
	case format == ".png" && len(shape) != 2:
		return usagef("--out is %q, but %s has shape %s: an image is a matrix", path, name, dataio.ShapeString(shape))
	case format == ".csv" && len(shape) > 2:
		return usagef("--out is %q, but %s has shape %s: a table has two axes", path, name, dataio.ShapeString(shape))
	}
	return nil
}

// writeEstimate writes mu_hat and b, and the intercept and the signal where they exist, to a .npz
// file.
func writeEstimate(path string, p *problems.Problem, risk pipeline.Risk) error {
	arrays := []dataio.Array{
		{Name: "mu_hat", Shape: p.MuShape, Data: risk.MuHat},
		{Name: "b", Shape: p.BShape, Data: risk.B},
	}
	if b0 := interceptOf(p, risk); b0 != nil {
		arrays = append(arrays, dataio.Array{Name: "intercept", Shape: []int{}, Data: []float64{*b0}})
	}
	if p.Signal != nil {
		signal, err := synthesize(p, risk.B)
		if err != nil {
			return err
		}
		arrays = append(arrays, signal)
	}
	return dataio.WriteNPZ(path, arrays...)
}

// writeResult writes the file of --out. A format of one array holds the signal, or else mu_hat. An
// image has 8 bits per pixel if y has, else 16.
func (f *estimatorFlags) writeResult(cmd *cobra.Command, path string, p *problems.Problem, y []float64, risk pipeline.Risk) error {
	format, err := outFormat(path)
	if err != nil {
		return err
	}
	if format == ".npz" {
		return writeEstimate(path, p, risk)
	}
	a := dataio.Array{Name: "mu_hat", Shape: p.MuShape, Data: risk.MuHat}
	if p.Signal == nil && !linops.StructureOf(p.Operator).Identity {
		f.note(cmd, noteMuHatAlone, "%s holds only mu_hat; for b as well, give --out a name that ends in .npz", path)
	}
	if p.Signal != nil {
		if a, err = synthesize(p, risk.B); err != nil {
			return err
		}
	}
	switch format {
	case ".npy":
		return dataio.WriteNPY(path, a)
	case ".csv":
		return dataio.WriteCSV(path, a)
	}
	bits := 16
	if eightBit(y) {
		bits = 8
	}
	clamped, err := dataio.WritePNG(path, a, bits)
	if err == nil && clamped > 0 {
		f.note(cmd, noteClamped, "%s: %d of %d pixels were outside [0, 1] and have been clamped", path, clamped, len(a.Data))
	}
	return err
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
	return dataio.Array{Name: "signal", Shape: p.SignalShape, Data: to.ToHost()}, dev.Sync()
}

// eightBit reports whether all values are 8-bit pixels.
func eightBit(y []float64) bool {
	for _, v := range y {
		if x := 255 * v; math.Abs(x-math.Round(x)) > 1e-9 || v < 0 || v > 1 {
			return false
		}
	}
	return true
}

// logger writes to standard error when --verbose asks for it.
func (f *estimatorFlags) logger(cmd *cobra.Command) *slog.Logger {
	if !f.verbose {
		return nil
	}
	return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
}
