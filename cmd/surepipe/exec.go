package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/study"
)

// execName is the name of a problem that is a command.
const execName = "exec"

// execHelp describes --exec.
const execHelp = `--exec 'PROGRAM ARGUMENT...' takes the place of --problem: any program is the estimator, also one
that is not ours. It reads y as a numpy .npy array of float64, in its shape, from standard
input, and writes mu_hat, of the same shape, to standard output in the same format. {lambda},
{lambda2} and {gamma} in its arguments are replaced by the weights. It runs once for each value,
--parallel at a time, and must give the same answer each time. y comes from --data or --y, an
array of any shape; words are split at blanks, with quotes as in a shell, but there is no
shell: for pipes and variables, name one, sh -c '...'.

Its risk is estimated by --divergence:

  monte-carlo        the divergence by differences along random signs w (Ramani, Blu, Unser
                     2008), w . (f(y + eps w) - f(y))/eps: for an f that is continuous. All
                     that follows from the derivative is in the output: sure, gcv, ... The
                     first differences are repeated with ten times the step: where they
                     disagree the result is marked not-smooth, and the exit status is 3.
                     --eps is the step, by default 0.01 sigma
  coupled-bootstrap  needs no derivative: hard thresholding, selection, rounding are fine
                     (Oliveira, Lei, Tibshirani 2021). sure is then the risk at noise
                     (1 + alpha) sigma2, with --alpha 0.1 by default, unbiased; 2 sigma2
                     divergence_stderr is its error over the draws, and sure_stderr that of
                     infinitely many. jacobian_fro2 is tr(D g)^2, where g is the mean of the
                     command's answers over the draws

--queries is the number of values, by default as many as --trace-error requires. For example,
hard thresholding as hard.py, and another program's denoising as tv.py:

  import io, sys, numpy as np
  y = np.load(io.BytesIO(sys.stdin.buffer.read()))
  np.save(sys.stdout.buffer, y * (abs(y) > float(sys.argv[1])))

  import io, sys, numpy as np
  from skimage.restoration import denoise_tv_chambolle
  y = np.load(io.BytesIO(sys.stdin.buffer.read()))
  np.save(sys.stdout.buffer, denoise_tv_chambolle(y, weight=float(sys.argv[1])))
`

// execMonteCarloHelp is the help of --exec at many samples.
const execMonteCarloHelp = `--exec 'PROGRAM ARGUMENT...' takes the place of --problem (see surepipe run --help). Samples
are simulated around the array mu of --data, or of --mu, of any shape; or they are those of
--y, or of an array y with one more leading axis than mu. Each has probes, or draws, of its
own. They are done one after the other, each with up to --parallel calls at once.
`

// execExample are two programs that are not ours.
const execExample = `
  surepipe run --exec 'python3 hard.py {lambda}' --data signal.npy --sigma2 1 --lambda 2 --divergence coupled-bootstrap
  surepipe run --exec 'python3 tv.py {lambda}' --data noisy.png --sigma2 auto --lambda 0.1 --out clean.png`

// execFlags are the flags of an estimator that is a command.
type execFlags struct {
	line       string
	divergence string
	eps, alpha float64
	timeout    time.Duration

	args []string // of line
}

func (e *execFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&e.line, "exec", "", "a `command` in place of --problem: it reads y as .npy on standard "+
		"input and writes mu_hat as .npy; {lambda}, {lambda2}, {gamma} are replaced (see surepipe run --help)")
	flags.StringVar(&e.divergence, "divergence", string(pipeline.MonteCarlo),
		"with --exec: monte-carlo, differences of a continuous estimator, or coupled-bootstrap, for any "+
			"estimator, at noise (1 + alpha) sigma2")
	flags.Float64Var(&e.eps, "eps", 0, "with --exec and monte-carlo: the step of the differences, in units of y; "+
		"0 stands for 0.01 sigma")
	flags.Float64Var(&e.alpha, "alpha", pipeline.DefaultAlpha, "with --exec and coupled-bootstrap: the share of "+
		"noise that is added")
	flags.DurationVar(&e.timeout, "exec-timeout", 0, "with --exec: kill the command after this time, such as "+
		"30s; 0 for no limit")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("divergence",
		cobra.FixedCompletions(methodNames(), cobra.ShellCompDirectiveNoFileComp)))
}

func methodNames() []string {
	var names []string
	for _, m := range pipeline.BlackBoxMethods() {
		names = append(names, string(m))
	}
	return names
}

// given reports whether the estimator is a command.
func (e *execFlags) given() bool { return e.line != "" }

// notForExec are flags about how a convex program is posed, solved and differentiated.
var notForExec = []string{"problem", "spec", "response", "drop", "only", "categorical", "missing", "na", "index",
	"X", "D", "intercept", "standardize", "coefficients", "coefficients-csv", "solver", "derivative", "tol",
	"max-iter", "verify", "memory", "device", "probe-batch"}

