package study

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
	"surepipe/risk/warning"
	"surepipe/vjp"
)

// Result is the JSON object of one sample. Its keys are a contract with the scripts that read them:
// keys may be added, but none may change its meaning.
type Result struct {
	Sample *int `json:"sample,omitempty"`
	// Response is the name of y where it is one of several responses.
	Response string `json:"response,omitempty"`
	Problem  string `json:"problem"`
	D        int    `json:"d"`
	P        int    `json:"p"`
	// Entries is the number of entries of y where a row has several, absent elsewhere.
	Entries int `json:"entries,omitempty"`
	Sigma2Result
	WeightsResult
	// Standardize says that the penalty is on the coefficients of standardized columns.
	Standardize bool `json:"standardize,omitempty"`
	InterceptResult
	EffectsResult
	CenterResult
	SURE              *float64 `json:"sure,omitempty"`
	SUREStdErr        *float64 `json:"sure_stderr,omitempty"`
	SUREPerCoordinate *float64 `json:"sure_per_coordinate,omitempty"`
	CriteriaResult
	TargetsResult
	LossResult
	ExecResult
	CoefficientsResult
	ProjectedResult
	StorageResult
	// Correlated has the terms of SURE for correlated noise, absent for white noise.
	Correlated *risk.Correlated `json:"correlated,omitempty"`
	// Residual is ||y - mu_hat||^2, absent where the loss is not squared.
	Residual         *float64 `json:"residual,omitempty"`
	Divergence       float64  `json:"divergence"`
	DivergenceStdErr float64  `json:"divergence_stderr"`
	// DivergenceLow and DivergenceHigh are the range of the divergence over the decisions that are
	// within rounding errors or the tolerance; absent where there are no such decisions.
	DivergenceLow  *float64 `json:"divergence_low,omitempty"`
	DivergenceHigh *float64 `json:"divergence_high,omitempty"`
	// RankMargin is the factor by which the smallest direction of X that counts exceeds rounding
	// errors; absent where no rank was decided.
	RankMargin float64 `json:"rank_margin,omitempty"`
	// SpaceMargin is the distance of the solution to the nearest other support, rank or clustering,
	// over its error; absent where it is not known.
	SpaceMargin float64 `json:"space_margin,omitempty"`
	// Loss is ||mu_hat - mu||^2 where mu is known.
	Loss *float64 `json:"loss,omitempty"`
	// SignalLoss is the squared error of the signal where --truth gives the true one.
	SignalLoss *float64     `json:"signal_loss,omitempty"`
	Solver     SolverResult `json:"solver"`
	Derivative string       `json:"derivative"`
	// DerivativeConverged says whether every probe of the implicit derivative
	// reached its tolerance, in at most DerivativeSteps steps.
	DerivativeConverged bool          `json:"derivative_converged"`
	DerivativeSteps     int           `json:"derivative_steps,omitempty"`
	JacobianFro2        float64       `json:"jacobian_fro2"`
	Trace               TraceResult   `json:"trace"`
	Seconds             SecondsResult `json:"seconds"`
	// Choices is what the solver chose based on the structure of the problem; absent where it had
	// no choice.
	Choices      []Choice               `json:"choices,omitempty"`
	Verification *pipeline.Verification `json:"verification,omitempty"`
	// Audits compare what a criterion says with fits without some observations, with --audit.
	Audits []*pipeline.Audit `json:"audit,omitempty"`
	// Warnings are those printed on standard error: the reasons to doubt the numbers, and the
	// command's notes; absent where there are none.
	Warnings []pipeline.Warning `json:"warnings,omitempty"`
	// Untrusted says that the numbers are not to be trusted: the exit status is 3.
	Untrusted bool   `json:"untrusted,omitempty"`
	Device    string `json:"device"`
	Version   string `json:"version"`
	// Text says beside a criterion what its value is, or why there is none.
	Text func(risk.Rule) string `json:"-"`
}

type SolverResult struct {
	Name       string  `json:"name"`
	Method     string  `json:"method,omitempty"` // that the solver tried first, and that converged
	Iterations int     `json:"iterations"`
	Converged  bool    `json:"converged"`
	Optimality float64 `json:"optimality"`
	// SUREChange is there for a point of a sweep that is accurate enough to be compared, and not certified: the
	// estimate of how much SURE is still to change.
	SUREChange float64 `json:"sure_change,omitempty"`
	// MuHatError bounds the distance of mu_hat from the exact estimate; absent where no bound is
	// known. With weights w of the observations, reported by MuHatErrorWeighted, it bounds that of
	// sqrt(w) mu_hat.
	MuHatError         *float64 `json:"mu_hat_error,omitempty"`
	MuHatErrorWeighted bool     `json:"mu_hat_error_weighted,omitempty"`
	// DevianceError takes the place of MuHatError where the loss is not squared: it bounds the root
	// of twice the loss's Bregman distance of mu_hat from the exact one.
	DevianceError *float64 `json:"deviance_error,omitempty"`
}

type Choice = vjp.Choice

