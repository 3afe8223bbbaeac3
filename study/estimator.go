package study

import (
	"context"
	"iter"

	"surepipe/array"
	"surepipe/internal/noise"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/problems/spec"
	"surepipe/prox"
	"surepipe/vjp"
)

// Estimator is an estimator on a device, or on several, ready to take samples.
type Estimator struct {
	Instance
	// Others are the estimator on other devices, over which pipeline spreads its work.
	Others   []Instance
	Pipeline *pipeline.Pool
	Sigma2   float64 // 0 where it is not known

	// BlackBox is the estimator where it is a command, and the solver and the pipeline are then nil;
	// weights are the names of its weights.
	BlackBox   *pipeline.BlackBox
	Weights    []string
	BoxOptions pipeline.Options
	// Command is the command line of the box.
	Command string
	// Variance is how sigma2 was estimated, nil where it was given.
	Variance *noise.Estimate
	// Noise says how the noise is correlated.
	Noise pipeline.Autoregression
	// Response is the name of y where it is one of several responses.
	Response string
}

// Instance is an estimator on one device.
type Instance struct {
	On      array.Device
	Problem *problems.Problem
	Solver  vjp.Solver
	Options vjp.Options // the solver's
}

// Axis is a weight that is swept.
type Axis struct {
	Name   string // lambda, lambda2 or gamma
	Grid   problems.Grid
	Values []float64 // increasing
}

func (j *Estimator) Name() string {
	if j.BlackBox != nil {
		return "command"
	}
	return j.Solver.Name()
}

// Estimate is the risk at one y.
func (j *Estimator) Estimate(ctx context.Context, y []float64) (pipeline.Risk, error) {
	if j.BlackBox == nil {
		return j.Pipeline.Estimate(ctx, y)
	}
	return j.BlackBox.Estimate(ctx, j.weightsAt(nil), y, j.BoxOptions)
}

// Stream is the risk at many y.
func (j *Estimator) Stream(ctx context.Context, first int,
	ys iter.Seq2[[]float64, error]) iter.Seq2[pipeline.Risk, error] {
	if j.BlackBox == nil {
		return j.Pipeline.StreamFrom(ctx, first, ys)
	}
	return j.BlackBox.StreamFrom(ctx, first, j.weightsAt(nil), ys, j.BoxOptions)
}

// Repeat is the risk at one y under many seeds.
func (j *Estimator) Repeat(ctx context.Context, index int, y []float64,
	seeds iter.Seq[uint64]) iter.Seq2[pipeline.Risk, error] {
	if j.BlackBox == nil {
		return j.Pipeline.Repeat(ctx, index, y, seeds)
	}
	return j.BlackBox.Repeat(ctx, index, j.weightsAt(nil), y, seeds, j.BoxOptions)
}

// weightsAt are the command's weights, with those of a map in the place of their own.
func (j *Estimator) weightsAt(swept map[string]float64) []float64 {
	own := WeightsOf(j.Problem)
	values := make([]float64, len(j.Weights))
	for i, name := range j.Weights {
		if v, ok := swept[name]; ok {
			values[i] = v
		} else {
			values[i] = own[name]
		}
	}
	return values
}

// Family is the estimator along the axes of a sweep, or without axes at its own weights, on all devices.
func (j *Estimator) Family(axes []Axis) pipeline.Family {
	if j.BlackBox == nil {
		family := j.family(axes)
		for i := range j.Others {
			family.Others = append(family.Others, j.Others[i].family(axes))
		}
		return family
	}
	box := *j.BlackBox
	box.Eval = func(ctx context.Context, swept, y []float64) ([]float64, error) {
		at := map[string]float64{}
		for a, axis := range axes {
			at[axis.Name] = swept[a]
		}
		return j.BlackBox.Eval(ctx, j.weightsAt(at), y)
	}
	return pipeline.Family{BlackBox: &box}
}

func (i *Instance) family(axes []Axis) pipeline.Family {
	return pipeline.Family{
		Problem: i.Problem.Solve(), Solver: i.Solver.Name(), Settings: i.Options,
		Regularizer: func(swept []float64) (prox.Prox, error) {
			if len(axes) == 0 {
				return prox.Lent(i.Problem.Regularizer), nil
			}
			w := WeightsOf(i.Problem)
			for a, axis := range axes {
				w[axis.Name] = swept[a]
			}
			return i.Problem.Reweighted(w["lambda"], w["lambda2"], w["gamma"])
		},
	}
}

// ExecResult is what is to be known of a command.
func (j *Estimator) ExecResult() ExecResult {
	if j.BlackBox == nil {
		return ExecResult{}
	}
	return ExecResult{Exec: j.Command, Eps: j.BlackBox.Eps, Alpha: j.BlackBox.Alpha}
}

func (i *Instance) close() {
	if i.Solver != nil {
		i.Solver.Release()
	}
	if i.Problem != nil {
		i.Problem.Release()
	}
	i.On.Close()
}

func (j *Estimator) Close() {
	j.Instance.close()
	for _, other := range j.Others {
		other.close()
	}
}

// Device names the devices, as --device does.
func (j *Estimator) Device() string {
	name := j.On.Name()
	for _, other := range j.Others {
		name += "," + other.On.Name()
	}
	return name
}

// Result is the part of the result that all samples share.
func (j *Estimator) Result() Result {
	p := j.Problem
	entries := 0
	if p.D != p.Observations() {
		entries = p.D
	}
	return Result{
		LossResult:    AboutLoss(p),
		TargetsResult: TargetsOf(p, j.Sigma2), ExecResult: j.ExecResult(),
		Response: j.Response, Problem: p.Name, D: p.Observations(), P: p.Variables(), Entries: entries,
		Sigma2Result: j.sigma2Result(), WeightsResult: weightsOf(p),
		Standardize:   p.Standardized(),
		EffectsResult: EffectsOf(p), CenterResult: CenterOf(p),
		Solver: SolverResult{Name: j.Name()}, Device: j.Device(), Version: Version(),
	}
}

func (j *Estimator) sigma2Result() Sigma2Result {
	r := Sigma2Result{Sigma2: j.Sigma2}
	if v := j.Variance; v != nil {
		r.Sigma2Method, r.Sigma2RelStdErr = v.Method, &v.RelStdErr
	}
	if n := j.Noise; n.Rho != 0 {
		r.NoiseRho, r.NoiseRhoStdErr = &n.Rho, &n.RhoStdErr
	}
	return r
}

// WeightsOf returns the problem's weights by name.
func WeightsOf(p *problems.Problem) map[string]float64 {
	return spec.ByWeight(p.Lambda, p.Lambda2, p.Gamma)
}
