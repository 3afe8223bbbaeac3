// Package report prints what package study computes as tables for people.
package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"surepipe/internal/digits"
	"surepipe/pipeline"
	"surepipe/risk"
	"surepipe/study"
)

// Problem prints the problem and the noise, which all points share.
func Problem(r *study.Result, w io.Writer) {
	fmt.Fprintf(w, "problem\t%s\td = %d, p = %d\n", r.Problem, r.D, r.P)
	if r.LossName != "" {
		fmt.Fprintf(w, "loss\t%s\n", r.LossName)
	} else if r.Sigma2 == 0 {
		fmt.Fprintf(w, "sigma2\tunknown\n")
	} else if r.Sigma2Method == "" {
		fmt.Fprintf(w, "sigma2\t%.6g\n", r.Sigma2)
	} else {
		fmt.Fprintf(w, "sigma2\t%s\testimated by %s\n",
			digits.PlusMinus(r.Sigma2, r.Sigma2**r.Sigma2RelStdErr), r.Sigma2Method)
	}
	if r.NoiseRho != nil {
		fmt.Fprintf(w, "correlation\t%.3f ± %.2g\tof the noise of neighbours, as estimated\n", *r.NoiseRho,
			*r.NoiseRhoStdErr)
	}
}

// Choices prints as text what the solver chose based on the structure of the problem.
func Choices(r *study.Result, out io.Writer) error {
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

func weights(r *study.Result, w io.Writer) {
	about := ofStandardized(r, "")
	for name, value := range r.WeightsResult.Each {
		fmt.Fprintf(w, "%s\t%.6g\t%s\n", name, value, about)
	}
}

// ofStandardized is a text with the units of standardized columns.
func ofStandardized(r *study.Result, text string) string {
	if r.Standardize {
		text = strings.TrimSpace(text + " of standardized columns")
	}
	return text
}

func Result(r *study.Result, out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	Problem(r, w)
	weights(r, w)
	if b0 := r.InterceptResult.All(); b0 != nil {
		fmt.Fprintf(w, "intercept")
		for _, v := range b0 {
			fmt.Fprintf(w, "\t%.6g", v)
		}
		fmt.Fprintln(w)
	}
	effects(r, w)
	center(&r.CenterResult, w)
	criteria(r, w)
	losses(r, w)
	variance := ""
	if r.Sigma2DF != nil {
		variance = fmt.Sprintf("%.6g per residual degree of freedom", *r.Sigma2DF)
	}
	if r.Residual != nil {
		fmt.Fprintf(w, "residual\t%.6g\t%s\n", *r.Residual, variance)
	}
	loss(r, w)
	trace := "exact"
	if r.Trace.Estimator != "exact" {
		trace = fmt.Sprintf("%s, %d queries, seed %d", r.Trace.Estimator, r.Trace.Queries, r.Trace.Seed)
	}
	if r.DivergenceLow != nil {
		trace += fmt.Sprintf("; %.6g to %.6g are possible", *r.DivergenceLow, *r.DivergenceHigh)
	}
	fmt.Fprintf(w, "divergence\t%s\t%s\n", digits.PlusMinus(r.Divergence, r.DivergenceStdErr), trace)
	if r.Storage != nil {
		fmt.Fprintf(w, "storage\t%v\n", r.Storage)
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
		fmt.Fprintf(w, "solver\t%s\t%d iterations, %s, optimality %.1e%s\n",
			cmp.Or(r.Solver.Method, r.Solver.Name), r.Solver.Iterations, state, r.Solver.Optimality, within)
	}
	steps := ""
	if r.DerivativeSteps > 0 {
		steps = fmt.Sprintf("%d steps", r.DerivativeSteps)
	}
	if !r.DerivativeConverged {
		steps += unsettled(r)
	}
	fmt.Fprintf(w, "derivative\t%s\t%s\n", r.Derivative, steps)
	if r.SpaceMargin > 0 && r.SpaceMargin < pipeline.CloseMargin {
		fmt.Fprintf(w, "margin\t%.2g\t%s\n", r.SpaceMargin, marginText)
	}
	for _, a := range r.Audits {
		fmt.Fprintf(w, "audit\t%s\n", audited(a))
	}
	if r.Verification != nil {
		what, from := describe(r.Verification)
		fmt.Fprintf(w, "verified\t%s\t%s\n", what, from)
	}
	fmt.Fprintf(w, "time\t%.3g s\tsolve %.3g s, divergence %.3g s, on %s\n", r.Seconds.Total, r.Seconds.Solve,
		r.Seconds.Divergence, r.Device)
	return w.Flush()
}

func effects(r *study.Result, w io.Writer) {
	if r.Effects == nil {
		return
	}
	mean := ""
	if r.EffectsMean != nil {
		mean = fmt.Sprintf("%.6g", *r.EffectsMean)
	}
	fmt.Fprintf(w, "effects\t%s\t%s; unpenalized %s, %d degrees of freedom\n", mean, ofStandardized(r, "the constant"),
		strings.Join(r.Effects, ","), r.EffectsDF)
}

func center(r *study.CenterResult, w io.Writer) {
	if r.Center != nil {
		fmt.Fprintf(w, "center\t%s\tthe detector of the axis of rotation, counted from 0\n",
			digits.PlusMinus(*r.Center, *r.CenterStdErr))
	}
}

func criteria(r *study.Result, w io.Writer) {
	for rule := range risk.Rules() {
		value, stdErr := r.Value(rule.Name)
		text := ""
		if r.Text != nil {
			text = r.Text(rule)
		}
		// The coupled bootstrap has no GCV, and other losses have few criteria.
		optional := r.LossName != "" || r.Alpha > 0 || r.Correlated != nil || rule.Sigma2 || rule.Diagonal ||
			rule.Blocks || rule.Refits
		if !math.IsNaN(value) || !optional || rule.Diagonal && text != "" {
			fmt.Fprintf(w, "%s\t%s\t%s\n", rule.Label, study.PlusMinus(value, stdErr), text)
			if rule.Predicts && r.LossName == "" && r.ALOEstimates != "" {
				fmt.Fprintf(w, "\t\tit aims at %s%s\n", r.ALOEstimates, rule.Proviso)
			}
		}
		if rule.Sigma2 && r.SUREEstimates != "" {
			fmt.Fprintf(w, "\t\t%s is about %s\n", rule.Label, r.SUREEstimates)
		}
	}
}

func losses(r *study.Result, w io.Writer) {
	if r.Loss != nil {
		fmt.Fprintf(w, "true loss\t%.6g\t%.6g per coordinate\n", *r.Loss, *r.Loss/float64(r.Size()))
	}
	p := r.ProjectedResult
	if p.ProjectedSURE == nil {
		return
	}
	fmt.Fprintf(w, "image risk\t%s\tprojected SURE: the squared error of the image in what the operator "+
		"sees; ± is that of the probes alone\n", digits.PlusMinus(*p.ProjectedSURE, *p.ProjectedSUREProbeStdErr))
	if p.ProjectedLoss != nil {
		fmt.Fprintf(w, "true loss\t%.6g\tof the image, in what the operator sees\n", *p.ProjectedLoss)
	}
}

func loss(r *study.Result, w io.Writer) {
	if r.LossValue == nil {
		return
	}
	deviance := ""
	if r.Deviance != nil {
		deviance = fmt.Sprintf("deviance %.6g", *r.Deviance)
	}
	if r.Dispersion != nil {
		deviance += fmt.Sprintf(", dispersion %.3g", *r.Dispersion)
	}
	fmt.Fprintf(w, "loss\t%.6g\t%s\n", *r.LossValue, deviance)
}

func unsettled(r *study.Result) string {
	if r.Exec != "" {
		return " NOT SMOOTH"
	}
	return " NOT CONVERGED"
}

// describe is the row of a verification in a table: its result, and what was compared.
func describe(v *pipeline.Verification) (what, from string) {
	solvers := v.Solver
	if v.Other != "" {
		solvers += " and " + v.Other
	}
	from = fmt.Sprintf("%d comparisons by %s, %d probes", len(v.Comparisons), solvers, v.Probes)
	if v.Boundaries > 0 {
		from += fmt.Sprintf(", %d at a boundary", v.Boundaries)
	}
	if v.Unresolved > 0 {
		from += fmt.Sprintf(", %d too inaccurate", v.Unresolved)
	}
	from += fmt.Sprintf(", %.3g s", v.Seconds)
	switch {
	case v.Failure != "":
		return "NOT VERIFIED", v.Failure
	case !v.Passed():
		return fmt.Sprintf("NOT VERIFIED: %.3g error bars, %s", v.Largest, v.Check), from
	}
	return fmt.Sprintf("%.2g error bars, %s", v.Largest, v.Check), from
}
