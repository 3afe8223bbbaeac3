package request

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/problems/spec"
	"surepipe/stages"
	"surepipe/study"
)

// ProgramName is the name of a problem that is a program.
const ProgramName = "exec"

// Program is an estimator that is a program of any origin: see [pipeline.Command].
type Program struct {
	// Line is its command line, "" where there is none. Func is a function in its place, of the values of the
	// weights that are given, by their names.
	Line string
	Func func(ctx context.Context, weights map[string]float64, y []float64) ([]float64, error)
	// Divergence is a [pipeline.BlackBoxMethod]; Eps is the step of differences, and Alpha the share of noise that the
	// other methods add, 0 for the defaults.
	Divergence string
	Eps, Alpha float64
	// Timeout is the time that one run may take, 0 for no limit.
	Timeout time.Duration

	args []string // of Line
}

func defaultProgram() Program {
	return Program{Divergence: string(pipeline.MonteCarlo)}
}

// Divergences are the names of the methods.
func Divergences() []string {
	return lists.Map(pipeline.BlackBoxMethods(), func(m pipeline.BlackBoxMethod) string { return string(m) })
}

// Sampled are the names of the methods that add noise, or take counts away: those with an alpha.
func Sampled() (names []string) {
	for _, row := range pipeline.BlackBoxRows() {
		if row.Alpha > 0 {
			names = append(names, string(row.Name))
		}
	}
	return names
}

// Given reports whether the estimator is a program.
func (e *Program) Given() bool { return e.Line != "" || e.Func != nil }

// notForPrograms are options about how a convex program is posed, solved and differentiated.
var notForPrograms = []string{"problem", "spec", "response", "drop", "only", "categorical", "missing", "na", "index",
	"X", "D", "intercept", "standardize", "coefficients", "coefficients-csv", "solver", "derivative", "tol",
	"max-iter", "verify", "storage", "memory", "device", "probe-batch"}

// checkProgram rejects options that are wrong for any data.
func (r *Request) checkProgram() (err error) {
	e := &r.Program
	for _, name := range notForPrograms {
		if r.Given(name) {
			return study.Errorf("--%s is for --problem and --spec, found --exec %q", name, e.Line)
		}
	}
	row := pipeline.BlackBoxMethod(e.Divergence).Row()
	switch {
	case r.Data == "" && r.Y == "" && !r.Given("y"):
		return study.Errorf("--data is missing, expected a file with y (.npy, .npz, .png or .csv), or --y")
	case r.Given("alpha") && row.Alpha == 0:
		return study.Errorf("--alpha is for --divergence %s, found %s", strings.Join(Sampled(), ", "), e.Divergence)
	case row.Alpha > 0 && (r.Given("eps") || r.Given("trace") || r.Given("alo")):
		return study.Errorf("--eps, --trace and --alo are for --divergence monte-carlo, found %s", e.Divergence)
	case row.Alpha > 0 && !r.Trace.Queries.Auto && r.Trace.Queries.N < row.Least:
		return study.Errorf("--queries is %d, expected %d or more for --divergence %s, or auto", r.Trace.Queries.N,
			row.Least, row.Name)
	case row.Counts && r.Given("sigma2"):
		return study.Errorf("--sigma2 is not for --divergence %s: the variance of a count is its mean", row.Name)
	}
	if err := checkValues(chosen("divergence", e.Divergence, Divergences()...),
		value{"eps", e.Eps, !r.Given("eps") || positive(e.Eps), "a positive number"},
		value{"alpha", e.Alpha, !r.Given("alpha") || positive(e.Alpha), "a positive number"},
		value{"exec-timeout", e.Timeout, e.Timeout >= 0, "a positive time, or 0 for no limit"},
	); err != nil {
		return err
	}
	if e.Func == nil {
		if e.args, err = pipeline.SplitCommand(e.Line); err != nil {
			return study.Errorf("--exec: %w", err)
		}
	}
	r.Problem, r.Command = ProgramName, true
	return nil
}

