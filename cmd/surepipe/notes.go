package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"surepipe/pipeline"
)

// The codes of the command's own notes. None is a reason to doubt the numbers or changes the exit
// status.
const (
	noteRelativeWeight = "relative-weight"   // SURE is only approximately unbiased
	noteNoIntercept    = "no-intercept"      // the mean of y suggests one
	noteConstant       = "constant-column"   // a column counts as part of the intercept
	noteErrorBar       = "error-bar-floor"   // the error bar is the least possible
	noteMuHatAlone     = "mu-hat-alone"      // the file of --out has no b
	noteClamped        = "pixels-clamped"    // the file of --out has other values than mu_hat
	noteIgnored        = "ignored-arrays"    // of the file of data
	noteRowsLeftOut    = "rows-left-out"     // rows with missing values
	noteGaps           = "missing-values"    // of a sequence
	noteUnequal        = "unequal-steps"     // of its index
	noteFilled         = "values-replaced"   // missing values replaced by means
	noteMerged         = "equal-names"       // texts that are equal numbers
	noteScales         = "unscaled-columns"  // columns of very different scales
	noteLog            = "earlier-samples"   // the samples in the --jsonl file are of another program
	noteBiasedSigma2   = "sigma2-biased"     // sigma2 is the residual variance of a biased fit
	noteThresholds     = "chosen-thresholds" // SURE is slightly too small
	noteCenter         = "center-found"      // the axis of rotation was found from y
	noteScaled         = "integers-scaled"   // y is an image of integers
	noteSingle         = "float32"           // X has 24 bits
	noteMissing        = "missing-genotypes" // which count as the mean of their column
	noteLossy          = "lossy-image"       // y was compressed
	noteNotRefined     = "not-refined"       // the minimizer is that of the grid
)

// ignoredText is the text of noteIgnored: the file and its arrays.
const ignoredText = "%s: arrays that nothing uses are ignored: %.200s"

// commandNote reports whether a code is that of a note about the command as a whole, which the lines
// of all samples have.
func commandNote(code string) bool {
	return code == noteRelativeWeight || code == noteNoIntercept || code == noteConstant || code == noteCenter
}

// note prints a note on standard error, and adds it to the warnings of the JSON.
func (f *estimatorFlags) note(cmd *cobra.Command, code, format string, args ...any) {
	n := pipeline.Warning{Code: code, Text: fmt.Sprintf(format, args...)}
	fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: %s\n", n.Text)
	f.notes = append(f.notes, n)
}

// zeroBarText says that the unbiased estimate of the error bar's square is not positive, so that
// the bar is its floor; estimated says whether sigma2 is an estimate.
func zeroBarText(estimated bool) string {
	bar := "the error bar"
	if estimated {
		bar += ", apart from the error of sigma2,"
	}
	return bar + " was estimated as 0, which happens where sigma2 is too large: it is replaced by its least possible value"
}

// doubtedText is the message for many results.
const doubtedText = "--verify disagrees with %d of %d %s: each has a warning that says why; lower --tol, or try another --solver or --derivative"

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
