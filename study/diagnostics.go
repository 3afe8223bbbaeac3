package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/internal/noise"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
	"surepipe/risk/warning"
)

// Diagnostics are what residuals tell of a fit, for its warnings and the errors of its coefficients: [Diagnose].
type Diagnostics struct {
	Problem *problems.Problem
	Data    problems.Data
	Risk    pipeline.Risk
	// full is the regression on all columns, and left what a ridge regression leaves of a sinogram: each is computed
	// once.
	full func() (fullModel, error)
	left func() (noise.Left, bool)
}

type fullModel struct {
	*problems.FullModel
	problems.Doubts
}

// Diagnose returns the diagnostics of a fit to data. It costs nothing before they are asked for. Once the context is
// done a ridge regression of a sinogram, which takes time, ends and tells nothing.
func Diagnose(ctx context.Context, p *problems.Problem, data problems.Data, risk pipeline.Risk) *Diagnostics {
	full := sync.OnceValues(func() (m fullModel, err error) {
		if m.FullModel, err = p.FullModel(data.Y); err == nil {
			m.Doubts = m.FullModel.Doubts()
		}
		return m, err
	})
	return &Diagnostics{p, data, risk, full,
		sync.OnceValues(func() (noise.Left, bool) { return p.Rays(ctx, data, risk.Sigma2) })}
}

// Notes are the warnings of the fit about its data: coefficients without bound, noise whose variance differs, and
// values of y that are far from what the others predict.
func (d *Diagnostics) Notes() (all Notes) {
	d.unbounded(&all)
	doubts := d.doubts()
	d.outliers(&all, doubts.Outliers)
	all = append(all, d.sigma2(doubts.Variance, "of the residuals of least squares by all columns")...)
	d.entries(&all)
	d.rays(&all)
	if u := doubts.Uneven; u.Sure() {
		by := "the " + u.By
		if doubts.Column >= 0 {
			by = CoefficientNames(d.Data, d.Problem)[doubts.Column]
		}
		all.Add(warning.UnevenNoise, "the variance of the noise about least squares is %.3g where %s is about %.3g, "+
			"and %.3g where it is about %.3g: sigma2, SURE, GCV and error bars take it for the same everywhere; "+
			"standard errors of coefficients are by the residuals; take the logarithm or the root of y, divide rows "+
			"of X and y by the standard deviation of their noise, or choose by alo or cv", u.Least, by, u.LeastAt,
			u.Greatest, u.GreatestAt)
	}
	return all
}

// entries notes noise of entries of a matrix that is weaker in some rows or columns than sigma2, or has heavy tails.
func (d *Diagnostics) entries(all *Notes) {
	sigma2 := d.Risk.Sigma2
	if !(sigma2 > 0) || d.Risk.LeftOut == nil {
		return
	}
	*all = append(*all, d.sigma2(d.Problem.RangeOfEntries(d.Risk.LeftOut), "of errors of predicting entries from "+
		"the others, and that of the noise at most that,")...)
	u, tails := d.Problem.UnevenEntries(d.Risk.LeftOut, sigma2)
	if u.By != "" {
		all.Add(warning.UnevenNoise, "the mean squared error of predicting the entries of %s %g, counted from 0, "+
			"from the others is %.3g, and of %s %g %.3g: the noise is weaker than sigma2 = %.4g in some of the %ss, "+
			"and SURE and its error bar take it for the same everywhere; choose by alo, divide %ss by the standard "+
			"deviations of their noise, or take a smaller sigma2", u.By, u.LeastAt, u.Least, u.By, u.GreatestAt,
			u.Greatest, sigma2, u.By, u.By)
	}
	if tails > 0 {
		all.Add(warning.Outliers, "the errors of predicting entries from the others have, by the median of their "+
			"sizes, %.2g times the variance sigma2, where normal noise has at least this: the noise has heavy tails "+
			"or differs between entries, or sigma2 is too large, so that SURE and its error bar are off; choose by alo",
			tails)
	}
}

// rays notes noise of a sinogram that is uneven.
func (d *Diagnostics) rays(all *Notes) {
	if left, ok := d.left(); ok {
		*all = append(*all, UnevenNotes(left.Uneven())...)
		*all = append(*all, d.sigma2(left.Range(), "of the residuals of a ridge regression of y")...)
	}
}

// sigma2 notes that the variance of the noise, of something, contradicts sigma2.
func (d *Diagnostics) sigma2(r noise.Range, of string) Notes {
	return Sigma2Notes(d.Risk.Sigma2, 0, r, of)
}

// doubts are those of the full model, or of another that there is.
func (d *Diagnostics) doubts() (none problems.Doubts) {
	if d.Problem.Comparable() {
		if full, err := d.full(); err == nil {
			return full.Doubts
		}
	}
	if m := d.Problem.Plain(d.Data.Y, d.Risk.DenseB); m != nil {
		return m.Doubts()
	}
	return none
}

