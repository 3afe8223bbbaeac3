package stages

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"surepipe/hutch"
	"surepipe/internal/digits"
	"surepipe/internal/lists"
	"surepipe/risk"
	"surepipe/verify"
	"surepipe/vjp"
)

// Risk is the result for one sample: Stein's unbiased risk estimate and the terms that it is
// computed from, with the criteria that need no sigma2. Package risk has the formulas.
type Risk struct {
	// Index is the sample's position in the stream.
	Index int
	// SURE = -d sigma2 + Residual + 2 sigma2 Divergence, see [risk.Terms.SURE]. It and StdErr are
	// NaN where sigma2 is not known.
	SURE float64
	// StdErr estimates the root mean square of SURE - ||mu_hat - mu||^2 for exact terms, see
	// [risk.Terms.StdErr]: it does not include the error of the trace.
	StdErr float64
	// Floored reports that the unbiased estimate of StdErr's square is not positive, so that StdErr
	// is its floor, see [risk.Terms.Floored].
	Floored  bool
	Residual float64
	// LossTerms has what takes its place where the loss is not quadratic; nil elsewhere. SURE, GCV and
	// the residual variance are then NaN, Trace is that of the whitened problem at the solution, and
	// Convergence.Error bounds the root of twice the Bregman distance of MuHat from the exact
	// linear predictor, which for a likelihood is twice a relative entropy.
	LossTerms *LossTerms
	// Trace is the estimate of the divergence tr(D mu_hat) and of ||D mu_hat||_F^2. The
	// divergence's error is Trace.Error(): that of the probes and of truncated conjugate gradients.
	Trace hutch.Estimate
	// DivergenceLow and DivergenceHigh are the least and the largest divergence that decisions
	// within rounding errors and the solver's tolerance allow for ([vjp.Closed]); both are
	// Trace.Trace where no decision is in doubt or the range is not known.
	DivergenceLow, DivergenceHigh float64
	// RankMargin is the factor by which the smallest direction that was counted in the rank exceeds
	// rounding errors; 0 where no rank was decided.
	RankMargin float64
	// SpaceMargin says how close the choice of the regularizer's tangent space was: the distance to
	// the nearest point with another one, over the error of the solution; 0 where it is not known.
	// A value near or below 1 means that the choice is within the solver's tolerance.
	SpaceMargin float64
	// Neighbours reports that the tangent spaces near the solution are part of DivergenceLow and
	// DivergenceHigh, so that a small SpaceMargin leaves nothing open.
	Neighbours bool
	// D is the number of observations, and Sigma2 the variance of their noise that was used, 0 where
	// it is not known.
	D      int
	Sigma2 float64
	// Correlated has what SURE takes where the noise is (Settings.Noise); else nil. Then there are neither GCV, AIC,
	// BIC, ALO nor the residual variance, which are for independent noise.
	Correlated *risk.Correlated
	// Criteria are GCV, AIC and BIC, the residual variance, and leave-one-out where it was asked for
	// (Settings.ALO) or the trace takes probes.
	risk.Criteria
	// CV is the result of cross-validation, where a sweep asked for it, and LGO that of leave-group-out, where it was
	// asked for (Settings.Together) and is known: LGOErr says why it is not. Else nil.
	CV, LGO *risk.CrossValidation
	LGOErr  error
	// LeftOutTogether are the errors of predicting each observation of which LGO is the mean.
	LeftOutTogether []float64
	// LeftOut are the errors of predicting each observation of which ALO is the mean, nil where they are not known.
	LeftOut []float64
	// Refits is the number of observations whose part of ALO is the error of a fit without them, as that of one step is
	// not where they carry the mean.
	Refits int
	// ALOErr says why ALO is NaN although it was asked for: it is or wraps [ErrNoDiagonal],
	// [risk.ErrLeverage] or a [risk.UnresolvedError].
	ALOErr error
	// Unresolved is the number of observations because of which ALO is not known ([risk.UnresolvedError]),
	// whether or not it was asked for.
	Unresolved int
	// Leverages are those of the observations, nil where they are not known.
	Leverages *risk.Leverages
	// Undetermined is the part of the divergence in directions of the fit that only observations without
	// curvature of the loss determine: the fit is not unique there.
	Undetermined float64
	// NotLeftOut is the number of observations that determine a term of the fit alone, such as the
	// only entry of a row: leave-one-out is the mean over the others.
	NotLeftOut int
	// Digest is what is needed to compare the result with others at the same y, where that was asked
	// for (Settings.Compare), else nil.
	Digest *risk.Digest
	// stand is the variance that stands in for an unknown sigma2 where errors are weighed.
	stand float64
	// Convergence is that of the solver; Derivative says how the solution was differentiated.
	vjp.Convergence
	Derivative string
	// MeanWeight is the mean of the weights w of the observations, 0 where the loss has none. With
	// weights Convergence.Error bounds ||sqrt(w) (mu_hat - mu_hat*)||, where the noise has the size
	// sigma sqrt(sum w).
	MeanWeight float64
	// Choices lists what the solver chose based on the structure of the problem, and why.
	Choices []vjp.Choice
	// InnerSteps is the largest number of inner iterations that the implicit derivative took for a
	// probe, and Unsolved the number of probes that stopped short of their tolerance. If there are
	// any, Trace should not be trusted.
	InnerSteps, Unsolved int
	// Implausible reports a Trace that no Jacobian of such an estimator has, see
	// [risk.Terms.Implausible]. The unrolled derivative of an iterate far from the solution can be
	// like that: Trace is then the nearest in [0, d] with an error of d, and SURE and Criteria are NaN.
	Implausible bool
	// Doubts are further reasons to doubt the result, found by code that knows how it was computed;
	// with any of them but LargeStep it is not Trusted.
	Doubts []Warning
	// Verification is the result of an independent check; nil where none was asked for. Its time is
	// not included in those below.
	Verification *verify.Verification
	// CacheBytes is the device memory that the linearization held.
	CacheBytes int64
	// MuHat is the estimate of the mean, of length d; where the loss is not quadratic it is the linear
	// predictor A b, and LossTerms.Fitted is the estimate of the mean. It is nil where it was left out
	// (Settings.NoMuHat).
	MuHat []float64
	// B is the solution b, of length p, where it was asked for (Settings.KeepB), else nil. Factors takes
	// its place where b is a matrix that the solver has in factored form and did not write down
	// ([vjp.Options].Compact, or p > 2^26); DenseB writes it down.
	B       []float64
	Factors *vjp.Factors
	// Solve, Divergence and Total are wall-clock times: of the solver, from its end to the last
	// probe, and both together.
	Solve, Divergence, Total time.Duration
}