type TraceResult struct {
	Estimator string `json:"estimator"`
	Queries   int    `json:"queries"`
	Seed      uint64 `json:"seed"`
}

type SecondsResult struct {
	Solve      float64 `json:"solve"`
	Divergence float64 `json:"divergence"`
	Total      float64 `json:"total"`
}

// Size is the number of entries of y, which degrees of freedom and sums over y are to be compared with.
func (r *Result) Size() int { return max(r.D, r.Entries) }

// Fill sets the fields that come from a sample's risk. Without the estimate b, which the points of
// a sweep do not have, the intercept stays unset.
func (r *Result) Fill(p *problems.Problem, risk pipeline.Risk, mu []float64) {
	if risk.HasB() {
		r.InterceptResult = InterceptOf(p, risk)
		r.fitEffects(p, risk)
	}
	bar := risk.StdErr
	if r.Sigma2RelStdErr != nil {
		bar = math.Hypot(bar, risk.Terms().StdErrOfSigma2(*r.Sigma2RelStdErr))
	}
	if r.Correlated = risk.Correlated; r.Correlated != nil {
		bar = math.Hypot(bar, risk.Terms().StdErrOfTrace(math.Hypot(r.Correlated.ByRho, r.Correlated.TraceErr)))
	}
	r.SURE, r.SUREStdErr, r.SUREPerCoordinate = Defined(risk.SURE), Defined(bar), Defined(risk.SURE/float64(r.Size()))
	r.CriteriaResult, r.Text = criteriaOf(risk), textOf(risk.Fitted())
	r.Residual, r.LossResult = Defined(risk.Residual), lossOf(risk)
	r.Divergence, r.DivergenceStdErr = risk.Trace.Trace, risk.Trace.Error()
	r.DivergenceLow, r.DivergenceHigh = nil, nil
	if risk.DivergenceLow < risk.DivergenceHigh {
		r.DivergenceLow, r.DivergenceHigh = Defined(risk.DivergenceLow), Defined(risk.DivergenceHigh)
	}
	r.RankMargin, r.SpaceMargin = risk.RankMargin, risk.SpaceMargin
	r.JacobianFro2 = risk.Trace.Frobenius2
	r.Solver.Iterations, r.Solver.Method = risk.Iterations, risk.Method
	r.Solver.Converged = risk.Converged
	r.Solver.Optimality, r.Solver.SUREChange = risk.Optimality, risk.Change
	r.Solver.MuHatError, r.Solver.MuHatErrorWeighted = nil, false
	r.Solver.DevianceError = nil
	if bound := risk.Convergence.Error; !math.IsNaN(bound) && risk.LossTerms != nil {
		r.Solver.DevianceError = &bound
	} else if !math.IsNaN(bound) {
		r.Solver.MuHatError, r.Solver.MuHatErrorWeighted = &bound, risk.MeanWeight > 0
	}
	r.Derivative = risk.Derivative
	r.DerivativeConverged, r.DerivativeSteps = risk.Unsolved == 0 && !risk.Implausible && warning.Trusted(risk.Doubts),
		risk.InnerSteps
	r.Choices = risk.Choices
	r.Verification, r.Untrusted = risk.Verification, !risk.Trusted()
	if risk.Floored {
		r.Warnings = append(r.Warnings, warning.ErrorBarFloor.With("%s",
			ZeroBarText(r.Sigma2RelStdErr != nil)))
	}
	r.Warnings = append(r.Warnings, WarningsOf(risk, r.Sigma2RelStdErr)...)
	r.Trace = TraceResult{risk.Trace.Estimator, risk.Trace.Queries, risk.Trace.Seed}
	r.Seconds = SecondsResult{risk.Solve.Seconds(), risk.Divergence.Seconds(), risk.Total.Seconds()}
	if mu != nil {
		r.Loss = new(math.Pow(floats.Distance(risk.MuHat, mu, 2), 2))
	}
}

// InterceptResult is the fitted intercept, with --intercept.
type InterceptResult struct {
	Intercept *float64 `json:"intercept,omitempty"`
	// Intercepts take its place where y has several columns: one for each, of mean 0.
	Intercepts []float64 `json:"intercepts,omitempty"`
}

// All are the intercepts, none if the problem has none.
func (r InterceptResult) All() []float64 {
	if r.Intercept != nil {
		return []float64{*r.Intercept}
	}
	return r.Intercepts
}

// InterceptOf is the fitted intercept.
func InterceptOf(p *problems.Problem, risk pipeline.Risk) InterceptResult {
	b0 := p.Intercepts(risk.MuHat, risk.B)
	if len(b0) == 1 {
		return InterceptResult{Intercept: &b0[0]}
	}
	return InterceptResult{Intercepts: b0}
}

// WriteLine writes v as one line of JSON in a single call, so that neither a reader nor the file of
// a killed process sees half a line.
func WriteLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// Version is the module's version where the build recorded one.
func Version() string { return version() }

var version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+dirty"
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	if revision == "" {
		return "devel"
	}
	return fmt.Sprintf("devel-%s%s", revision, modified)
})
