package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
)

// number is a float64 that may be infinite, as a regularization weight may be: in JSON infinities
// are the strings "inf" and "-inf".
type number float64

func (x number) MarshalJSON() ([]byte, error) {
	switch v := float64(x); {
	case math.IsInf(v, 1):
		return []byte(`"inf"`), nil
	case math.IsInf(v, -1):
		return []byte(`"-inf"`), nil
	default:
		return json.Marshal(v)
	}
}

// result is the JSON object of one sample. Its keys are a contract with the scripts that read them:
// keys may be added, but none may change its meaning.
type result struct {
	Sample  *int   `json:"sample,omitempty"`
	Problem string `json:"problem"`
	D       int    `json:"d"`
	P       int    `json:"p"`
	// Sigma2 is absent where it is not known, and so are SURE and its error.
	Sigma2 float64 `json:"sigma2,omitempty"`
	// Sigma2Method is how sigma2 was estimated, and Sigma2RelStdErr its standard error
	// over its value; absent where it was given.
	Sigma2Method    string   `json:"sigma2_method,omitempty"`
	Sigma2RelStdErr *float64 `json:"sigma2_rel_stderr,omitempty"`
	Lambda          *number  `json:"lambda,omitempty"`
	Lambda2         *number  `json:"lambda2,omitempty"`
	Gamma           *number  `json:"gamma,omitempty"`
	// Standardize says that the penalty is on the coefficients of standardized columns.
	Standardize bool `json:"standardize,omitempty"`
	// Intercept is the fitted intercept, with --intercept.
	Intercept *float64 `json:"intercept,omitempty"`
	effectsResult
	centerResult
	SURE              *float64 `json:"sure,omitempty"`
	SUREStdErr        *float64 `json:"sure_stderr,omitempty"`
	SUREPerCoordinate *float64 `json:"sure_per_coordinate,omitempty"`
	criteriaResult
	targetsResult
	lossResult
	execResult
	coefficientsResult
	projectedResult
	storageResult
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
	Solver     solverResult `json:"solver"`
	Derivative string       `json:"derivative"`
	// DerivativeConverged says whether every probe of the implicit derivative
	// reached its tolerance, in at most DerivativeSteps steps.
	DerivativeConverged bool          `json:"derivative_converged"`
	DerivativeSteps     int           `json:"derivative_steps,omitempty"`
	JacobianFro2        float64       `json:"jacobian_fro2"`
	Trace               traceResult   `json:"trace"`
	Seconds             secondsResult `json:"seconds"`
	// Choices is what the solver chose based on the structure of the problem; absent where it had
	// no choice.
	Choices []choice `json:"choices,omitempty"`
	// Verification is the result of --verify.
	Verification *pipeline.Verification `json:"verification,omitempty"`
	// Warnings are those printed on standard error: the reasons to doubt the numbers, and the
	// command's notes; absent where there are none.
	Warnings []pipeline.Warning `json:"warnings,omitempty"`
	Device   string             `json:"device"`
	Version  string             `json:"version"`
	// texts say beside each criterion what its value is, or why there is none.
	texts map[risk.Criterion]string
}

type solverResult struct {
	Name       string  `json:"name"`
	Method     string  `json:"method,omitempty"` // that the solver tried first, and that converged
	Iterations int     `json:"iterations"`
	Converged  bool    `json:"converged"`
	Optimality float64 `json:"optimality"`
	// MuHatError bounds the distance of mu_hat from the exact estimate; absent where no bound is
	// known. With weights w of the observations, reported by MuHatErrorWeighted, it bounds that of
	// sqrt(w) mu_hat.
	MuHatError         *float64 `json:"mu_hat_error,omitempty"`
	MuHatErrorWeighted bool     `json:"mu_hat_error_weighted,omitempty"`
	// DevianceError takes the place of MuHatError where the loss is not squared: it bounds the root
	// of twice the loss's Bregman distance of mu_hat from the exact one.
	DevianceError *float64 `json:"deviance_error,omitempty"`
}

// choice is a vjp.Choice: what was chosen for a part of the computation, and why.
type choice struct {
	Part   string `json:"part"`
	Chosen string `json:"chosen"`
	Reason string `json:"reason"`
}

type traceResult struct {
	Estimator string `json:"estimator"`
	Queries   int    `json:"queries"`
	Seed      uint64 `json:"seed"`
}

