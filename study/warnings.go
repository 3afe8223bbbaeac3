package study

import (
	"math"
	"slices"

	"surepipe/pipeline"
	"surepipe/risk"
)

// NoteNoSigma2 is the code of a note: a loss other than the squared one has no use for sigma2.
const NoteNoSigma2 = "sigma2-unused"

// The codes of notes on data, estimators and files. None is a reason to doubt the numbers or changes the exit
// status.
const (
	NoteRelativeWeight = "relative-weight"   // SURE is only approximately unbiased
	NoteNoIntercept    = "no-intercept"      // the mean of y suggests one
	NoteConstant       = "constant-column"   // a column counts as part of the intercept
	NoteErrorBar       = "error-bar-floor"   // the error bar is the least possible
	NoteMuHatAlone     = "mu-hat-alone"      // the file of the result has no b
	NoteClamped        = "pixels-clamped"    // the file of the result has other values than mu_hat
	NoteIgnored        = "ignored-arrays"    // of the file of data
	NoteRowsLeftOut    = "rows-left-out"     // rows with missing values
	NoteGaps           = "missing-values"    // of a sequence
	NoteUnequal        = "unequal-steps"     // of its index
	NoteFilled         = "values-replaced"   // missing values replaced by means
	NoteLevels         = "levels"            // which level of a response of texts is 1
	NoteMerged         = "equal-names"       // texts that are equal numbers
	NoteScales         = "unscaled-columns"  // columns of very different scales
	NoteLog            = "earlier-samples"   // the samples in the file of lines are of another program
	NoteBiasedSigma2   = "sigma2-biased"     // sigma2 is the residual variance of a biased fit
	NoteThresholds     = "chosen-thresholds" // SURE is slightly too small
	NoteCenter         = "center-found"      // the axis of rotation was found from y
	NoteScaled         = "integers-scaled"   // y is an image of integers
	NoteSingle         = "float32"           // X has 24 bits
	NoteMissing        = "missing-genotypes" // which count as the mean of their column
	NoteLossy          = "lossy-image"       // y was compressed
	NoteNotRefined     = "not-refined"       // the minimizer is that of the grid
)

// The codes of notes on fits, on the projected risk and on sweeps.
const (
	NoteFitNotConverged = "fit-not-converged"
	NoteIgnoredColumns  = "ignored-columns"
	NoteProjected       = "projected-risk" // it favours small weights
	NoteIllPosed        = "ill-posed"      // there is none
	NoteUnsure          = "unsure-points"  // points compete by their values and errors together
	NoteEdge            = "edge-of-grid"   // the minimum may lie beyond the grid
)

// Note is something to know about data, an estimator or a run, with its code. Options in its text have the names of a
// command's flags ([Text]).
type Note struct {
	Code string
	Text error
}

// Notes are what is to be known, in the order in which it is told.
type Notes []Note

// NewNote is a note with the text of [Errorf].
func NewNote(code, format string, args ...any) Note { return Note{code, Errorf(format, args...)} }

// Add adds one.
func (n *Notes) Add(code, format string, args ...any) {
	*n = append(*n, NewNote(code, format, args...))
}

// commandNote reports whether a code is that of a note about the command as a whole, which the lines
// of all samples have.
func commandNote(code string) bool {
	return code == NoteRelativeWeight || code == NoteNoIntercept || code == NoteConstant || code == NoteCenter
}

// ZeroBarText says that the unbiased estimate of the error bar's square is not positive, so that
// the bar is its floor; estimated says whether sigma2 is an estimate.
func ZeroBarText(estimated bool) string {
	bar := "the error bar"
	if estimated {
		bar += ", apart from the error of sigma2,"
	}
	return bar + " was estimated as 0, which happens where sigma2 is too large: it is replaced by its least " +
		"possible value"
}

// WarningsOf are those of the result, without the one about sigma2 where an estimated sigma2's own
// error explains a SURE below 0.
func WarningsOf(r pipeline.Risk, sigma2RelStdErr *float64) []pipeline.Warning {
	return slices.DeleteFunc(r.Warnings(), func(w pipeline.Warning) bool {
		return w.Code == pipeline.Sigma2TooLarge && !Sigma2TooLarge(r.Terms(), r.Trace.Error(), sigma2RelStdErr)
	})
}

// Sigma2TooLarge reports whether SURE is so far below 0 that sigma2 must be wrong, by all errors
// that are known.
func Sigma2TooLarge(t risk.Terms, divergenceErr float64, sigma2RelStdErr *float64) bool {
	bar := math.Hypot(t.StdErr(), t.StdErrOfTrace(divergenceErr))
	if sigma2RelStdErr != nil {
		bar = math.Hypot(bar, t.StdErrOfSigma2(*sigma2RelStdErr))
	}
	return t.TooLarge(bar)
}