func (r *Request) checkNoProgram() error {
	named, _ := problems.Lookup(r.Problem)
	mixed := named.Mixed != nil && r.Given("alpha")
	if alpha := r.Program.Alpha; mixed {
		r.Mix = &alpha
		if err := checkValues(value{"alpha", alpha, alpha > 0 && alpha <= 1,
			"a number above 0 and up to 1; --problem ridge is that of 0"}); err != nil {
			return err
		}
		if r.Given("lambda2") {
			return study.Errorf("--alpha and --lambda2 are both given, expected one of them: with --alpha a the " +
				"penalty is lambda (a ||b||_1 + (1 - a)/2 ||b||^2)")
		}
	}
	for _, name := range []string{"divergence", "eps", "alpha", "exec-timeout"} {
		if name == "alpha" && r.Given(name) && !mixed {
			return study.Errorf("--alpha is for --problem elastic-net, or for --exec; neither is given")
		}
		if r.Given(name) && name != "alpha" {
			return study.Errorf("--%s is for --exec, which is missing", name)
		}
	}
	return nil
}

func (r *Request) openProgram(devices []array.Device, data problems.Data) (_ *study.Estimator, err error) {
	e := &r.Program
	j := &study.Estimator{Instance: study.Instance{On: devices[0], Options: r.stop()}}
	defer func() {
		if err != nil {
			j.Close()
		}
	}()
	row := pipeline.BlackBoxMethod(e.Divergence).Row()
	if row.Counts {
		if err := pipeline.CheckCounts(data.Y); err != nil {
			return nil, study.Errorf("%s: %w, for --divergence %s", r.Name(), err, row.Name)
		}
		j.Sigma2 = stat.Mean(data.Y, nil)
	} else if j.Sigma2, err = r.variance(data); err != nil {
		return nil, err
	}
	if j.Sigma2 == 0 && row.Sigma2 {
		return nil, study.Errorf("--sigma2 is missing and %s holds no sigma2, which --divergence %s needs: give the "+
			"variance of the noise, or --sigma2 auto to estimate it", r.Name(), row.Name)
	}
	p := &problems.Problem{
		Name: ProgramName, D: len(data.Y), P: len(data.Y), Operator: linops.Identity(len(data.Y)),
		View:   problems.View{MuShape: data.YShape, BShape: data.YShape},
		Values: problems.Values{Lambda: math.NaN(), Lambda2: math.NaN(), Gamma: math.NaN()},
	}
	j.Problem = p
	command := pipeline.Command{Args: e.args, Shape: data.YShape, Timeout: e.Timeout}
	to := spec.ByWeight(&p.Lambda, &p.Lambda2, &p.Gamma)
	for _, name := range spec.WeightNames() {
		text := *r.Weights.Named()[name]
		if text == "" {
			if strings.Contains(e.Line, "{"+name+"}") {
				return nil, study.Errorf("--%s is missing, and --exec has {%s}", name, name)
			}
			continue
		}
		v, ok := dataio.ParseNumber(text)
		if !ok || v < 0 {
			return nil, study.Errorf("--%s is %q, expected a number: the weights of a command have no maximum", name,
				text)
		}
		*to[name] = v
		command.Weights = append(command.Weights, name)
	}
	if err := r.checkScale(data, j.Sigma2, p.D); err != nil {
		return nil, err
	}
	if e.Func != nil {
		j.BlackBox = &pipeline.BlackBox{Name: "function", D: p.D, Eval: e.eval(command.Weights)}
	} else if j.BlackBox, err = command.BlackBox(); err != nil {
		return nil, study.Errorf("--exec: %w", err)
	}
	j.BlackBox.Divergence, j.BlackBox.Eps = pipeline.BlackBoxMethod(e.Divergence), e.Eps
	if row.Alpha > 0 {
		j.BlackBox.Alpha = cmp.Or(e.Alpha, row.Alpha)
		p.Targets.SURE = fmt.Sprintf(row.Risk, j.BlackBox.Alpha)
	} else {
		j.BlackBox.Eps = j.BlackBox.Step(data.Y, j.Sigma2)
	}
	j.Weights, j.Command, j.Variance = command.Weights, cmp.Or(e.Line, "function"), r.Estimate
	j.BoxOptions = pipeline.Options{Sigma2: j.Sigma2, Parallel: r.Machine.Parallel, Progress: r.Watch.Progress,
		Logger: r.Watch.Logger}
	r.Trace.Options(&j.BoxOptions)
	return j, nil
}

// eval calls the function with its weights by name. A panic of it is an error.
func (e *Program) eval(names []string) func(context.Context, []float64, []float64) ([]float64, error) {
	return func(ctx context.Context, weights, y []float64) (mu []float64, err error) {
		named := map[string]float64{}
		for i, name := range names {
			named[name] = weights[i]
		}
		err = stages.Guard(func() error {
			mu, err = e.Func(ctx, named, y)
			return err
		})
		return mu, err
	}
}
