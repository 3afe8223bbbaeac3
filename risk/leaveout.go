package risk

import (
	"errors"
	"fmt"
	"math"

	"surepipe/hutch"
)

// LeftOut is the loss at observation i when it is left out of the fit, as a function of its leverage
// h, the diagonal entry of the derivative of the (whitened) problem: for the squared loss
// [SquaredLeftOut], for a loss l with slope l' and curvature l^(2) at the linear predictor z
//
//	l_i(z_i + (l'_i/l''_i) h/(1 - h)),
//
// one Newton step towards the refit (Rad and Maleki 2020). It must be smooth on 0 <= h < 1, and is called
// from several goroutines.
type LeftOut func(i int, h float64) float64

// SquaredLeftOut is the squared residual of an observation that is left out, (r_i/(1 - h))^2, for
// the residuals r of the fit.
func SquaredLeftOut(residuals []float64) LeftOut {
	return func(i int, h float64) float64 {
		r := residuals[i] / (1 - h)
		return r * r
	}
}

// LeaveOneOutResult is an estimate of the mean loss at an observation that is left out.
type LeaveOneOutResult struct {
	// Mean is the estimate. StdErr is its standard error: that of a mean over d independent
	// observations and ProbesErr together. ProbesErr is the part that the choice of probes causes, 0
	// where the leverages are exact.
	Mean, StdErr, ProbesErr float64
	// Leverages and Influences are [hutch.DiagonalMean]'s Entries and Influences where the leverages are
	// known from probes; else nil.
	Leverages, Influences []float64
}

// UnresolvedError says that leave-one-out is not known because of Count of the D observations, and why:
// the end of a sentence about them.
type UnresolvedError struct {
	Count, D int
	Why      string
}

func (e *UnresolvedError) Error() string {
	return fmt.Sprintf("%d of %d observations %s", e.Count, e.D, e.Why)
}

// Decides is the leverage from which an observation decides most of its own fit.
const Decides = 0.9

// LeaveOneOutFromProbes is [LeaveOneOut] of the squared or another loss where the leverages are
// known from probes only, by RandALO (Nobel, LeJeune and Candes 2024) with the changes that
// [hutch.Leverages.Mean] describes. The error is an [*UnresolvedError] where some leverages are too near
// to 1 for the probes, and where for that reason the error by the probes is larger than the
// mean itself.
func LeaveOneOutFromProbes(leverages *hutch.Leverages, loss LeftOut) (LeaveOneOutResult, error) {
	none := LeaveOneOutResult{Mean: math.NaN(), StdErr: math.NaN(), ProbesErr: math.NaN()}
	m, err := leverages.Mean(loss)
	if e := new(hutch.UnresolvedError); errors.As(err, &e) {
		return none, &UnresolvedError{e.Count, e.D,
			fmt.Sprintf("have leverages too near to 1 for %d probes to tell what their residuals would be "+
				"without them", e.Probes)}
	}
	if err != nil {
		return none, err
	}
	near := 0
	for _, h := range m.Entries {
		if h > Decides {
			near++
		}
	}
	if near > 0 && m.ProbesErr > math.Abs(m.Value) {
		return none, &UnresolvedError{near, len(m.Entries), "have leverages so near to 1 that the choice of the " +
			"probes may change their left-out errors by more than these are"}
	}
	return LeaveOneOutResult{m.Value, math.Hypot(m.Spread, m.ProbesErr), m.ProbesErr, m.Entries, m.Influences}, nil
}

// withFit is a mean error of prediction with its whole standard error, from that of a mean over independent
// observations. Errors of prediction are not independent: each has the fit to the others, whose noise is theirs. With
// J the derivative of the (whitened) problem, h = df/d, and phi twice the variance of the noise, 1 for the logarithm of
// a likelihood, the covariances of l(y_i, z~_i) with those of other observations add
//
//	phi^2 (||J||_F^2 - df^2/d) / (d - df)^2
//
// to the variance about the error of this fit where leverages are alike, to first order in h, and for the squared loss
// and a projection J up to h = 1/2 by 6%. The optimism of the loss, what leaving out adds to it, is phi df/d (Efron
// 1986), and tells phi. With a likelihood it is at least df/d, and more where the fit is near y, whose curvature the
// others then lack. It counts where the losses are alike, as those of a logistic regression without signal are: all are
// then log 2. That of [Terms.GCV] is of as many squares as it has residual degrees of freedom, and for a new row of a
// projection both together are too long by at most 6%, at h = 1/4.
//
// Squared residuals of few degrees of freedom also have [Terms.skewed].
//
// Errors of folds of k observations have the noise of the others of their fold too, which adds k - 1 to these degrees.
// Where the residuals have at most k degrees of freedom, (tr R)^2 / tr R^2 of R = I - J, the errors of a fold are no
// function of them: the fits without it find other coordinates, and the errors count as of a projection that leaves k.
func (f Fitted) withFit(value, stdErr float64, k int) (float64, float64) {
	if math.IsNaN(value) {
		return value, value
	}
	t, d, fold := f.Terms, float64(f.observations()), float64(k)
	if left := d - t.Divergence; t.Frobenius2 > 0 && left*left <= fold*(left-t.Divergence+t.Frobenius2) {
		t.Divergence, t.Frobenius2 = d-fold, d-fold
	}
	if f.Loss == nil {
		stdErr = math.Hypot(stdErr, value*t.skewed(max(fold-1, 0)))
	}
	df, optimism := t.Divergence, value-t.Residual/d
	if l := f.Loss; l != nil {
		if optimism = value - l.Value/d; l.Likelihood {
			optimism = max(optimism, df/d)
		}
	}
	if !(df > 0 && df < d && optimism > 0 && t.Frobenius2 > 0) {
		return value, stdErr
	}
	return value, math.Hypot(stdErr, optimism*d/df*math.Sqrt(max(t.Frobenius2-df*df/d, 0))/(d-df))
}

func (f Fitted) gcv() (float64, float64) { return f.withFit(f.Criteria.GCV, f.Criteria.GCVStdErr, 0) }
func (f Fitted) alo() (float64, float64) { return f.withFit(f.Criteria.ALO, f.Criteria.ALOStdErr, 0) }

// withoutUnits is a mean error of prediction of units that were left out, with the noise of the fit where these are
// single observations: errors over groups have it, and those over few are widened by Student's distribution.
func (f Fitted) withoutUnits(c *CrossValidation) (float64, float64) {
	value, stdErr := c.estimated()
	if c == nil {
		return value, stdErr
	}
	if c.Units < f.observations() {
		return value, stdErr * hutch.Widened(c.Units-1)
	}
	return f.withFit(value, stdErr, c.Fold)
}

func (f Fitted) observations() int {
	if f.Loss != nil {
		return f.Loss.D
	}
	return f.Terms.D
}
