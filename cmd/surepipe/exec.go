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
	"surepipe/internal/design"
	"surepipe/internal/noise"
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
	flags.StringVar(&e.line, "exec", "", "a `command` in place of --problem: it reads y as .npy on standard input and writes mu_hat as .npy; {lambda}, {lambda2}, {gamma} are replaced (see surepipe run --help)")
	flags.StringVar(&e.divergence, "divergence", string(pipeline.MonteCarlo), "with --exec: monte-carlo, differences of a continuous estimator, or coupled-bootstrap, for any estimator, at noise (1 + alpha) sigma2")
	flags.Float64Var(&e.eps, "eps", 0, "with --exec and monte-carlo: the step of the differences, in units of y; 0 stands for 0.01 sigma")
	flags.Float64Var(&e.alpha, "alpha", pipeline.DefaultAlpha, "with --exec and coupled-bootstrap: the share of noise that is added")
	flags.DurationVar(&e.timeout, "exec-timeout", 0, "with --exec: kill the command after this time, such as 30s; 0 for no limit")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("divergence", cobra.FixedCompletions(methodNames(), cobra.ShellCompDirectiveNoFileComp)))
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
var notForExec = []string{"problem", "spec", "response", "drop", "only", "categorical", "missing", "na", "index", "X", "D", "intercept", "standardize", "coefficients", "coefficients-csv", "solver", "derivative", "tol", "max-iter", "verify", "memory", "device", "probe-batch"}

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
	case f.data == "" && f.y == "" && !changed("y"):
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
	f.problem = execName
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

// readExec reads y, and mu and sigma2 where there are any. With samples y may be missing where there
// is mu, or be a stack of samples of mu's shape. A sample that is given is y.
func (f *estimatorFlags) readExec(samples bool, sample *dataio.Array) (data fileData, err error) {
	arrays := map[string]dataio.Array{}
	for _, source := range []struct{ flag, path, name string }{{"data", f.data, "y"}, {"y", f.y, "y"}, {"mu", f.mu, "mu"}} {
		if source.path == "" {
			continue
		}
		if _, twice := arrays[source.name]; twice && len(arrays) == 1 {
			return data, usagef("--data is %q and --%s %q: both hold %s, expected one of them",
				f.data, source.flag, source.path, source.name)
		}
		unread, err := readNamed(source.path, source.name, source.flag == "data", arrays)
		if err != nil {
			return data, usagef("--%s: %w", source.flag, err)
		}
		if source.flag == "data" {
			data.Ignored = unread
		}
	}
	y, ok := arrays["y"]
	mu, known := arrays["mu"]
	switch {
	case sample != nil:
		y, ok = *sample, true
	case samples && !known:
		return data, usagef("%s: array \"mu\" is missing, expected the mean to simulate samples around, or --y with a stack of samples (N x ...)", f.source())
	case samples && !ok:
		y, ok, data.Simulated = mu, true, true
	case samples && len(y.Shape) > 1 && slices.Equal(y.Shape[1:], mu.Shape):
		for one := range slices.Chunk(y.Data, len(mu.Data)) {
			data.Stack = append(data.Stack, one)
		}
		y.Data, y.Shape = data.Stack[0], mu.Shape
	}
	if !ok {
		return data, usagef("%s: array \"y\" is missing, expected the observations, of any shape", f.source())
	}
	data.Y, data.YShape = y.Data, y.Shape
	if known {
		if !slices.Equal(mu.Shape, y.Shape) {
			return data, usagef("%s: array \"mu\" has shape %s, expected %s, as y has", f.source(), dataio.ShapeString(mu.Shape), dataio.ShapeString(y.Shape))
		}
		data.Mu = mu.Data
	}
	if sigma2, ok := arrays["sigma2"]; ok {
		data.Sigma2 = &sigma2.Data[0]
	}
	return data, nil
}

