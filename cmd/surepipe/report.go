package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"surepipe/pipeline"
	"surepipe/study"
)

// writeProblem prints the problem and the noise, which all points share.
func writeProblem(r *study.Result, w io.Writer) {
	fmt.Fprintf(w, "problem\t%s\td = %d, p = %d\n", r.Problem, r.D, r.P)
	if r.LossName != "" {
		fmt.Fprintf(w, "loss\t%s\n", r.LossName)
	} else if r.Sigma2 == 0 {
		fmt.Fprintf(w, "sigma2\tunknown\n")
	} else if r.Sigma2Method == "" {
		fmt.Fprintf(w, "sigma2\t%.6g\n", r.Sigma2)
	} else {
		fmt.Fprintf(w, "sigma2\t%.6g ± %.2g\testimated by %s\n", r.Sigma2, r.Sigma2**r.Sigma2RelStdErr,
			r.Sigma2Method)
	}
}

// writeChoices prints as text what the solver chose based on the structure of the problem.
func writeChoices(r *study.Result, out io.Writer) error {
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

// writeWeights prints the weights as rows of a table.
func writeWeights(r *study.Result, w io.Writer) {
	for _, h := range []struct {
		name  string
		value *study.Number
	}{{"lambda", r.Lambda}, {"lambda2", r.Lambda2}, {"gamma", r.Gamma}} {
		if h.value != nil {
			about := ""
			if r.Standardize {
				about = "of standardized columns"
			}
			fmt.Fprintf(w, "%s\t%.6g\t%s\n", h.name, float64(*h.value), about)
		}
	}
}

// writeTable prints the result as text.
func writeResultTable(r *study.Result, out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	writeProblem(r, w)
	writeWeights(r, w)
	if r.Intercept != nil {
		fmt.Fprintf(w, "intercept\t%.6g\n", *r.Intercept)
	}
	writeEffects(&r.EffectsResult, w)
	writeCenter(&r.CenterResult, w)
	writeCriteria(r, w)
	writeLosses(r, w)
	variance := ""
	if r.Sigma2DF != nil {
		variance = fmt.Sprintf("%.6g per residual degree of freedom", *r.Sigma2DF)
	}
	if r.Residual != nil {
		fmt.Fprintf(w, "residual\t%.6g\t%s\n", *r.Residual, variance)
	}
	writeLoss(r, w)
	trace := "exact"
	if r.Trace.Estimator != "exact" {
		trace = fmt.Sprintf("%s, %d queries, seed %d", r.Trace.Estimator, r.Trace.Queries, r.Trace.Seed)
	}
	if r.DivergenceLow != nil {
		trace += fmt.Sprintf("; %.6g to %.6g are possible", *r.DivergenceLow, *r.DivergenceHigh)
	}
	fmt.Fprintf(w, "divergence\t%.6g ± %.2g\t%s\n", r.Divergence, r.DivergenceStdErr, trace)
	if r.Storage != nil {
		fmt.Fprintf(w, "storage\t%s\n", storageText(r.Storage))
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
		steps += unsettledMark(r)
	}
	fmt.Fprintf(w, "derivative\t%s\t%s\n", r.Derivative, steps)
	if r.SpaceMargin > 0 && r.SpaceMargin < pipeline.CloseMargin {
		fmt.Fprintf(w, "margin\t%.2g\t%s\n", r.SpaceMargin, marginText)
	}
	if r.Verification != nil {
		what, from := describe(r.Verification)
		fmt.Fprintf(w, "verified\t%s\t%s\n", what, from)
	}
	fmt.Fprintf(w, "time\t%.3g s\tsolve %.3g s, divergence %.3g s, on %s\n", r.Seconds.Total, r.Seconds.Solve,
		r.Seconds.Divergence, r.Device)
	return w.Flush()
}
