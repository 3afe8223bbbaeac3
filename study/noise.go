package study

import (
	"fmt"

	"surepipe/internal/noise"
	"surepipe/risk/warning"
)

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
	const text = "the variance %s is %.4g, and sigma2 is %.4g: sigma2 is too %s, or %s, and SURE, its minimum and error " +
		"bars are wrong; check the units of sigma2, and that it is no standard deviation, and compare --sigma2 auto"
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
