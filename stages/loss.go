package stages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/input"
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
	// Constant are these terms of y alone.
	Constant float64
	// Likelihood says that l is a negative log-likelihood but for terms of y alone.
	Likelihood bool
	// Size is the number of observations as Schwarz's criterion counts them, 0 for that of y.
	Size int
	// Fitted is the expectation of y, or z itself where the loss has none, and Residuals minus the slope of l at z: y
	// minus its expectation for a likelihood of the exponential family, martingale residuals of times of events.
	Fitted, Residuals []float64
	// Dispersion is the sum of the squares of the slopes of l over that of its curvatures, both of which have the same
	// expectation where l is a negative log-likelihood of single values, and DispersionErr its standard error for
	// counts; 0 where they are not known. Binary says that each observation has one of two values, whose variance
	// follows from their mean: the ratio then says nothing of it.
	Dispersion, DispersionErr float64
	Binary                    bool
}

// atFit is a loss at the fit: its value, slopes and curvatures, of which the latter are nil where they are not known
// together with the others.
type atFit struct {
	value         float64
	slopes, curve []float64
}

func lossAt(l loss.Loss, z, y array.Batch) (at atFit) {
	dev := z.Device()
	slope := dev.Alloc(1, z.N())
	defer slope.Free()
	if together := loss.StructureOf(l).Together; together != nil {
		curve := dev.Alloc(1, z.N())
		defer curve.Free()
		at.value = together(slope, curve, z, y)
		at.curve = curve.ToHost()
	} else {
		at.value = l.Value(z, y)
		l.Gradient(slope, z, y)
	}
	at.slopes = slope.ToHost()
	return at
}

func lossTerms(l loss.Loss, at atFit, z, y array.Batch) *LossTerms {
	known := loss.StructureOf(l)
	t := &LossTerms{Name: known.Name, Likelihood: known.Likelihood, Value: at.value, Deviance: math.NaN(),
		Fitted: z.ToHost(), Residuals: floats.ScaleTo(make([]float64, len(at.slopes)), -1, at.slopes)}
	if known.Likelihood && known.Coupled == nil && at.curve != nil {
		t.disperse(at.slopes, at.curve)
	}
	if t.Name == "" {
		t.Name = "custom"
	}
	if known.Constant != nil {
		t.Constant = known.Constant(y)
	}
	if known.Size != nil {
		t.Size = known.Size(y.ToHost())
	}
	if known.Least != nil {
		t.Deviance = 2 * math.Max(t.Value-known.Least(y), 0)
	}
	if known.Mean != nil {
		known.Mean(t.Fitted, t.Fitted)
	}
	return t
}

// leastVariance is a rounding error of a variance of at most 1/4.
const leastVariance = 1e-12

// disperse sets the dispersion. The fourth moment of a count of mean m about it is 3 m^2 + m, and that of a sum of
// trials is less. A value of 0 or 1 of mean m is off by m or 1 - m, and has the variance m (1 - m).
func (t *LossTerms) disperse(slope, curve []float64) {
	squares, sum, variance := 0.0, 0.0, 0.0
	t.Binary = true
	for i, c := range curve {
		squares, sum, variance = squares+slope[i]*slope[i], sum+c, variance+2*c*c+c
		off := math.Abs(slope[i])
		t.Binary = t.Binary && math.Abs(c-off*(1-off)) < leastVariance
	}
	if sum > 0 {
		t.Dispersion, t.DispersionErr = squares/sum, math.Sqrt(variance)/sum
	}
}

// misfit is the squared norm that stands for ||y - mu_hat||^2 where errors are weighed: the deviance,
// or else what twice l(z; y) is.
func (t *LossTerms) misfit() float64 {
	if !math.IsNaN(t.Deviance) {
		return t.Deviance
	}
	return math.Abs(2 * t.Value)
}

// excess is l(z; y) over its least, or itself where that is not known.
func (t *LossTerms) excess() float64 {
	if !math.IsNaN(t.Deviance) {
		return t.Deviance / 2
	}
	return t.Value
}

// FromZero reports whether the loss of a perfect fit is 0 at every observation, as the squared loss, nil, is. Where it
// is not, as with a negative log-likelihood of counts without terms of y alone, the losses vary from one observation to
// the next at the best fit too, and their mean may be negative. It is false where the least is not known.
func (t *LossTerms) FromZero() bool {
	return t == nil || math.Abs(2*t.Value-t.Deviance) <= 1e-9*t.Deviance
}

func checkLoss(l loss.Loss, y []float64) error {
	if check := loss.StructureOf(l).Check; check != nil {
		if err := check(y); err != nil {
			return input.Bad(err)
		}
	}
	return nil
}

func (j *Job) lossCriteria(ctx context.Context, r *Risk) error {
	r.Residual = math.NaN()
	r.Criteria = r.Fitted().Loss.Criteria()
	switch known := loss.StructureOf(j.problem.Loss); {
	case known.Joint != nil:
		return j.leaveJoint(ctx, r, known.Joint)
	case known.Several():
		return j.leaveUnits(ctx, r, known)
	}
	f, err := j.flatness(r.MuHat)
	if err != nil {
		return err
	}
	r.Doubts = append(r.Doubts, f.scale(r.Trace.Trace)...)
	some := slices.Contains(f.flat, true)
	if j.diagonal != nil && some {
		if r.Undetermined = f.undetermined(j.diagonal); r.Undetermined > 0 {
			if r.DivergenceLow -= r.Undetermined; r.DivergenceLow < mostFlat {
				r.DivergenceLow = 0
			}
		}
	}
	if f.known.At != nil && r.Undetermined == 0 {
		if err := j.leaveGroupsOf(ctx, r, f); err != nil {
			return err
		}
	} else if j.settings.Together.Units > 0 {
		r.LGOErr = errors.New("the losses of single observations are not known, or the fit is not unique")
	}
	switch {
	case !j.settings.ALO:
		return nil
	case f.known.At == nil:
		r.ALOErr = fmt.Errorf("the losses of single observations are not known")
		return nil
	case j.diagonal == nil && some:
		r.ALOErr = fmt.Errorf("%w: probes do not show the leverages of observations at which the loss has "+
			"no curvature", ErrNoDiagonal)
		return nil
	case r.Undetermined > 0:
		r.ALOErr = errors.New("the fit is not unique, and neither are those without an observation")
		return nil
	}
	left, err := j.leaveOneOut(f.mean, func() risk.LeftOut {
		return func(i int, h float64) float64 {
			_, v := f.leftOut(i, f.shift(i, h))
			return v
		}
	})
	if err == nil {
		left, r.Refits, err = j.moveOn(ctx, f, j.leverages, left)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.noLeaveOneOut(err, true)
		return nil
	}
	r.ALO, r.ALOStdErr, r.ALOProbesErr = left.Mean, left.StdErr, left.ProbesErr
	return nil
}
