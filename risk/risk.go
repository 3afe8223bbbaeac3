package risk

import "math"

// Terms are the numbers from which the risk of one fit is estimated. The formulas require d >= 1
// and, unless they say otherwise, sigma2 > 0; they return NaN or infinities where the terms do, and
// report no errors.
type Terms struct {
	// D is d, the number of observations.
	D int
	// Sigma2 is the variance of the noise in each observation, 0 where it is not known: SURE and
	// its errors are then NaN.
	Sigma2 float64
	// Residual is ||y - mu_hat||^2.
	Residual   float64
	Divergence float64
	// Frobenius2 is ||D mu_hat||_F^2, or an estimate of it.
	Frobenius2 float64
	// Correlated has what takes the place of the terms above where the noise is correlated; else nil.
	Correlated *Correlated
}

// SURE is Stein's unbiased estimate of the risk E ||mu_hat - mu||^2 (Stein 1981),
//
//	-d sigma2 + ||y - mu_hat||^2 + 2 sigma2 tr D mu_hat.
func (t Terms) SURE() float64 {
	if t.Sigma2 == 0 {
		return math.NaN()
	}
	return -float64(t.D)*t.Sigma2 + t.Residual + 2*t.Sigma2*t.covarianceTrace()
}

// covarianceTrace is tr C D mu_hat for noise of covariance sigma2 C: the divergence where that is white.
func (t Terms) covarianceTrace() float64 {
	if c := t.Correlated; c != nil {
		return c.Trace
	}
	return t.Divergence
}

// StdErr estimates the root mean square of SURE - ||mu_hat - mu||^2, where the terms are exact. It
// is [Terms.UnbiasedStdErr] or half of [Terms.LeastStdErr], whichever is larger.
//
// (Half of it: an estimate that is often near its least expectation, as that of a LASSO is, would
// be biased by the maximum of the two.) The error bar is thus 0 only for a Jacobian whose
// eigenvalues are all 1/2, within the error of the trace.
func (t Terms) StdErr() float64 {
	if t.Correlated != nil {
		return max(t.UnbiasedStdErr(), t.ProjectionStdErr()/10)
	}
	return max(t.UnbiasedStdErr(), t.LeastStdErr()/2)
}

// Floored reports whether the unbiased estimate of the square of StdErr is not positive, so that
// StdErr is its floor: then sigma2 is larger than the residual allows, or the draw is a rare one.
func (t Terms) Floored() bool { return t.UnbiasedStdErr() == 0 }

// UnbiasedStdErr is the root of the unbiased estimate of E (SURE - ||mu_hat - mu||^2)^2 by Bellec
// and Zhang (2021),
//
//	4 sigma2 ||y - mu_hat||^2 + 4 sigma2^2 ||D mu_hat||_F^2 - 2 sigma2^2 d,
//
// and 0 where that is negative.
func (t Terms) UnbiasedStdErr() float64 {
	if t.Sigma2 == 0 {
		return math.NaN()
	}
	if c := t.Correlated; c != nil {
		return t.Sigma2 * math.Sqrt(max(0, 4*(c.Residual/t.Sigma2+c.Squares)-2*c.All))
	}
	// In units of sigma2: the squares of large data stay in range.
	return t.Sigma2 * math.Sqrt(max(0, 4*(t.Residual/t.Sigma2+t.Frobenius2)-2*float64(t.D)))
}

// LeastStdErr is the root of
//
//	2 sigma2^2 ||I - 2 D mu_hat||_F^2 = 2 sigma2^2 (d - 4 div + 4 ||D mu_hat||_F^2),
//
// a lower bound of the expectation of the square of UnbiasedStdErr, with D mu_hat at this y
// standing for its expectation. For f = y - mu_hat the terms of first order of the expansion in
// Hermite polynomials give E ||f||^2 >= sigma2 ||E D f||_F^2 (Cacoullos 1982), where D f = I - D
// mu_hat and ||I - D||_F^2 = d - 2 div + ||D||_F^2; sigma2 times that in the place of the
// residual gives the formula.
//
// An estimate of ||I - 2 D||_F^2 that comes out below tr(I - 2 D)^2 / d, a lower bound of the norm
// itself, is replaced by that bound.
func (t Terms) LeastStdErr() float64 {
	d := float64(t.D)
	trace := d - 2*t.Divergence
	return t.Sigma2 * math.Sqrt(2*max(d-4*t.Divergence+4*t.Frobenius2, trace*trace/d))
}

