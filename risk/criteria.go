package risk

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Criterion names a number that falls as an estimator gets better, by which its weights may be
// chosen. What is known of it is its [Rule].
type Criterion string

const (
	// SURE is [Terms.SURE]: it needs sigma2.
	SURE Criterion = "sure"
	// GCV is [Terms.GCV].
	GCV Criterion = "gcv"
	// ALO is the mean of [LeaveOneOut], or of [LeaveOneOutFromProbes]: it needs the diagonal of D
	// mu_hat.
	ALO Criterion = "alo"
	// LGO is the mean error of predicting groups of observations that are left out, by a [Block] of D mu_hat for each.
	LGO Criterion = "lgo"
	// CV is the mean error of predicting observations from fits without them, [CrossValidation].
	CV  Criterion = "cv"
	AIC Criterion = "aic"
	BIC Criterion = "bic"
)

// Criteria are the numbers of one fit by which weights may be chosen, besides SURE, and the
// variance of the noise that follows from its residual. Each is NaN where it is not defined.
type Criteria struct {
	// GCV is [Terms.GCV], in units of y^2 for one observation. GCVStdErr is its standard error as
	// an estimate of the mean squared error of prediction: that of the mean over the observations
	// of their squared residuals, which d - df of them determine, and GCVTraceErr together. GCVTraceErr is the
	// part that an error of the trace causes ([Terms.GCVErrOfTrace]), 0 for an exact trace.
	GCV, GCVStdErr, GCVTraceErr float64
	AIC, BIC                    float64
	// Sigma2DF is [Terms.Sigma2DF].
	Sigma2DF float64
	// ALO, ALOStdErr and ALOProbesErr are the results of [LeaveOneOut] or [LeaveOneOutFromProbes]; NaN
	// too where they were not asked for. ALOProbesErr is the part of the error that the choice of
	// probes causes, 0 for an exact diagonal.
	ALO, ALOStdErr, ALOProbesErr float64
}

// Undefined are criteria of which none is defined.
func Undefined() Criteria {
	none := math.NaN()
	return Criteria{GCV: none, GCVStdErr: none, GCVTraceErr: none, AIC: none, BIC: none, Sigma2DF: none, ALO: none,
		ALOStdErr: none, ALOProbesErr: none}
}

// leastShare is the share of the d residual degrees of freedom below which they count as none: the
// quotient of two rounding errors is not an estimate.
const leastShare = 1e-9

// ResidualDF is d - df, the degrees of freedom that the fit leaves to the residual, for df = tr D
// mu_hat; NaN where none are left, as in a fit that interpolates y.
func (t Terms) ResidualDF() float64 {
	d := float64(t.D)
	if left := d - t.Divergence; left > leastShare*d {
		return left
	}
	return math.NaN()
}

// GCV is the generalized cross-validation of Craven and Wahba (1979),
//
//	d ||y - mu_hat||^2 / (d - df)^2,   df = tr D mu_hat,
//
// an estimate of the mean squared error of predicting a new observation, noise included, that
// needs no sigma2: the mean over the observations of the squared residual, each divided by the
// square of the mean of 1 - D_ii. It is NaN where no degrees of freedom are left.
func (t Terms) GCV() float64 {
	left := t.ResidualDF()
	return float64(t.D) / left * (t.Residual / left)
}

// GCVErrOfTrace is the error of GCV that an error of the divergence causes, to first order (the
// delta method): 2 GCV / (d - df) times as large.
func (t Terms) GCVErrOfTrace(divergenceErr float64) float64 {
	return 2 * t.GCV() / t.ResidualDF() * divergenceErr
}

// Sigma2DF is the residual variance
//
//	||y - mu_hat||^2 / (d - df),
//
// for least squares the unbiased estimate of sigma2, and for other estimators one that the squared
// bias of the fit makes too large. It is NaN where no degrees of freedom are left.
func (t Terms) Sigma2DF() float64 { return t.Residual / t.ResidualDF() }

