package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"surepipe/pipeline"
)

// The codes of what the command has to say beside the warnings of a result. None is a
// reason to doubt the numbers, nor changes the exit status.
const (
	noteRelativeWeight = "relative-weight" // SURE is only approximately unbiased
	noteNoIntercept    = "no-intercept"    // y asks for one
	noteConstant       = "constant-column" // a column counts as part of the intercept
	noteErrorBar       = "error-bar-floor" // the error bar is its least value
	noteMuHatAlone     = "mu-hat-alone"    // the file of --out has no b
	noteClamped        = "pixels-clamped"  // the file of --out has other values than mu_hat
)

// note prints a note on standard error, and keeps it for the warnings of the JSON.
func (f *estimatorFlags) note(cmd *cobra.Command, code, format string, args ...any) {
	n := pipeline.Warning{Code: code, Text: fmt.Sprintf(format, args...)}
	fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: %s\n", n.Text)
	f.notes = append(f.notes, n)
}

// zeroBarText says that the unbiased estimate of the error bar's square is not positive, and the bar
// is its floor; estimated tells whether sigma2 is an estimate.
func zeroBarText(estimated bool) string {
	bar := "the error bar"
	if estimated {
		bar += ", but for the error of sigma2 itself,"
	}
	return bar + " came out as 0, which happens where sigma2 is too large: the least that it can be stands in its place"
}

// doubtedText is for many results.
const doubtedText = "surepipe: %d of %d %s do not stand the check of --verify: each has a warning that says why; lower --tol, or try another --solver or --derivative\n"

// describe is the row of a verification in a table: what, and from what.
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
		from += fmt.Sprintf(", %d too inexact", v.Unresolved)
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