type secondsResult struct {
	Solve      float64 `json:"solve"`
	Divergence float64 `json:"divergence"`
	Total      float64 `json:"total"`
}

// fill sets the fields that come from a sample's risk. Without the estimate b, which the points of
// a sweep do not have, the intercept stays unset.
func (r *result) fill(p *problems.Problem, risk pipeline.Risk, mu []float64) {
	if risk.HasB() {
		r.Intercept = interceptOf(p, risk)
		r.fitEffects(p, risk)
	}
	bar := risk.StdErr
	if r.Sigma2RelStdErr != nil {
		bar = math.Hypot(bar, risk.Terms().StdErrOfSigma2(*r.Sigma2RelStdErr))
	}
	r.SURE, r.SUREStdErr, r.SUREPerCoordinate = defined(risk.SURE), defined(bar), defined(risk.SURE/float64(r.D))
	r.criteriaResult, r.texts = criteriaOf(risk), textsOf(risk)
	r.Residual, r.lossResult = defined(risk.Residual), lossOf(risk)
	r.Divergence, r.DivergenceStdErr = risk.Trace.Trace, risk.Trace.Error()
	r.DivergenceLow, r.DivergenceHigh = nil, nil
	if risk.DivergenceLow < risk.DivergenceHigh {
		r.DivergenceLow, r.DivergenceHigh = &risk.DivergenceLow, &risk.DivergenceHigh
	}
	r.RankMargin, r.SpaceMargin = risk.RankMargin, risk.SpaceMargin
	r.JacobianFro2 = risk.Trace.Frobenius2
	r.Solver.Iterations, r.Solver.Method = risk.Iterations, risk.Method
	r.Solver.Converged = risk.Converged
	r.Solver.Optimality = risk.Optimality
	r.Solver.MuHatError, r.Solver.MuHatErrorWeighted = nil, false
	r.Solver.DevianceError = nil
	if bound := risk.Convergence.Error; !math.IsNaN(bound) && risk.LossTerms != nil {
		r.Solver.DevianceError = &bound
	} else if !math.IsNaN(bound) {
		r.Solver.MuHatError, r.Solver.MuHatErrorWeighted = &bound, risk.MeanWeight > 0
	}
	r.Derivative = risk.Derivative
	r.DerivativeConverged, r.DerivativeSteps = risk.Unsolved == 0 && !risk.Implausible && len(risk.Doubts) == 0, risk.InnerSteps
	r.Choices = nil
	for _, c := range risk.Choices {
		r.Choices = append(r.Choices, choice(c))
	}
	r.Verification = risk.Verification
	if risk.Floored {
		r.Warnings = append(r.Warnings, pipeline.Warning{Code: noteErrorBar, Text: zeroBarText(r.Sigma2RelStdErr != nil)})
	}
	r.Warnings = append(r.Warnings, warningsOf(risk, r.Sigma2RelStdErr)...)
	r.Trace = traceResult{risk.Trace.Estimator, risk.Trace.Queries, risk.Trace.Seed}
	r.Seconds = secondsResult{risk.Solve.Seconds(), risk.Divergence.Seconds(), risk.Total.Seconds()}
	if mu != nil {
		loss := squaredDistance(risk.MuHat, mu)
		r.Loss = &loss
	}
}

// interceptOf is the fitted intercept, nil if the problem has none.
func interceptOf(p *problems.Problem, risk pipeline.Risk) *float64 {
	b0, ok := p.Intercept(risk.MuHat, risk.B)
	if !ok {
		return nil
	}
	return &b0
}

// squaredDistance is ||a - b||^2.
func squaredDistance(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += (v - b[i]) * (v - b[i])
	}
	return sum
}

// writeLine writes v as one line of JSON in a single call, so that neither a reader nor the file of
// a killed process sees half a line.
func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// writeProblem prints the problem and the noise, which all points share.
func (r *result) writeProblem(w io.Writer) {
	fmt.Fprintf(w, "problem\t%s\td = %d, p = %d\n", r.Problem, r.D, r.P)
	if r.LossName != "" {
		fmt.Fprintf(w, "loss\t%s\n", r.LossName)
	} else if r.Sigma2 == 0 {
		fmt.Fprintf(w, "sigma2\tunknown\n")
	} else if r.Sigma2Method == "" {
		fmt.Fprintf(w, "sigma2\t%.6g\n", r.Sigma2)
	} else {
		fmt.Fprintf(w, "sigma2\t%.6g ± %.2g\testimated by %s\n", r.Sigma2, r.Sigma2**r.Sigma2RelStdErr, r.Sigma2Method)
	}
}