// AIC is Akaike's information criterion for normal noise (Akaike 1974), with df = tr D mu_hat in
// place of the number of parameters. Where sigma2 is known it is minus twice the logarithm of the
// likelihood plus 2 df,
//
//	d log(2 pi sigma2) + ||y - mu_hat||^2 / sigma2 + 2 df,
//
// which is SURE/sigma2 and a constant. Where it is not (Sigma2 = 0) the likelihood has its maximum
// at sigma2 = ||y - mu_hat||^2 / d, which counts as a parameter,
//
//	d log(2 pi ||y - mu_hat||^2 / d) + d + 2 (df + 1),
//
// the value of AIC in R's stats. The latter falls without bound as a fit approaches
// interpolation, and is meaningful only while df is well below d. It is NaN where no degrees of
// freedom or no residual are left.
func (t Terms) AIC() float64 { return t.information(2) }

// BIC is Schwarz's criterion (Schwarz 1978): [Terms.AIC] with log d in place of the factor 2 of df.
// It does not estimate a risk, but aims at the least model that explains y.
func (t Terms) BIC() float64 { return t.information(math.Log(float64(t.D))) }

// information is minus twice the logarithm of the likelihood plus penalty for each degree of
// freedom.
func (t Terms) information(penalty float64) float64 {
	d := float64(t.D)
	if t.Sigma2 > 0 {
		return d*math.Log(2*math.Pi*t.Sigma2) + t.Residual/t.Sigma2 + penalty*t.Divergence
	}
	if !(t.Residual > 0) || math.IsNaN(t.ResidualDF()) {
		return math.NaN()
	}
	return d*(math.Log(2*math.Pi*(t.Residual/d))+1) + penalty*(t.Divergence+1)
}

// Criteria are those that follow from the terms, the error of the divergence and the residuals
// y - mu_hat alone: all but the ones by leaving out, which are NaN.
func (t Terms) Criteria(divergenceErr float64, residuals []float64) Criteria {
	return t.CriteriaOf(divergenceErr, slices.Values([][]float64{residuals}))
}

// CriteriaOf is [Terms.Criteria] of residuals in parts, which are read several times.
func (t Terms) CriteriaOf(divergenceErr float64, residuals iter.Seq[[]float64]) Criteria {
	c := Undefined()
	c.GCV, c.GCVTraceErr, c.Sigma2DF = t.GCV(), t.GCVErrOfTrace(divergenceErr), t.Sigma2DF()
	c.AIC, c.BIC = t.AIC(), t.BIC()
	_, spread := meanOfSquares(residuals)
	share := float64(t.D) / t.ResidualDF()
	c.GCVStdErr = math.Hypot(share*share*spread*t.widened(), c.GCVTraceErr)
	return c
}

// widened is the factor by which the standard error of the residuals' mean square exceeds that of d
// independent ones. With R = I - D mu_hat, the part of the noise in the residuals, it is
//
//	sqrt(d tr R^4)/tr R^2,   tr R^4 ~ (tr R^2)^3/(tr R)^2,
//
// exact where R has eigenvalues 0 and one other: for a projection sqrt(d/(d - df)), for a multiple of
// the identity 1.
func (t Terms) widened() float64 {
	d, first := float64(t.D), t.ResidualDF()
	second := d - 2*t.Divergence + t.Frobenius2
	return math.Sqrt(math.Max(d*second/(first*first), 1))
}

// manyDF is the number of degrees of freedom from which a mean square counts as normal.
const manyDF = 40

// skewed is what the skewness of s2, a mean square of n = d/widened^2 degrees of freedom and some more, adds in
// quadrature to its relative standard error: the variance that it estimates is s2 n/x, with x chi-square of n degrees,
// and two bars about s2 reach the upper quantile of that. Of one degree s2 is often a thousandth of the variance.
func (t Terms) skewed(more float64) float64 {
	w := t.widened()
	if n := math.Max(float64(t.D)/(w*w), 1) + more; n < manyDF {
		return math.Sqrt(math.Max(beyondNormal(n)-beyondNormal(manyDF), 0)) // rounding errors, near manyDF
	}
	return 0
}

