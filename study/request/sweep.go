package request

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"

	"surepipe/internal/noise"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/problems/spec"
	"surepipe/risk"
	"surepipe/study"
	"surepipe/vjp"
)

// Sweep says which weights are swept, and what is minimized. Weights that are swept are texts such as 0.01max:max:40
// among those of the request.
type Sweep struct {
	// Criterion is what is minimized: "" stands for the default, until the data are known.
	Criterion risk.Criterion
	Rule      pipeline.Rule // which point is chosen
	// Refine is the most points beyond the grid for each weight, and Chain that of points in a chain of warm starts, 0
	// for the default.
	Refine, Chain int
	// Audit asks for an audit of the chosen point: it is made where it is cheap unless the option audit is given.
	Audit bool

	axes []study.Axis
	// open says that no weight is given: the grid is that of [problems.Problem.DefaultGrid].
	open bool
}

// NewSweep is a sweep with the defaults.
func NewSweep() Sweep { return Sweep{Rule: pipeline.MinimumRule, Refine: pipeline.DefaultRefine} }

// CheckSweep is [Request.Check] for a sweep. It takes the grids from the weights, which then hold single values.
func (r *Request) CheckSweep(s *Sweep) error {
	if err := r.Check(); err != nil {
		return err
	}
	return r.CheckGrids(s)
}

// CheckGrids is [Request.CheckSweep] of a request that has been checked.
func (r *Request) CheckGrids(s *Sweep) error {
	for _, name := range spec.WeightNames() {
		text := r.Weights.Named()[name]
		if !problems.IsGrid(*text) {
			continue
		}
		grid, err := problems.ParseGrid(*text)
		if err != nil {
			return study.Errorf("--%s is %w", name, err)
		}
		s.axes = append(s.axes, study.Axis{Name: name, Grid: grid})
		if grid.List != nil && !r.Given("refine") {
			s.Refine = 0 // a list is what is asked for
		}
		// The value with which the problem is opened, which then gives the maximum.
		*text = "max"
		if !grid.Relative() {
			*text = "1"
		}
	}
	if s.Criterion != "" {
		if _, err := risk.ParseCriterion(string(s.Criterion)); err != nil {
			return study.Errorf("--criterion is %w", err)
		}
	}
	s.open = len(s.axes) == 0 && r.Weights.Lambda == "" && !r.Program.Given() && r.Own == nil
	r.Free = r.Free || s.open
	switch axes := s.axes; {
	case len(axes) == 0 && !s.open:
		return study.Errorf("no weight is a grid: expected one such as --lambda 0.01max:2max:40; for a single value " +
			"use surepipe run")
	case len(axes) > 2:
		return study.Errorf("--lambda, --lambda2 and --gamma are grids, expected one or two")
	case len(axes) == 2 && axes[0].Grid.N > pipeline.MostPoints/axes[1].Grid.N:
		return study.Errorf("--%s and --%s make a grid of %d x %d points, expected at most %d", axes[0].Name,
			axes[1].Name, axes[0].Grid.N, axes[1].Grid.N, pipeline.MostPoints)
	}
	r.Trace.ALO = r.Trace.ALO || s.Criterion.Rule().Diagonal
	f := &r.Folds
	return checkValues(value{"refine", s.Refine, s.Refine >= 0, "0 or more"},
		value{"folds", f.K, f.K == 0 || f.K > 1, "2 or more, or 0 for the default"},
		value{"repeats", f.Repeats, f.Repeats >= 0, "1 or more"},
		value{"blocks", f.Blocks, f.Blocks >= 0, "1 or more"},
		value{"chain", s.Chain, s.Chain >= 0, "at least 1, or 0 for the default"},
		chosen("rule", s.Rule, pipeline.Rules()...))
}