// HasB reports whether the result has b, written down or by its factors.
func (r *Risk) HasB() bool { return r.B != nil || r.Factors != nil }

// DenseB is b with all p numbers: B, or the factors' product in a new slice; nil where the result has
// none.
func (r *Risk) DenseB() []float64 {
	if r.Factors != nil {
		return r.Factors.Dense()
	}
	return r.B
}

// BAt are the coordinates of b at the given places, in a new slice; nil where the result has no b.
func (r *Risk) BAt(places []int) []float64 {
	switch {
	case r.Factors != nil:
		return r.Factors.Places(places)
	case r.B == nil:
		return nil
	}
	return lists.Pick(r.B, places)
}

// Terms are the numbers from which SURE and its error bar were computed.
func (r *Risk) Terms() risk.Terms {
	return risk.Terms{D: r.D, Sigma2: r.Sigma2, Residual: r.Residual, Divergence: r.Trace.Trace,
		Frobenius2: r.Trace.Frobenius2, Correlated: r.Correlated}
}

// ErrNoDiagonal says that the diagonal of D mu_hat, which leave-one-out needs, is not known: the
// linear system of the derivative was not factored, and the trace took fewer random probes than
// leave-one-out needs, or probes that are projected off a sketch.
var ErrNoDiagonal = fmt.Errorf("the diagonal of the derivative is known only where its linear system is factored, "+
	"with the exact trace, or from at least %d random probes of hutchinson",
	hutch.LeastProbes)

func (r *Risk) noLeaveOneOut(err error, asked bool) {
	if e := new(risk.UnresolvedError); errors.As(err, &e) {
		r.Unresolved = e.Count
	}
	if asked {
		r.ALOErr = err
	}
}

// Fitted is what criteria are computed from.
func (r *Risk) Fitted() risk.Fitted {
	f := risk.Fitted{Terms: r.Terms(), SURE: r.SURE, SUREStdErr: r.StdErr, Criteria: r.Criteria, CV: r.CV, LGO: r.LGO,
		Unresolved: r.Unresolved, NotLeftOut: r.NotLeftOut, Leverages: r.Leverages}
	if l := r.LossTerms; l != nil {
		f.Loss = &risk.LossTerms{Value: l.Value, Constant: l.Constant, Likelihood: l.Likelihood,
			DF: r.Trace.Trace, D: cmp.Or(l.Size, r.D)}
	}
	return f
}