// beyondNormal is the square of half of the two bars of skewed, less that of a normal mean square:
//
//	(n/x - 1)^2/4 - 2/n,   x the quantile of chi-square of 1 <= n <= 40 degrees for 0.0455,
//
// to five digits, with (n/x - 1)/2 = sqrt(2/n) exp(a polynomial in 1/sqrt(n)).
func beyondNormal(n float64) float64 {
	logarithm, t := 0.0, 1/math.Sqrt(n)
	for _, c := range [...]float64{0.63310124, -1.6817772, 0.54279134, 1.3488528, -0.45280725, 1.4445067,
		1.1311711, 1.8876897, -0.16908951} {
		logarithm = logarithm*t + c
	}
	return (math.Exp(2*logarithm) - 1) * 2 / n
}

// ErrLeverage says that a fit passes through an observation whatever its value: D_ii is 1 up to
// rounding errors, as for a coefficient that only this observation determines. Leaving it out
// leaves that coefficient undetermined.
var ErrLeverage = errors.New("an observation determines its own fit up to rounding errors (leverage 1), and " +
	"cannot be left out")

// mostLeverage is the largest D_ii with which an observation can be left out: the quotient of two
// rounding errors is not an estimate.
const mostLeverage = 1 - 1e-8

// Determines says that an observation of leverage h determines its own fit up to rounding errors.
func Determines(h float64) bool { return !(h <= mostLeverage) }

// LeaveOneOut estimates the mean squared error of predicting an observation from all others,
//
//	1/d sum_i ((y_i - mu_hat_i) / (1 - D_ii))^2,
//
// and its standard error, that of a mean over d observations: those of a regression would have to
// be independent for it to be exact, and at d = 1 it is NaN. residuals holds y - mu_hat, diagonal
// the D_ii of D mu_hat(y), both of length d.
//
// For least squares and ridge regression, with or without an intercept or weights of the
// observations, each term is exactly the squared residual of observation i in a fit to the others
// (PRESS: Allen 1974). For other estimators it is one Newton step towards that fit, with the
// curvature of the regularizer on the tangent space of the full fit: approximate leave-one-out
// (Rad and Maleki 2020), whose error vanishes as d grows. The error is ErrLeverage where some D_ii
// is 1.
func LeaveOneOut(residuals, diagonal []float64) (mean, stdErr float64, err error) {
	if len(residuals) != len(diagonal) {
		return math.NaN(), math.NaN(), fmt.Errorf("risk: %d residuals, but a diagonal of %d", len(residuals),
			len(diagonal))
	}
	left := make([]float64, len(residuals))
	for i, r := range residuals {
		if Determines(diagonal[i]) {
			return math.NaN(), math.NaN(), fmt.Errorf("%w: observation %d, counted from 0", ErrLeverage, i)
		}
		left[i] = r / (1 - diagonal[i])
	}
	mean, stdErr = meanOfSquares(slices.Values([][]float64{left}))
	return mean, stdErr, nil
}

// atOnce numbers stay in a processor's cache.
const atOnce = 1 << 9

// meanOfSquares is the mean of the squares, and its standard error, in one reading of the numbers. The squares of
// numbers that are large or small are summed in units of the largest.
func meanOfSquares(parts iter.Seq[[]float64]) (mean, stdErr float64) {
	unit, n, spread, room := 0x1p-1022, 0.0, 0.0, [atOnce]float64{}
	for part := range parts {
		for x := range slices.Chunk(part, atOnce) {
			most, m, squares := unit, float64(len(x)), room[:len(x)]
			for _, v := range x {
				if v = math.Abs(v); v > most {
					most = v
				}
			}
			smaller := (unit / most) * (unit / most)
			mean, spread, unit = mean*smaller, spread*smaller*smaller, most
			floats.ScaleTo(squares, 1/unit, x)
			floats.Mul(squares, squares)
			own := floats.Sum(squares) / m
			floats.AddConst(-own, squares)
			apart := own - mean
			mean += apart * m / (n + m)
			spread += floats.Dot(squares, squares) + apart*apart*n*m/(n+m)
			n += m
		}
	}
	if math.IsInf(unit, 1) {
		return unit, unit
	}
	return mean * unit * unit, math.Sqrt(spread/(n-1)/n) * unit * unit
}
