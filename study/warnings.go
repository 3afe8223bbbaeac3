package study

import (
	"fmt"
	"math"
	"slices"

	"surepipe/input"
	"surepipe/internal/noise"
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

// UnevenNotes says that noise is stronger in some parts of y than in others.
func UnevenNotes(u noise.Uneven) (all Notes) {
	if u.By != "" {
		all.Add(warning.UnevenNoise, "the variance of the noise is %.3g %s: sigma2, SURE, GCV and error bars take it "+
			"for the same everywhere; %s", u.Least, unevenParts(u), unevenRemedies[u.By])
	}
	return all
}

// Sigma2Notes says that sigma2, of a relative standard error that is 0 where it was given, is not the variance of the
// noise, which is that of something.
func Sigma2Notes(sigma2, relStdErr float64, r noise.Range, of string) (all Notes) {
	const text = "the variance %s is %.4g, and sigma2 is %.4g: sigma2 is too %s, or %s, and SURE, its minimum and " +
		"error bars are wrong; check the units of sigma2, and that it is no standard deviation, and compare --sigma2 " +
		"auto"
	switch {
	case !(sigma2 > 0):
	case r.TooSmall(sigma2, relStdErr):
		all.Add(warning.Sigma2Contradicted, text, of, r.Least, sigma2, "small", "signal looks like noise there")
	case r.TooLarge(sigma2, relStdErr):
		all.Add(warning.Sigma2Contradicted, text, of, r.Most, sigma2, "large", "observations share noise")
	}
	return all
}

const largeSigma2 = "take a smaller sigma2 where it is known: signal of no low rank adds to an estimate"

// unevenRemedies are what to do, by the parts that differ.
var unevenRemedies = map[string]string{
	noise.ByBrightness: "of counts take 2 sqrt(y + 3/8), whose noise has variance 1, before; start from raw values " +
		"that are not clipped or rescaled",
	noise.ByPlace:   "divide y by the standard deviations of its noise, or take the parts alone",
	noise.ByRow:     "divide rows by the standard deviations of their noise, or " + largeSigma2,
	noise.ByColumn:  "divide columns by the standard deviations of their noise, or " + largeSigma2,
	noise.ByChannel: "denoise each channel alone, or divide each by the standard deviation of its noise",
}

func unevenParts(u noise.Uneven) string {
	switch u.By {
	case noise.ByBrightness:
		return fmt.Sprintf("where y is about %.3g, and %.3g where it is about %.3g", u.LeastAt, u.Greatest,
			u.GreatestAt)
	case noise.ByChannel, noise.ByRow, noise.ByColumn:
		return fmt.Sprintf("in %s %g, counted from 0, and %.3g in %s %g", u.By, u.LeastAt, u.Greatest, u.By,
			u.GreatestAt)
	}
	return fmt.Sprintf("in one part of y, and %.3g in another", u.Greatest)
}