// Value is the value of a criterion, NaN where it is not defined or not known.
func (r *Risk) Value(c risk.Criterion) float64 {
	value, _ := r.Estimated(c)
	return value
}

// Estimated is a criterion with its standard error, each NaN where it is not defined: aic and bic estimate no risk, and
// have none.
func (r *Risk) Estimated(c risk.Criterion) (value, stdErr float64) { return c.Rule().Value(r.Fitted()) }

// weighing are the terms by which errors are weighed: with another variance in the place of an
// unknown sigma2.
func (r *Risk) weighing() risk.Terms {
	t := r.Terms()
	if t.Sigma2 == 0 {
		t.Sigma2 = r.stand
	}
	return t
}

// noise is the size of the noise in the norm of Convergence.Error.
func (r *Risk) noise() float64 {
	mean := r.MeanWeight
	if mean == 0 {
		mean = 1
	}
	return math.Sqrt(r.Sigma2 * mean * float64(r.D))
}

func (r *Risk) bounded() string {
	if r.LossTerms != nil {
		return "the root of the deviance"
	}
	if r.MeanWeight > 0 {
		return "sqrt(w) mu_hat"
	}
	return "mu_hat"
}

// String is a short report in a few lines: the estimate, its terms, how it was computed, what its
// error bar does not include, and the warnings. There is no newline at the end.
func (r Risk) String() string {
	var s strings.Builder
	t := r.Terms()
	if r.LossTerms != nil {
		fmt.Fprintf(&s, "%s loss %.6g, deviance %.6g, for d = %d\n", r.LossTerms.Name, r.LossTerms.Value,
			r.LossTerms.Deviance, r.D)
	} else if r.Sigma2 > 0 {
		fmt.Fprintf(&s, "SURE %s, %.6g per coordinate, for d = %d and sigma2 = %.6g\n",
			digits.PlusMinus(r.SURE, r.StdErr), r.SURE/float64(r.D), r.D, r.Sigma2)
	} else {
		gcv, stdErr := r.Estimated(risk.GCV)
		fmt.Fprintf(&s, "GCV %s, residual variance %.6g, for d = %d and unknown sigma2\n",
			digits.PlusMinus(gcv, stdErr), r.Sigma2DF, r.D)
	}
	if r.ALO > 0 {
		alo, stdErr := r.Estimated(risk.ALO)
		s.WriteString("leave-one-out " + digits.PlusMinus(alo, stdErr))
		if r.ALOProbesErr > 0 {
			fmt.Fprintf(&s, ", of which %.2g from the probes", r.ALOProbesErr)
		}
		s.WriteByte('\n')
	}
	if r.LossTerms == nil {
		fmt.Fprintf(&s, "residual %.6g, ", r.Residual)
	}
	fmt.Fprintf(&s, "divergence %.6g", r.Trace.Trace)
	if r.Trace.Exact {
		s.WriteString(", exact\n")
	} else {
		fmt.Fprintf(&s, " ± %s by %s, %d queries, seed %d\n", digits.Error(r.Trace.Error()), r.Trace.Estimator,
			r.Trace.Queries, r.Trace.Seed)
	}
	fmt.Fprintf(&s, "%d iterations, optimality %.1e", r.Iterations, r.Optimality)
	if !math.IsNaN(r.Convergence.Error) {
		fmt.Fprintf(&s, ", %s within %.1e of the exact estimate", r.bounded(), r.Convergence.Error)
	}
	if r.SpaceMargin > 0 && r.SpaceMargin < CloseMargin {
		fmt.Fprintf(&s, ", tangent space by a margin of %.2g", r.SpaceMargin)
	}
	fmt.Fprintf(&s, "; %s derivative; %.3g s\n", r.Derivative, r.Total.Seconds())
	s.WriteString("± leaves out: ")
	if e := t.StdErrOfTrace(r.Trace.Error()); e > 0 {
		fmt.Fprintf(&s, "the error of the trace, %.2g; ", e)
	}
	if r.Sigma2 > 0 {
		fmt.Fprintf(&s, "an error of sigma2, %.2g for each per cent; ", t.StdErrOfSigma2(0.01))
	}
	s.WriteString("weights chosen by looking at y")
	if r.Floored {
		s.WriteString("\nthe error bar is its floor: its unbiased estimate is not positive")
	}
	for _, w := range r.Warnings() {
		fmt.Fprintf(&s, "\nwarning: %s", w.Text)
	}
	return s.String()
}