// ProjectionStdErr is sigma2 sqrt(2 d), the error bar of every orthogonal projection, and the scale
// of the error bar of any estimator that is not near y/2.
func (t Terms) ProjectionStdErr() float64 {
	all := float64(t.D)
	if c := t.Correlated; c != nil {
		all = c.All
	}
	return t.Sigma2 * math.Sqrt(2*all)
}

// Scale is the error bar against which other errors of SURE are measured: stdErr, SURE's own, or a
// tenth of ProjectionStdErr where it is smaller, as happens where the eigenvalues are near 1/2, or
// by chance. A smaller error is not worth its cost.
func (t Terms) Scale(stdErr float64) float64 { return max(stdErr, 0.1*t.ProjectionStdErr()) }

// mostBelow is how many error bars below 0 SURE may be by chance: its expectation is a squared error.
const mostBelow = 3

// TooLarge reports that SURE is so far below 0, by more than three times its error bar, that sigma2
// must be too large: SURE falls by d - 2 div where sigma2 rises by 1. stdErr is the error bar with
// all that contributes to it: StdErr, the error of the trace, and that of sigma2 where it is an
// estimate; it counts for at least a tenth of ProjectionStdErr ([Terms.Scale]).
func (t Terms) TooLarge(stdErr float64) bool {
	return t.Sigma2 > 0 && t.SURE() < -mostBelow*t.Scale(stdErr)
}

// StdErrOfTrace is the error of SURE that an error of the divergence causes, 2 sigma2 times as
// large.
func (t Terms) StdErrOfTrace(divergenceErr float64) float64 {
	return 2 * t.Sigma2 * divergenceErr
}

// TraceErr is the inverse of StdErrOfTrace: the error of the divergence that causes the given error
// of SURE.
func (t Terms) TraceErr(stdErr float64) float64 { return stdErr / (2 * t.Sigma2) }

// StdErrOfSigma2 is the error of SURE that an error of sigma2 causes, to first order: SURE changes
// by 2 div - d where sigma2 changes by 1. relative is the standard error of sigma2 over its value.
func (t Terms) StdErrOfSigma2(relative float64) float64 {
	return math.Abs(relative * t.Sigma2 * (2*t.covarianceTrace() - float64(t.D)))
}

// Shift is the most by which SURE can change if mu_hat moves by delta in norm and the divergence
// does not change: for ||e|| = delta,
//
//	| ||y - mu_hat - e||^2 - ||y - mu_hat||^2 | <= delta (2 ||y - mu_hat|| + delta).
//
// residualNorm is ||y - mu_hat||.
func Shift(residualNorm, delta float64) float64 { return delta * (2*residualNorm + delta) }

// Implausible reports a divergence or a norm that no Jacobian of the estimators here has: their
// eigenvalues lie in [0, 1], so that 0 <= tr D mu_hat <= d and ||D mu_hat||_F^2 <= d. Deviations of
// up to four times divergenceErr, the error of the divergence, and d/1000 are tolerated, and so is
// a norm up to twice the bound, because it is an estimate too.
func (t Terms) Implausible(divergenceErr float64) bool {
	d := float64(t.D)
	slack := 4*divergenceErr + 1e-3*d
	return t.Divergence < -slack || t.Divergence > d+slack || t.Frobenius2 > 2*d
}

// Bounded are the terms with the nearest divergence and norm that are not implausible.
func (t Terms) Bounded() Terms {
	d := float64(t.D)
	t.Divergence, t.Frobenius2 = max(0, min(t.Divergence, d)), min(t.Frobenius2, d)
	return t
}

// Overflows reports that ||y||^2 and sigma2, 0 where that is not known, are so far apart or so large that the risk of d
// observations or its error bar has no finite value.
func Overflows(squares, sigma2 float64, d int) bool {
	if sigma2 == 0 {
		return math.IsInf(squares, 0)
	}
	return math.IsInf(4*squares/sigma2, 0) || math.IsInf(4*sigma2*float64(d), 0)
}