// SweepOf is a sweep of an estimator along axes whose values are known.
func (r *Request) SweepOf(s Sweep, axes []study.Axis, j *study.Estimator, data problems.Data) (*study.Sweep, error) {
	unasked := s.Criterion == ""
	if err := r.chooseCriterion(&s, j); err != nil {
		return nil, err
	}
	if s.Criterion.Rule().Blocks && r.Folds.Groups == nil && r.Folds.Blocks == 0 {
		return nil, study.Errorf("--criterion %s leaves out groups or blocks of observations: expected --groups or "+
			"--blocks", s.Criterion)
	}
	if s.Rule == pipeline.OneStdErrRule && !s.Criterion.Rule().Compares(j.Sigma2) {
		return nil, study.Errorf("--rule 1se needs the standard errors of differences, which --criterion %s does not "+
			"have: choose another criterion, or --rule min", s.Criterion)
	}
	o := pipeline.SweepOptions{Options: r.Pipeline(data, j.Sigma2), Criterion: s.Criterion, Rule: s.Rule, Mu: data.Mu,
		Refine: s.Refine, Chain: s.Chain, Folds: r.Folds, Lost: r.Watch.Lost, Estimate: !r.Given("tol"),
		Fallback: unasked && s.Criterion.Rule().Undefined != ""}
	switch {
	case !r.Given("audit"):
		o.Audit = pipeline.CheapAudit
	case s.Audit:
		o.Audit = pipeline.AlwaysAudit
	}
	if !r.Given("parallel") {
		o.Parallel = r.inFlight(j, data)
	}
	o.NoMuHat, o.KeepB = false, (r.Keep.B || r.Intercept) && j.BlackBox == nil
	if r.Estimate != nil {
		o.Sigma2RelStdErr = r.Estimate.RelStdErr
	}
	if s.Refine == 0 {
		o.Refine = -1
	}
	return &study.Sweep{Estimator: j, Template: j.Result(), Data: data, Axes: axes, Options: o,
		Header: study.NewSweepHeader(j, data, axes, o)}, nil
}

// Up to mostInFlight points are in flight where y has at most fewObservations: a point takes about a kilobyte for each.
const (
	mostInFlight    = 4
	fewObservations = 1 << 20
)

// inFlight is how many points of a sweep are in flight where the option parallel does not say: several for a solver in
// the host's memory that has no bound, as one leaves processors idle. Several responses keep them busy themselves.
func (r *Request) inFlight(j *study.Estimator, data problems.Data) int {
	if j.BlackBox != nil || data.Shared != nil || r.Given("memory") || len(data.Y) > fewObservations ||
		spec.MatrixOf(data.X).Stored != nil || j.Options.Derivative == vjp.Unrolled {
		return r.Machine.Parallel
	}
	if _, bounded := j.On.Available(); bounded || j.On.Name() != "cpu" {
		return r.Machine.Parallel
	}
	return min(runtime.GOMAXPROCS(0), mostInFlight)
}

// AuditOptions are those of an audit of one estimate: the criterion is that by which a sweep would choose.
func (r *Request) AuditOptions(j *study.Estimator, data problems.Data) (pipeline.SweepOptions, error) {
	var s Sweep
	err := r.chooseCriterion(&s, j)
	return pipeline.SweepOptions{Options: r.Pipeline(data, j.Sigma2), Criterion: s.Criterion, Folds: r.Folds,
		Lost: r.Watch.Lost}, err
}

// SweepAt is a sweep of an estimator that was opened at the weights that [Request.CheckGrids] leaves.
func (r *Request) SweepAt(ctx context.Context, s Sweep, j *study.Estimator, data problems.Data) (_ *study.Sweep,
	err error) {
	axes := slices.Clone(s.axes)
	if s.open {
		if axes, err = r.defaultAxes(ctx, j, data); err != nil {
			return nil, err
		}
		return r.SweepOf(s, axes, j, data)
	}
	for a, axis := range axes {
		if axes[a].Values, err = axis.Grid.Values(study.WeightsOf(j.Problem)[axis.Name]); err != nil {
			return nil, study.Errorf("--%s: %w", axis.Name, err)
		}
	}
	return r.SweepOf(s, axes, j, data)
}