// outliers notes values of y that are far from what the others predict.
func (d *Diagnostics) outliers(all *Notes, found []risk.Outlier) {
	if len(found) == 0 {
		return
	}
	of := found[0]
	values := fmt.Sprintf("y is %.4g in row %d, counted from 1, where", d.Data.Y[of.At], of.At+1)
	if n := len(found); n > 1 {
		values = fmt.Sprintf("%d values of y stand out; the first is %.4g in row %d, counted from 1, where", n,
			d.Data.Y[of.At], of.At+1)
	}
	all.Add(warning.Outliers, "%s the other rows predict %.4g: it is %.2g standard deviations of their residuals off, "+
		"and none of them is more than %.2g: a wrong value decides the fit, sigma2 and all criteria; correct it, "+
		"leave the row out, or take --loss huber", values, d.Data.Y[of.At]-of.Residual, of.Errors,
		found[len(found)-1].Next)
}

// Coefficients are those of the fit. sigma2 is the variance of the noise, 0 where it is not known. The error is that of
// ctx.
func (d *Diagnostics) Coefficients(ctx context.Context, sigma2 float64) (c CoefficientsResult, err error) {
	p, data, risk := d.Problem, d.Data, d.Risk
	b0 := InterceptOf(p, risk).All()
	all, first := risk.DenseB(), len(b0)
	names := append(InterceptNames(data, p, first), CoefficientNames(data, p)...)
	for j, b := range append(slices.Clone(b0), p.Coefficients(all)...) {
		c.Coefficients = append(c.Coefficients, Coefficient{Name: names[j], Estimate: b})
	}
	full, err := d.full()
	var debiased, errs []float64
	switch {
	case err == nil:
		of := full.Debiased(risk.MuHat, all)
		debiased, errs = of.Values, of.Robust
		c.DebiasedBy, c.DebiasedSigma2 = ByOrthogonalScores, ByResiduals
		if full.Uneven.By != "" && full.Uneven.Chance < doubtful {
			break
		}
		if c.DebiasedSigma2 = "sigma2"; sigma2 == 0 {
			sigma2, c.DebiasedSigma2 = risk.Sigma2DF, "sigma2_df"
		}
		errs = of.Factors
		floats.Scale(math.Sqrt(sigma2), errs)
	case errors.Is(err, problems.ErrTooFewRows):
		var of problems.Debiased
		if of, err = p.DebiasedByScores(ctx, data.Y, risk.MuHat, all, risk.Trace.Trace); err == nil {
			c.DebiasedBy, debiased, errs = ByScores, of.Values, of.Factors
			if d.doubts().Uneven.Sure() {
				c.DebiasedSigma2, errs = ByResiduals, of.Robust
			}
		}
	case p.Likelihood():
		var of problems.Debiased
		if of, err = p.DebiasedByInformation(data.Y, risk.MuHat, all); err == nil {
			c.DebiasedBy, debiased, errs = ByInformation, of.Values, of.Factors
			if ratio, stdErr := risk.Dispersion(); of.Robust != nil && ratio > 1+doubtfulErrors*stdErr {
				c.DebiasedSigma2, errs = ByResiduals, of.Robust
			}
		}
	}
	if err != nil {
		c.DebiasedAbsent = err.Error()
		return c, ctx.Err()
	}
	for j := range debiased {
		if all[j] != 0 {
			at := &c.Coefficients[first+j]
			at.Debiased, at.DebiasedStdErr = Defined(debiased[j]), Defined(errs[j])
		}
	}
	return c, nil
}

// mostNamed is how many columns a warning names.
const mostNamed = 5

// unboundedNotes are the warning of a fit of which neither a penalty nor the likelihood bounds some coefficients.
func (d *Diagnostics) unbounded(notes *Notes) {
	p, data, risk := d.Problem, d.Data, d.Risk
	if risk.LossTerms == nil {
		return
	}
	columns, observations := p.Unbounded(data.Y, risk.MuHat)
	if len(columns) == 0 {
		return
	}
	all := CoefficientNames(data, p)
	if columns[0] < len(all) { // beside columns of X that move, the intercept is their reference
		first, _ := slices.BinarySearch(columns, len(all))
		columns = columns[:first]
	}
	all = append(all, InterceptNames(data, p, max(p.Several(), 1))...)
	notes.Add(warning.Unbounded, "no penalty bounds the coefficients of %s, and the likelihood of "+
		"%d observations is greatest where they are infinite, as where a level, or a side of a line, has one outcome "+
		"only: leave-one-out and standard errors tell nothing of them; leave the column or the level out, or give a "+
		"penalty, as --problem ridge does", ndarray.Some(lists.Pick(all, columns), mostNamed), observations)
}
