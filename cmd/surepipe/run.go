package main

import (
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
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Estimate the risk at one y",
		Long: `Solves one problem, differentiates the solution, and prints Stein's unbiased
estimate of the risk with its standard error.

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
			return runRun(cmd, &f, out, asJSON)
		},
	}
	f.register(cmd, 1)
	cobra.CheckErr(cmd.Flags().MarkHidden("parallel"))
	cmd.Flags().StringVar(&out, "out", "", "write to this `file`: mu_hat, b and the intercept, if there is one (.npz), or mu_hat alone, without b (.npy, .csv, .png); in its place the signal of a specification that has a synthesis")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cobra.CheckErr(cmd.MarkFlagFilename("out", "npz", "npy", "csv", "png"))
	return cmd
}

const dataHelp = `The data are the arrays that a problem is made of:

  ols, ridge, lasso, elastic-net   X (d x p), y (d)
  svt, robust-pca                  y (m x n)
  matrix-completion                y (d), indices (d, places in the row-major
                                   m x n matrix), shape (m, n)
  tv1d                             y (n), or y (m x n), m sequences
  any, optional                    mu (as y), and the scalars sigma2, lambda,
                                   lambda2, gamma, used where no flag is given

They come from --data, a file of any of these formats:

  .npz               numpy's arrays by name
  .npz, .mtx         a sparse matrix, of scipy's save_npz or Matrix Market: X of a
                     regression, or the observed entries of a matrix-completion
  .csv, .tsv         a table: y and X of a regression, with --column NAME for y; y of
                     svt, robust-pca and tv1d
  .npy, dense .mtx   one array: y, or X where --y gives y
  .png               a grayscale image, pixels as numbers in [0, 1]: y. Noise that was cut
                     off at black or white is not normal, and SURE is off there

and --X, --y, --mu each from a file of its own.

Regressions have no intercept but what X holds, unless --intercept asks for one. It bears
no penalty, and its degree of freedom is part of the divergence; b is that of X as it is,
and the output names the intercept.

--sigma2 auto estimates the variance of the noise, and the output names how:
ols-residual, the residual variance of OLS on all columns, for regressions with d > p
(and with an intercept where --intercept asks for one);
median-singular-value (Gavish and Donoho), for svt and robust-pca, where entries of the
sparse part count as noise; mad, from the finest wavelet details, for tv1d and images.
Where none applies it is refused. --sigma2 mad and so on force one. An estimate with a
relative error e shifts SURE by e sigma2 (2 divergence - d), and the error bar of SURE
(sure_stderr) is then sqrt(bar^2 + (e sigma2 (2 divergence - d))^2), where bar is that of
a known sigma2, about sigma2 sqrt(2 d), and e is the output's sigma2_rel_stderr.`

func runRun(cmd *cobra.Command, f *estimatorFlags, out string, asJSON bool) error {
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
	f.keepB = out != ""
	bar := newProgress(cmd.ErrOrStderr())
	job, err := f.open(cmd, dev, file.Data, func(p pipeline.Progress) { bar.set(p.Done, p.Total) })
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
	bar.done()
	if err != nil {
		return err
	}
	// What has been computed is printed, whatever becomes of the file.
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

// hints names the flags that may help against a warning, by its code.
var hints = map[string]string{
	pipeline.NotConverged:           " (raise --max-iter or --tol, or change --solver)",
	pipeline.DerivativeNotConverged: " (raise --lambda, or give --derivative unrolled)",
	pipeline.Unverified:             " (lower --tol, or try another --solver or --derivative)",
	pipeline.Ambiguous:              " (--tol, --lambda)",
	pipeline.ImplausibleDivergence:  " (lower --tol and raise --max-iter, or give --derivative implicit)",
}

// converged prints the warnings that a result carries, and returns errNotConverged where
// it is not to be trusted.
func (f *estimatorFlags) converged(cmd *cobra.Command, risk pipeline.Risk) error {
	for _, w := range risk.Warnings() {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: %s%s\n", w.Text, hints[w.Code])
	}
	if !risk.Trusted() {
		return errNotConverged
	}
	return nil
}

// warn says what the user should know about the estimator that the flags ask for.
func (f *estimatorFlags) warn(cmd *cobra.Command, p *problems.Problem) {
	if n := len(p.NearlyConstant); n > 0 {
		f.note(cmd, noteConstant, "column %d of X, counted from 0, is constant but for the last digits of its entries and counts as part of the intercept (%d such columns)", p.NearlyConstant[0], n)
	}
	if p.Relative {
		f.note(cmd, noteRelativeWeight, "a weight is a multiple of its maximum at this y, so the estimator looks at y: SURE is only approximately unbiased")
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

// result is what the flags and the problem say about every sample.
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
		Problem: j.problem.Name, D: j.problem.D, P: j.problem.P, Sigma2: j.sigma2,
		Lambda: weight(j.problem.Lambda), Lambda2: weight(j.problem.Lambda2), Gamma: weight(j.problem.Gamma),
		Solver: solverResult{Name: j.solver.Name()}, Device: j.dev.Name(), Version: version(),
	}
}

// outFormat tells by its extension what the file of --out is to hold; a name without
// one is numpy's.
func outFormat(path string) (string, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case "":
		return ".npz", nil
	case ".npz", ".npy", ".csv", ".png":
		return ext, nil
	}
	return "", usagef("--out is %q, expected a name that ends in .npz, .npy, .csv or .png", path)
}

// checkOut refuses a format that cannot hold the result.
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

// writeEstimate writes mu_hat and b, and where there are ones the intercept and the
// signal, to an .npz file.
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

// writeResult writes the file that --out asks for. A format of one array holds the
// signal, or else mu_hat. An image has 8 bits where y is one of 8, else 16.
func (f *estimatorFlags) writeResult(cmd *cobra.Command, path string, p *problems.Problem, y []float64, risk pipeline.Risk) error {
	format, err := outFormat(path)
	if err != nil {
		return err
	}
	if format == ".npz" {
		return writeEstimate(path, p, risk)
	}
	a := dataio.Array{Name: "mu_hat", Shape: p.MuShape, Data: risk.MuHat}
	if p.Signal == nil && p.Operator != linops.Identity(p.D) {
		f.note(cmd, noteMuHatAlone, "%s holds mu_hat alone; for b give --out a name that ends in .npz", path)
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
		f.note(cmd, noteClamped, "%s: %d of %d pixels were outside [0, 1] and are clamped", path, clamped, len(a.Data))
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

// eightBit tells whether all values are pixels of 8 bits.
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