func (r *Request) defaultAxes(ctx context.Context, j *study.Estimator, data problems.Data) ([]study.Axis, error) {
	beside := slices.DeleteFunc(problems.Unset(r.Problem, data), func(name string) bool {
		return name == "lambda" || r.Given(name)
	})
	for _, name := range beside {
		if len(beside) > 1 || *r.Weights.Named()[name] != "max" {
			text := ""
			if named, _ := problems.Lookup(r.Problem); named.Mixed != nil {
				text = ": give it, or --alpha, such as 0.5, which divides lambda between the two penalties"
			}
			return nil, study.Errorf("--%s is missing: neither given nor in the data%s", name, text)
		}
	}
	if math.IsNaN(j.Problem.Lambda) {
		return nil, study.Errorf("no weight is a grid: expected one such as --lambda 0.01max:2max:40; for a single " +
			"value use surepipe run")
	}
	choose := j.Problem.MapGrid
	if len(beside) == 0 {
		choose = func(ctx context.Context) (problems.Grid, float64, error) {
			return j.Problem.DefaultGrid(ctx, r.noiseOf(j, data))
		}
	}
	grid, top, err := choose(ctx)
	var axes []study.Axis
	for _, name := range append([]string{"lambda"}, beside...) {
		axis := study.Axis{Name: name, Grid: grid}
		if name != "lambda" {
			top = study.WeightsOf(j.Problem)[name]
		}
		if err == nil {
			axis.Values, err = grid.Values(top)
		}
		axes = append(axes, axis)
	}
	if err != nil {
		return nil, study.Errorf("--lambda is missing, and has no default: %w", err)
	}
	return axes, nil
}

func (r *Request) noiseOf(j *study.Estimator, data problems.Data) func() float64 {
	return func() float64 {
		if j.Sigma2 > 0 {
			return j.Sigma2
		}
		e, err := problems.EstimateSigma2(noise.MethodAuto, r.Problem, data)
		if errors.Is(err, problems.ErrNeedsFits) { // values with gaps, in their order
			e, err = noise.MADSignal(data.Y)
		}
		if err != nil {
			return 0
		}
		return e.Sigma2
	}
}

// chooseCriterion fills in the default, when sigma2 is known or known to be unknown.
func (r *Request) chooseCriterion(s *Sweep, j *study.Estimator) (err error) {
	l, sigma2 := r.LossOf(), j.Sigma2
	var p vjp.Problem // a black box has none
	if j.Problem != nil {
		p = j.Problem.Solve()
	}
	if s.Criterion == "" {
		s.Criterion = pipeline.SweepCriterion(p, sigma2, r.Folds.Groups != nil)
	}
	rule := s.Criterion.Rule()
	if !l.Squared() && !rule.Serves(false, loss.StructureOf(p.Loss).Likelihood) {
		return study.Errorf("--criterion is %s, which is not defined for the %s loss: expected %s, the error of "+
			"predicting an observation that is left out", s.Criterion, l.Name, risk.ALO)
	}
	if r.Correlation != "" && !rule.Sigma2 && !rule.Refits {
		return study.Errorf("--criterion %s takes the noise as independent, found --noise %s: expected %s, or %s with "+
			"--blocks longer than the correlation", s.Criterion, r.Correlation, risk.SURE, risk.CV)
	}
	if rule.Sigma2 && sigma2 == 0 {
		return study.Errorf("--sigma2 is missing and %s holds no sigma2, which --criterion %s needs: give the "+
			"variance of the noise, or --sigma2 auto to estimate it, or choose another "+
			"criterion", r.Name(), s.Criterion)
	}
	r.Trace.ALO = r.Trace.ALO || rule.Diagonal
	return nil
}