// writeChoices prints as text what the solver chose based on the structure of the problem.
func (r *result) writeChoices(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nchosen by structure")
	for _, c := range r.Choices {
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.Part, c.Chosen, c.Reason)
	}
	if len(r.Choices) == 0 {
		fmt.Fprintln(w, "nothing: the solver has no alternatives for this problem")
	}
	if r.SpaceMargin > 0 {
		fmt.Fprintf(w, "margin\t%.2g\t%s\n", r.SpaceMargin, marginText)
	}
	return w.Flush()
}

// marginText explains the margin of the tangent space.
const marginText = "distance to the nearest other support, rank or clustering, over the error of the solution"

// writeTable prints the result as text.
func (r *result) writeTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	r.writeProblem(w)
	for _, h := range []struct {
		name  string
		value *number
	}{{"lambda", r.Lambda}, {"lambda2", r.Lambda2}, {"gamma", r.Gamma}} {
		if h.value != nil {
			about := ""
			if r.Standardize {
				about = "of standardized columns"
			}
			fmt.Fprintf(w, "%s\t%.6g\t%s\n", h.name, float64(*h.value), about)
		}
	}
	if r.Intercept != nil {
		fmt.Fprintf(w, "intercept\t%.6g\n", *r.Intercept)
	}
	r.writeEffects(w)
	r.writeCenter(w)
	r.writeCriteria(w)
	r.writeLosses(w)
	variance := ""
	if r.Sigma2DF != nil {
		variance = fmt.Sprintf("%.6g per residual degree of freedom", *r.Sigma2DF)
	}
	if r.Residual != nil {
		fmt.Fprintf(w, "residual\t%.6g\t%s\n", *r.Residual, variance)
	}
	r.writeLoss(w)
	trace := "exact"
	if r.Trace.Estimator != "exact" {
		trace = fmt.Sprintf("%s, %d queries, seed %d", r.Trace.Estimator, r.Trace.Queries, r.Trace.Seed)
	}
	if r.DivergenceLow != nil {
		trace += fmt.Sprintf("; %.6g to %.6g are possible", *r.DivergenceLow, *r.DivergenceHigh)
	}
	fmt.Fprintf(w, "divergence\t%.6g ± %.2g\t%s\n", r.Divergence, r.DivergenceStdErr, trace)
	if r.Storage != nil {
		fmt.Fprintf(w, "storage\t%s\n", r.Storage.text())
	}
	state := "converged"
	if !r.Solver.Converged {
		state = "NOT CONVERGED"
	}
	within := ""
	if r.Solver.MuHatError != nil {
		what := "mu_hat"
		if r.Solver.MuHatErrorWeighted {
			what = "sqrt(w) mu_hat"
		}
		within = fmt.Sprintf(", %s within %.1e", what, *r.Solver.MuHatError)
	}
	if r.Solver.DevianceError != nil {
		within = fmt.Sprintf(", root of the deviance within %.1e", *r.Solver.DevianceError)
	}
	if r.Exec != "" {
		fmt.Fprintf(w, "command\t\t%s\n", r.Exec)
	} else {
		fmt.Fprintf(w, "solver\t%s\t%d iterations, %s, optimality %.1e%s\n", cmp.Or(r.Solver.Method, r.Solver.Name), r.Solver.Iterations, state, r.Solver.Optimality, within)
	}
	steps := ""
	if r.DerivativeSteps > 0 {
		steps = fmt.Sprintf("%d steps", r.DerivativeSteps)
	}
	if !r.DerivativeConverged {
		steps += r.unsettled()
	}
	fmt.Fprintf(w, "derivative\t%s\t%s\n", r.Derivative, steps)
	if r.SpaceMargin > 0 && r.SpaceMargin < pipeline.CloseMargin {
		fmt.Fprintf(w, "margin\t%.2g\t%s\n", r.SpaceMargin, marginText)
	}
	if r.Verification != nil {
		what, from := describe(r.Verification)
		fmt.Fprintf(w, "verified\t%s\t%s\n", what, from)
	}
	fmt.Fprintf(w, "time\t%.3g s\tsolve %.3g s, divergence %.3g s, on %s\n", r.Seconds.Total, r.Seconds.Solve, r.Seconds.Divergence, r.Device)
	return w.Flush()
}
