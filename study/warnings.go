package study

import (
	"math"
	"slices"

	"surepipe/input"
	"surepipe/pipeline"
	"surepipe/risk"
	"surepipe/risk/warning"
)

// Those of package input stand here too, which every package below refuses bad input with.
type (
	Error  = input.Error
	Option = input.Option
)

var (
	Errorf  = input.Errorf
	Bad     = input.Bad
	Because = input.Because
	Text    = input.Text
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
func NewNote(k *warning.Kind, format string, args ...any) Note {
	return Note{k.Code, Errorf(format, args...)}
}

// Add adds one.
func (n *Notes) Add(k *warning.Kind, format string, args ...any) {
	*n = append(*n, NewNote(k, format, args...))
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
		return w.Is(warning.Sigma2TooLarge) && !Sigma2TooLarge(r.Terms(), r.Trace.Error(), sigma2RelStdErr)
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
