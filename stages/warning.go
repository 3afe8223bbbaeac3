package stages

import (
	"fmt"
	"math"
	"slices"

	"surepipe/risk"
	"surepipe/risk/warning"
)

// Warning is a reason to doubt a result.
type Warning = warning.Warning

// CloseMargin is the margin of the tangent space below which reports mention it.
const CloseMargin = 100

// Trusted reports that nothing is known that makes the numbers doubtful: no warning is a [warning.Doubt], and decisions
// in doubt may move SURE by less than its error bar.
func (r *Risk) Trusted() bool { return warning.Trusted(r.Warnings()) && !(r.ambiguity() > 1) }

func (r *Risk) ambiguity() float64 {
	t := r.weighing()
	return t.StdErrOfTrace(r.DivergenceHigh-r.DivergenceLow) / max(t.StdErr(), t.ProjectionStdErr())
}

// Warnings lists the reasons to doubt the numbers. If there are none, the numbers are correct to
// within their stated errors.
func (r *Risk) Warnings() []Warning {
	all := slices.Clone(r.Doubts)
	add := func(k *warning.Kind, format string, args ...any) {
		all = append(all, k.With(format, args...))
	}
	if r.Implausible {
		add(warning.ImplausibleDivergence, "the divergence, or its Jacobian's norm, came out outside [0, %d], so that "+
			"it is not known: the derivative of the iterations has not settled; ask for a smaller tolerance with "+
			"more iterations, or the implicit derivative", r.D)
	}
	r.warnOfSolve(add)
	if r.Unsolved > 0 {
		add(warning.DerivativeNotConverged, "the implicit derivative has not converged: %d probes stopped short "+
			"after %d "+
			"steps because the solution is nearly not unique; raise the weight of the regularizer, or try the "+
			"unrolled derivative",
			r.Unsolved, r.InnerSteps)
	}
	if v := r.Verification; v != nil && !v.Passed() {
		add(warning.Unverified, "the result does not agree with an independent check: %s", v.Describe())
	}
	if t := r.weighing(); t.StdErrOfTrace(r.Lag) > mostLag*t.ProjectionStdErr() {
		add(warning.DerivativeNotConverged, "the derivative of the iterations lags behind them: its trace, or half "+
			"its squared Frobenius norm, is off that of the fixed point by about %.2g; ask for a smaller tolerance, "+
			"or the implicit derivative", r.Lag)
	}
	if r.Undetermined > 0 {
		add(warning.NotDetermined, "the fit is not unique, and the divergence is between %g and %g: in some "+
			"directions only observations determine it at which the %s loss has no curvature; raise the loss's "+
			"scale, such as Huber's delta, or the weight of the regularizer",
			r.DivergenceLow, r.DivergenceHigh, r.LossTerms.Name)
	} else if r.ambiguity() > doubtful {
		add(warning.Ambiguous, "the divergence is between %g and %g: which coordinates are active, or whether columns "+
			"depend on each other, cannot be decided within rounding errors and the tolerance; ask for a smaller "+
			"tolerance, remove dependent columns, or change the weight a little",
			r.DivergenceLow, r.DivergenceHigh)
	}
	if r.SpaceMargin > 0 && r.SpaceMargin < 1 && !r.Neighbours {
		add(warning.NearBoundary, "the solution is near the boundary of its tangent space, at %.2g times its own "+
			"error: another support, rank or clustering, with another divergence, is within that error; ask for a "+
			"smaller tolerance, or change the weight a little", r.SpaceMargin)
	}
	t := r.Terms()
	if bar := math.Hypot(r.StdErr, t.StdErrOfTrace(r.Trace.Error())); r.SURE < 0 && t.TooLarge(bar) {
		add(warning.Sigma2TooLarge, "SURE, which estimates a squared error, is %.3g, %.2g error bars below 0: sigma2 "+
			"= "+
			"%.6g is too large; check its units, or how it was estimated", r.SURE, -r.SURE/t.Scale(bar), r.Sigma2)
	}
	if r.ALOErr != nil {
		add(warning.NoLeaveOneOut, "there is no leave-one-out: %v", r.ALOErr)
	}
	if r.LGOErr != nil {
		add(warning.NoLeaveGroupOut, "there is no leave-group-out: %v", r.LGOErr)
	}
	if spread := math.Sqrt(max(r.ALOStdErr*r.ALOStdErr-r.ALOProbesErr*r.ALOProbesErr, 0)); r.LossTerms.FromZero() &&
		spread > mostSpread*r.ALO && r.Refits == 0 {
		other := "; compare cv"
		if r.LossTerms != nil {
			other = ""
		}
		add(warning.FewObservations, "leave-one-out rests on a few observations, with a standard error of %.0f%% of "+
			"its value: it takes one step towards each refit, and refits without such an observation may have another "+
			"support and be far from that%s",
			100*spread/r.ALO, other)
	}
	for rule := range risk.Rules() {
		if rule.Holds != nil {
			all = append(all, rule.Holds(r.Fitted())...)
		}
	}
	r.warnOfLikelihood(add)
	return all
}

