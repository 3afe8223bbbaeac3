package stages

import (
	"fmt"
	"math"
)

// Warning is a reason to doubt a result.
type Warning struct {
	// Code is one of the constants below: short, for programs.
	Code string `json:"code"`
	// Text is a sentence for people: what is wrong and what can be done.
	Text string `json:"text"`
}

// The codes of the warnings that a result carries.
const (
	// NotConverged: the solver stopped before it reached its tolerance.
	NotConverged = "not-converged"
	// DerivativeNotConverged: probes of the implicit derivative stopped short.
	DerivativeNotConverged = "derivative-not-converged"
	// ImplausibleDivergence: no Jacobian of such an estimator has this divergence.
	ImplausibleDivergence = "implausible-divergence"
	// Unverified: an independent check disagrees, or could not be done.
	Unverified = "verification"
	// Ambiguous: which coordinates are active, or which directions are in the null space of A,
	// depends on rounding errors or on the solver's tolerance, and SURE depends on it.
	Ambiguous = "ambiguous"
)

// Trusted reports whether there is no known reason to doubt the numbers: no warning, except perhaps
// that decisions in doubt may change SURE by less than its error bar.
func (r *Risk) Trusted() bool {
	for _, w := range r.Warnings() {
		if w.Code != Ambiguous || r.ambiguity() > 1 {
			return false
		}
	}
	return true
}

// ambiguity is how far decisions in doubt may change SURE, in error bars.
func (r *Risk) ambiguity() float64 {
	t := r.Terms()
	return t.StdErrOfTrace(r.DivergenceHigh-r.DivergenceLow) / max(r.StdErr, t.ProjectionStdErr())
}

// Warnings lists the reasons to doubt the numbers. If there are none, the numbers are correct to
// within their stated errors.
func (r *Risk) Warnings() []Warning {
	var all []Warning
	add := func(code, format string, args ...any) {
		all = append(all, Warning{code, fmt.Sprintf(format, args...)})
	}
	if r.Implausible {
		add(ImplausibleDivergence, "the divergence %g is outside [0, %d]: the derivative of the iterations has not settled; ask for a smaller tolerance with more iterations, or the implicit derivative",
			r.Trace.Trace, r.D)
	}
	switch {
	case r.Converged:
	case r.Derivative == "direct":
		add(NotConverged, "the closed form has an optimality of %.1e: X is ill-conditioned and b is not well determined", r.Optimality)
	default:
		within := ""
		if !math.IsNaN(r.Convergence.Error) {
			within = fmt.Sprintf(", mu_hat within %.2g of the exact estimate", r.Convergence.Error)
		}
		add(NotConverged, "not converged after %d iterations: optimality %.1e%s; allow more iterations, accept a larger tolerance, or try another solver", r.Iterations, r.Optimality, within)
	}
	if most := inaccuracy * math.Sqrt(r.Sigma2*float64(r.D)); r.Converged && r.Convergence.Error > most {
		add(NotConverged, "mu_hat may be off the exact estimate by %.2g, more than a hundredth of sigma sqrt(d): give the solver sigma2 or a smaller tolerance", r.Convergence.Error)
	}
	if r.Unsolved > 0 {
		add(DerivativeNotConverged, "the implicit derivative has not converged: %d probes stopped short after %d steps because the solution is nearly not unique; raise the weight of the regularizer, or try the unrolled derivative",
			r.Unsolved, r.InnerSteps)
	}
	if v := r.Verification; v != nil && !v.Passed() {
		add(Unverified, "the result does not agree with an independent check: %s", v.Describe())
	}
	if t := r.Terms(); t.StdErrOfTrace(r.Lag) > mostLag*t.ProjectionStdErr() {
		add(DerivativeNotConverged, "the derivative of the iterations lags behind them: its trace is off that of the fixed point by about %.2g; ask for a smaller tolerance, or the implicit derivative", r.Lag)
	}
	if r.ambiguity() > doubtful {
		add(Ambiguous, "the divergence is between %g and %g: which coordinates are active, or whether columns depend on each other, cannot be decided within rounding errors and the tolerance; ask for a smaller tolerance, remove dependent columns, or change the weight a little",
			r.DivergenceLow, r.DivergenceHigh)
	}
	return all
}

// inaccuracy is a little more than the error of mu_hat, in units of sigma sqrt(d), at which a
// solver that knows sigma2 stops.
const inaccuracy = 0.0101

// mostLag and doubtful are the shares of SURE's error bar by which the lag of an unrolled
// derivative, and decisions in doubt, may change SURE without a warning.
const (
	mostLag  = 0.003
	doubtful = 0.01
)