// checkExec rejects flags that are wrong for any data.
func (f *estimatorFlags) checkExec(changed func(flag string) bool) (err error) {
	e := &f.exec
	for _, name := range notForExec {
		if changed(name) {
			return usagef("--%s is for --problem and --spec, found --exec %q", name, e.line)
		}
	}
	bootstrap := e.divergence == string(pipeline.CoupledBootstrap)
	switch {
	case f.Data == "" && f.Y == "" && !changed("y"):
		return usagef("--data is missing, expected a file with y (.npy, .npz, .png or .csv), or --y")
	case !slices.Contains(methodNames(), e.divergence):
		return usagef("--divergence is %q, expected one of %s", e.divergence, strings.Join(methodNames(), ", "))
	case changed("eps") && (!(e.eps > 0) || math.IsInf(e.eps, 0)):
		return usagef("--eps is %g, expected a positive number", e.eps)
	case !(e.alpha > 0) || math.IsInf(e.alpha, 0):
		return usagef("--alpha is %g, expected a positive number", e.alpha)
	case e.timeout < 0:
		return usagef("--exec-timeout is %v, expected a positive time, or 0 for no limit", e.timeout)
	case changed("alpha") && !bootstrap:
		return usagef("--alpha is for --divergence coupled-bootstrap, found %s", e.divergence)
	case bootstrap && (changed("eps") || changed("trace") || changed("alo")):
		return usagef("--eps, --trace and --alo are for --divergence monte-carlo, found %s", e.divergence)
	case bootstrap && !f.queries.auto && f.queries.n < 4:
		return usagef("--queries is %d, expected 4 or more for --divergence coupled-bootstrap, or auto", f.queries.n)
	}
	if e.args, err = pipeline.SplitCommand(e.line); err != nil {
		return usagef("--exec: %w", err)
	}
	f.Problem, f.Command = execName, true
	return nil
}

// checkNotExec rejects the flags of commands without one.
func checkNotExec(changed func(flag string) bool) error {
	for _, name := range []string{"divergence", "eps", "alpha", "exec-timeout"} {
		if changed(name) {
			return usagef("--%s is for --exec, which is missing", name)
		}
	}
	return nil
}

// openExec makes the command a job.
func (f *estimatorFlags) openExec(cmd *cobra.Command, dev array.Device, data problems.Data,
	bar *progress) (_ *study.Estimator, err error) {
	j := &study.Estimator{Instance: study.Instance{On: dev}}
	defer func() {
		if err != nil {
			j.Close()
		}
	}()
	if j.Sigma2 = f.noise(data); (data.Sigma2 != nil || j.Sigma2 != 0) && !(j.Sigma2 > 0) || math.IsInf(j.Sigma2, 0) {
		return nil, usagef("%s: sigma2 is %g, expected a positive number", f.Name(), j.Sigma2)
	}
	if j.Sigma2 == 0 && f.exec.divergence == string(pipeline.CoupledBootstrap) {
		return nil, usagef("--sigma2 is missing and %s holds no sigma2, which --divergence coupled-bootstrap "+
			"needs: give the variance of the noise, or --sigma2 auto to estimate it", f.Name())
	}
	p := &problems.Problem{
		Name: execName, D: len(data.Y), P: len(data.Y), Operator: linops.Identity(len(data.Y)),
		View:   problems.View{MuShape: data.YShape, BShape: data.YShape},
		Values: problems.Values{Lambda: math.NaN(), Lambda2: math.NaN(), Gamma: math.NaN()},
	}
	command := pipeline.Command{Args: f.exec.args, Shape: data.YShape, Timeout: f.exec.timeout}
	for _, w := range []struct {
		name, text string
		to         *float64
	}{{"lambda", f.lambda, &p.Lambda}, {"lambda2", f.lambda2, &p.Lambda2}, {"gamma", f.gamma, &p.Gamma}} {
		if w.text == "" {
			if strings.Contains(f.exec.line, "{"+w.name+"}") {
				return nil, usagef("--%s is missing, and --exec has {%s}", w.name, w.name)
			}
			continue
		}
		v, ok := dataio.ParseNumber(w.text)
		if !ok || v < 0 {
			return nil, usagef("--%s is %q, expected a number: the weights of a command have no maximum", w.name,
				w.text)
		}
		*w.to = v
		command.Weights = append(command.Weights, w.name)
	}
	if f.exec.divergence == string(pipeline.CoupledBootstrap) {
		p.Targets.SURE = fmt.Sprintf("the squared error at noise of variance (1 + alpha) sigma2, for alpha = %g",
			f.exec.alpha)
	}
	j.Problem = p
	if err := f.checkScale(data, j.Sigma2, p.D); err != nil {
		return nil, err
	}
	if j.BlackBox, err = command.BlackBox(); err != nil {
		return nil, usagef("--exec: %w", err)
	}
	j.BlackBox.Divergence, j.BlackBox.Eps = pipeline.BlackBoxMethod(f.exec.divergence), f.exec.eps
	if j.BlackBox.Divergence == pipeline.CoupledBootstrap {
		j.BlackBox.Alpha = f.exec.alpha
	} else {
		j.BlackBox.Eps = j.BlackBox.Step(data.Y, j.Sigma2)
	}
	j.Weights, j.Command, j.Variance = command.Weights, f.exec.line, f.Estimate
	j.BoxOptions = pipeline.Options{Sigma2: j.Sigma2, Parallel: f.parallel, Progress: bar.follower(),
		Logger: f.logger(cmd)}
	f.traceFlags.options(&j.BoxOptions)
	return j, nil
}

// unsettled marks a result that should not be trusted.
func unsettledMark(r *study.Result) string {
	if r.Exec != "" {
		return " NOT SMOOTH"
	}
	return " NOT CONVERGED"
}

// notConvergedText is the message for points that should not be trusted.
func (f *sweepFlags) notConvergedText() string {
	if f.exec.given() {
		return "at %d of %d points differences at steps of different sizes disagree: the command is not smooth; " +
			"try --divergence coupled-bootstrap, or another --eps"
	}
	return "%d of %d points did not converge; raise --max-iter, or --tol if less accuracy is enough, or try " +
		"another --solver"
}