// readNamed adds the array of a file: its only one, or that of the name, and with others also mu and
// sigma2 of a .npz archive; unread are its other arrays.
func readNamed(path, name string, others bool, to map[string]dataio.Array) (unread []string, err error) {
	set, err := dataio.Open(path)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	array := name
	if !set.Has(name) {
		if others && set.Format() == "npz" && !set.IsSparse() && len(set.Names()) > 1 {
			array = ""
		} else if array, err = set.Only(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if array != "" {
		a, err := set.Floats(array)
		if err == nil {
			err = design.CheckArray(a)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if set.Format() == "csv" && len(a.Shape) == 2 && min(a.Shape[0], a.Shape[1]) == 1 {
			a.Shape = []int{len(a.Data)}
		}
		a.Name = name
		to[name] = a
	}
	if !others || array != "" && array != name {
		return nil, nil
	}
	if set.Has("mu") {
		if to["mu"], err = set.Floats("mu"); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if set.Has("sigma2") {
		v, err := set.Scalar("sigma2")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		to["sigma2"] = dataio.Array{Name: "sigma2", Data: []float64{v}}
	}
	return set.Unread(), nil
}

// execNoise estimates sigma2 from an array of which only the shape is known.
func execNoise(method string, data problems.Data) (noise.Estimate, error) {
	image := len(data.YShape) == 2
	if method == problems.MethodAuto {
		switch {
		case len(data.YShape) > 2:
			return noise.Estimate{}, &noise.Refusal{Method: method, Reason: "y has shape " + dataio.ShapeString(data.YShape) + ", neither a signal nor an image"}
		case image:
			method = noise.MethodSmoothBlocks
		default:
			method = noise.MethodMAD
		}
	}
	refuse := func(reason string) (noise.Estimate, error) {
		return noise.Estimate{}, &noise.Refusal{Method: method, Reason: reason}
	}
	switch {
	case method == noise.MethodOLSResidual || method == problems.MethodGCVResidual:
		return refuse("it is for --problem and --spec; for a command use mad of a signal, smooth-blocks of an image")
	case method == noise.MethodMAD && !image:
		return noise.MADSignal(data.Y)
	case !image:
		return refuse("y has shape " + dataio.ShapeString(data.YShape) + " and is not a matrix")
	case method == noise.MethodMAD:
		return noise.MADImage(data.Y, data.YShape[0], data.YShape[1])
	case method == noise.MethodMedianSingularValue:
		return noise.MedianSingularValue(data.Y, data.YShape[0], data.YShape[1])
	case method == noise.MethodRobustLowRank:
		return noise.RobustLowRank(data.Y, data.YShape[0], data.YShape[1])
	}
	return noise.SmoothBlocks(data.Y, data.YShape[0], data.YShape[1])
}

// openExec makes the command a job.
func (f *estimatorFlags) openExec(cmd *cobra.Command, dev array.Device, data problems.Data, bar *progress) (_ *study.Estimator, err error) {
	j := &study.Estimator{Instance: study.Instance{On: dev}}
	defer func() {
		if err != nil {
			j.Close()
		}
	}()
	if j.Sigma2 = f.noise(data); (data.Sigma2 != nil || j.Sigma2 != 0) && !(j.Sigma2 > 0) || math.IsInf(j.Sigma2, 0) {
		return nil, usagef("%s: sigma2 is %g, expected a positive number", f.source(), j.Sigma2)
	}
	if j.Sigma2 == 0 && f.exec.divergence == string(pipeline.CoupledBootstrap) {
		return nil, usagef("--sigma2 is missing and %s holds no sigma2, which --divergence coupled-bootstrap needs: give the variance of the noise, or --sigma2 auto to estimate it", f.source())
	}
	p := &problems.Problem{
		Name: execName, D: len(data.Y), P: len(data.Y), MuShape: data.YShape, BShape: data.YShape, Operator: linops.Identity(len(data.Y)),
		Lambda: math.NaN(), Lambda2: math.NaN(), Gamma: math.NaN(),
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
			return nil, usagef("--%s is %q, expected a number: the weights of a command have no maximum", w.name, w.text)
		}
		*w.to = v
		command.Weights = append(command.Weights, w.name)
	}
	if f.exec.divergence == string(pipeline.CoupledBootstrap) {
		p.Targets.SURE = fmt.Sprintf("the squared error at noise of variance (1 + alpha) sigma2, for alpha = %g", f.exec.alpha)
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
	j.Weights, j.Command, j.Variance = command.Weights, f.exec.line, f.estimate
	j.BoxOptions = pipeline.Options{Sigma2: j.Sigma2, Estimator: f.trace, Queries: f.queries.n, Seed: f.seed, ALO: f.alo, Parallel: f.parallel, Progress: bar.follower(), Logger: f.logger(cmd)}
	if f.queries.auto {
		j.BoxOptions.Queries, j.BoxOptions.TraceError = 0, f.traceError
	}
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
		return "at %d of %d points differences at steps of different sizes disagree: the command is not smooth; try --divergence coupled-bootstrap, or another --eps"
	}
	return "%d of %d points did not converge; raise --max-iter, or --tol if less accuracy is enough, or try another --solver"
}
