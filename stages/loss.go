package stages

import (
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/loss"
	"surepipe/risk"
)

// LossTerms are the numbers of a sample that exist only where the loss l(z; y) is not quadratic. z =
// A b is then the linear predictor, in [Risk].MuHat.
type LossTerms struct {
	// Name is the loss's name.
	Name string
	// Value is l(z; y): for a likelihood minus its logarithm, without terms of y alone. Deviance is
	// twice the difference of l(z; y) from its minimum over z, NaN where that is not known.
	Value, Deviance float64
	// Likelihood says that l is a negative log-likelihood but for terms of y alone.
	Likelihood bool
	// Fitted is the expectation of y at z, of length d.
	Fitted []float64
}

// lossTerms are those of a solution z at y, nil where the loss is quadratic.
func lossTerms(l loss.Loss, z, y array.Batch) *LossTerms {
	if loss.Quadratic(l) {
		return nil
	}
	known := loss.StructureOf(l)
	t := &LossTerms{Name: known.Name, Likelihood: known.Likelihood, Value: l.Value(z, y), Deviance: math.NaN(), Fitted: z.ToHost()}
	if t.Name == "" {
		t.Name = "custom"
	}
	if known.Least != nil {
		t.Deviance = 2 * math.Max(t.Value-known.Least(y), 0)
	}
	if known.Mean != nil {
		known.Mean(t.Fitted, t.Fitted)
	}
	return t
}

// misfit is the squared norm that stands for ||y - mu_hat||^2 where errors are weighed: the deviance,
// or else what twice l(z; y) is.
func (t *LossTerms) misfit() float64 {
	if !math.IsNaN(t.Deviance) {
		return t.Deviance
	}
	return math.Abs(2 * t.Value)
}

// checkLoss rejects y at which the loss is not defined.
func checkLoss(l loss.Loss, y []float64) error {
	if check := loss.StructureOf(l).Check; check != nil {
		return check(y)
	}
	return nil
}

// lossCriteria sets those of a loss that is not quadratic.
func (j *Job) lossCriteria(r *Risk) error {
	known := loss.StructureOf(j.problem.Loss)
	r.Residual = math.NaN()
	r.Criteria = risk.LossTerms{Value: j.lossTerms.Value, Likelihood: j.lossTerms.Likelihood, DF: r.Trace.Trace, D: len(j.Y)}.Criteria()
	if !j.settings.ALO {
		return nil
	}
	z := j.solution.MuHat
	y, slope, curve := j.view.Alloc(1, z.N()), j.view.Alloc(1, z.N()), j.view.Alloc(1, z.N())
	defer y.Free()
	defer slope.Free()
	defer curve.Free()
	j.view.Upload(y, j.Y)
	j.problem.Loss.Gradient(slope, z, y)
	j.problem.Loss.Curvature(curve, z, y)
	slopes, curves := slope.ToHost(), curve.ToHost()
	if err := j.view.Err(); err != nil {
		return err
	}
	if known.At == nil {
		r.ALOErr = fmt.Errorf("the losses of single observations are not known")
		return nil
	}
	w, flat := known.Whiten(slopes, curves)
	if j.diagonal == nil && anyOf(flat) {
		r.ALOErr = fmt.Errorf("%w: probes do not show the leverages of observations at which the loss has no curvature", ErrNoDiagonal)
		return nil
	}
	// shift is a_i at the leverage h of the whitened problem.
	shift := func(i int, h float64) float64 {
		if w[i] > 0 {
			return h / w[i]
		}
		return 0
	}
	left, err := j.leaveOneOut(func(diagonal []float64) (mean, stdErr float64, err error) {
		a := make([]float64, len(diagonal))
		for i, h := range diagonal {
			a[i] = shift(i, h)
		}
		losses, err := risk.LeftOutPredictors(r.MuHat, slopes, curves, a)
		if err != nil {
			return math.NaN(), math.NaN(), err
		}
		for i, z := range losses {
			losses[i] = known.At(i, z, j.Y[i])
		}
		if mean, stdErr = risk.Mean(losses); math.IsNaN(mean) {
			return mean, stdErr, fmt.Errorf("one Newton step towards the fit without an observation leaves the range of the %s loss", j.lossTerms.Name)
		}
		return mean, stdErr, nil
	}, func() risk.LeftOut {
		return func(i int, h float64) float64 {
			a := shift(i, h)
			return known.At(i, r.MuHat[i]+a*slopes[i]/(1-curves[i]*a), j.Y[i])
		}
	})
	if err != nil {
		r.noLeaveOneOut(err, true)
		return nil
	}
	r.ALO, r.ALOStdErr, r.ALOProbesErr = left.Mean, left.StdErr, left.ProbesErr
	return nil
}

// anyOf reports whether one of them is true.
func anyOf(all []bool) bool {
	for _, v := range all {
		if v {
			return true
		}
	}
	return false
}