func (r *Risk) warnOfLikelihood(add func(k *warning.Kind, format string, args ...any)) {
	if ratio := r.dispersion(); ratio > 0 {
		add(warning.Overdispersed, "y varies %.3g times as much about the fit as the %s loss has it: AIC and BIC "+
			"take it for a likelihood; standard errors of coefficients are by the residuals; choose by alo or cv",
			ratio, r.LossTerms.Name)
	}
	if t := r.LossTerms; t.interpolates(r.D) && r.Converged {
		add(warning.Interpolates, "the fit reproduces y, with a deviance of %.2g for %d observations: the %s loss "+
			"then has next to no curvature, b is large and ill-determined, and leave-one-out is not reliable; raise "+
			"the weight of the regularizer", t.Deviance, r.D, t.Name)
	}
}

// interpolates reports that the fit reproduces y.
func (t *LossTerms) interpolates(d int) bool {
	return t != nil && t.Likelihood && t.Deviance <= leastDeviance*float64(d)
}

// Dispersion is the ratio of the variance of y about the fit, by the degrees of freedom that are left, to that of the
// likelihood, and its standard error where y is of counts that the likelihood describes; 0 where it is not known, or
// says nothing.
func (r *Risk) Dispersion() (ratio, stdErr float64) {
	t, free := r.LossTerms, 1-r.Trace.Trace/float64(r.D)
	if t == nil || t.Binary || !(free > 0) {
		return 0, 0
	}
	return t.Dispersion / free, t.DispersionErr / free
}

// dispersion is that ratio where it is larger than 1 beyond doubt, else 0.
func (r *Risk) dispersion() float64 {
	ratio, stdErr := r.Dispersion()
	if r.Trace.Trace <= mostFitted*float64(r.D) && ratio > max(overdispersed, 1+overErrors*stdErr) {
		return ratio
	}
	return 0
}

// y is overdispersed where its variance is that many times the likelihood's, overErrors standard errors from 1, about
// a fit of at most mostFitted of the degrees of freedom.
const overdispersed, overErrors, mostFitted = 1.5, 6, 0.25

func (r *Risk) warnOfSolve(add func(k *warning.Kind, format string, args ...any)) {
	switch {
	case r.Converged:
	case r.LossTerms.interpolates(r.D):
		add(warning.NoFiniteFit, "not converged after %d iterations, and more do not help: the fit reproduces y, "+
			"with a deviance of %.2g for %d observations, and its coefficients grow without bound as the penalty "+
			"falls, as where a column orders the times of events or separates the classes; raise the weight of the "+
			"regularizer, or leave that column out", r.Iterations, r.LossTerms.Deviance, r.D)
	case r.Closed:
		add(warning.NotConverged, "the closed form has an optimality of %.1e: X is ill-conditioned and b is not "+
			"well determined", r.Optimality)
	default:
		within := ""
		if !math.IsNaN(r.Convergence.Error) {
			within = fmt.Sprintf(", %s within %.2g of the exact estimate", r.bounded(), r.Convergence.Error)
		}
		add(warning.NotConverged, "not converged after %d iterations: optimality %.1e%s; allow more iterations, "+
			"accept a "+
			"larger tolerance, or try another solver", r.Iterations, r.Optimality, within)
	}
	// Without sigma2 the solver has compared the error with the residual itself. A point of a sweep that has a Change
	// was not to be certified.
	if r.Converged && r.Change == 0 && r.Sigma2 > 0 && r.Convergence.Error > inaccuracy*r.noise() {
		size := "sigma sqrt(d)"
		if r.MeanWeight > 0 {
			size = "sigma sqrt(sum w), with the weights w of the observations"
		}
		add(warning.NotConverged, "%s may be off the exact estimate by %.2g, more than a hundredth of %s: give the "+
			"solver sigma2 or a smaller tolerance", r.bounded(), r.Convergence.Error, size)
	}
}

// inaccuracy is the bound of the error of mu_hat, as a share of the size of the noise, up to which
// a solver that knows sigma2 goes, and a little more.
const inaccuracy = 0.0101

// mostSpread is the standard error of leave-one-out, as a share of its value, up to which many
// observations contribute to it: over d squares of normal numbers it is sqrt(2/d).
const mostSpread = 0.5

// leastDeviance is the mean deviance of an observation below which a fit reproduces y: that of a
// likelihood is of the order of 1.
const leastDeviance = 1e-3

// mostLag and doubtful are the shares of SURE's error bar by which the lag of an unrolled
// derivative, and decisions in doubt, may change SURE without a warning.
const (
	mostLag  = 0.003
	doubtful = 0.01
)
