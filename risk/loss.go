package risk

import (
	"fmt"
	"math"
)

// LossTerms are the numbers from which the criteria of one fit with a loss l(z; y) = sum_i l_i(z_i;
// y_i) that is not quadratic are computed. SURE, GCV and the residual variance are not defined for
// it.
type LossTerms struct {
	// Value is l(z; y) at the linear predictor z = A b: for a likelihood minus its logarithm,
	// without terms of y alone.
	Value float64
	// Constant are these terms, which the likelihood of AIC and BIC has.
	Constant float64
	// Likelihood says that l is a negative log-likelihood. Otherwise AIC and BIC are not defined.
	Likelihood bool
	// DF is the number of degrees of freedom, the trace of the derivative of the whitened problem at
	// the solution.
	DF float64
	// D is the number of observations, of events where these are what counts.
	D int
}

// AIC is Akaike's information criterion, 2 l(z; y) + 2 df with the terms of y alone; NaN where l is not a likelihood.
func (t LossTerms) AIC() float64 { return t.information(2) }

// BIC is Schwarz's criterion, with log(d) df in the place of 2 df; NaN where l is not a likelihood.
func (t LossTerms) BIC() float64 { return t.information(math.Log(float64(t.D))) }

func (t LossTerms) information(penalty float64) float64 {
	if !t.Likelihood {
		return math.NaN()
	}
	return 2*(t.Value+t.Constant) + penalty*t.DF
}

// Criteria are those that follow from the terms: AIC and BIC. The others are NaN.
func (t LossTerms) Criteria() Criteria {
	c := Undefined()
	c.AIC, c.BIC = t.AIC(), t.BIC()
	return c
}

// LeftOutPredictors estimates the linear predictor of every observation in a fit to all others,
//
//	z~_i = z_i + a_i l'_i / (1 - l^(2)_i a_i),
//
// from the slopes l'_i and the curvatures l^(2)_i of the losses at z and the diagonal a of A E (E* (A*
// W A + Q) E)^+ E* A*, W = diag(l^(2)). With the diagonal h of the whitened derivative, h_i = l^(2)_i
// a_i, that is z_i + (l'_i/l^(2)_i) h_i/(1 - h_i), and for the squared loss y_i minus the left-out
// residual of [LeaveOneOut]; an observation without curvature is moved by a_i l'_i.
//
// It is one Newton step towards the refit, with the curvature of the regularizer on the tangent
// space of the full fit: approximate leave-one-out (Rad and Maleki 2020; Wang, Zhou, Maleki and
// Mirrokni 2018). The error is ErrLeverage where some l^(2)_i a_i is 1.
func LeftOutPredictors(z, slope, curvature, a []float64) ([]float64, error) {
	out := make([]float64, len(z))
	for i, v := range z {
		leverage := curvature[i] * a[i]
		if Determines(leverage) {
			return nil, fmt.Errorf("%w: observation %d, counted from 0", ErrLeverage, i)
		}
		out[i] = v + a[i]*slope[i]/(1-leverage)
	}
	return out, nil
}

// Mean is the mean of the losses of observations that are left out, and its standard error as that
// of a mean over d observations, NaN at d = 1.
//
// An infinite loss, or one whose square overflows, makes both NaN: one Newton step has then left the
// range of the loss.
func Mean(losses []float64) (mean, stdErr float64) {
	n := float64(len(losses))
	for _, v := range losses {
		mean += v / n
	}
	squares := 0.0
	for _, v := range losses {
		squares += (v - mean) * (v - mean)
	}
	if math.IsInf(squares, 0) || math.IsNaN(squares) {
		return math.NaN(), math.NaN()
	}
	return mean, math.Sqrt(squares / (n - 1) / n)
}
