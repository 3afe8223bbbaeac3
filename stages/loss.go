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
	w, flat := known.Whiten(slopes, curves)
	diagonal := j.diagonal
	if diagonal == nil && j.run != nil && !anyOf(flat) {
		diagonal = j.run.Diagonal()
	}
	switch {
	case known.Each == nil:
		r.ALOErr = fmt.Errorf("the losses of single observations are not known")
		return nil
	case diagonal == nil:
		r.ALOErr = j.undiagonal
		return nil
	}
	a := make([]float64, len(w))
	for i, h := range diagonal {
		if w[i] > 0 {
			a[i] = h / w[i]
		}
	}
	left, err := risk.LeftOutPredictors(r.MuHat, slopes, curves, a)
	if err != nil {
		r.ALOErr = err
		return nil
	}
	known.Each(left, left, j.Y)
	r.ALO, r.ALOStdErr = risk.Mean(left)
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
