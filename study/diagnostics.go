package study

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/internal/noise"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk/warning"
)

// Diagnostics are what residuals tell of a fit, for its warnings and the errors of its coefficients: [Diagnose].
type Diagnostics struct {
	Problem *problems.Problem
	Data    problems.Data
	Risk    pipeline.Risk
	// full is the regression on all columns, which is computed once.
	full func() (fullModel, error)
}

type fullModel struct {
	*problems.FullModel
	uneven noise.Uneven
	column int
}

// Diagnose returns the diagnostics of a fit to data. It costs nothing before they are asked for.
func Diagnose(p *problems.Problem, data problems.Data, risk pipeline.Risk) *Diagnostics {
	return &Diagnostics{p, data, risk, sync.OnceValues(func() (m fullModel, err error) {
		if m.FullModel, err = p.FullModel(data.Y); err == nil {
			m.uneven, m.column = m.Uneven()
		}
		return m, err
	})}
}

// Notes are the warnings of the fit about its data: coefficients without bound, and noise whose variance differs.
func (d *Diagnostics) Notes() (all Notes) {
	if d.unbounded(&all); !d.Problem.Comparable() {
		return all
	}
	if full, err := d.full(); err == nil && full.uneven.Sure() {
		u, by := full.uneven, "the fitted value"
		if full.column >= 0 {
			by = CoefficientNames(d.Data, d.Problem)[full.column]
		}
		all.Add(warning.UnevenNoise, "the variance of the noise about least squares is %.3g where %s is about %.3g, "+
			"and %.3g where it is about %.3g: sigma2, SURE, GCV and error bars take it for the same everywhere; "+
			"standard errors of coefficients are by the residuals; take the logarithm or the root of y, divide rows "+
			"of X and y by the standard deviation of their noise, or choose by alo or cv", u.Least, by, u.LeastAt,
			u.Greatest, u.GreatestAt)
	}
	return all
}

// Coefficients are those of the fit. sigma2 is the variance of the noise, 0 where it is not known. The error is that of
// ctx.
func (d *Diagnostics) Coefficients(ctx context.Context, sigma2 float64) (c CoefficientsResult, err error) {
	p, data, risk := d.Problem, d.Data, d.Risk
	b0 := InterceptOf(p, risk).All()
	for k, name := range InterceptNames(data, p, len(b0)) {
		c.Coefficients = append(c.Coefficients, Coefficient{Name: name, Estimate: b0[k]})
	}
	first := len(c.Coefficients)
	names, all := CoefficientNames(data, p), risk.DenseB()
	for j, b := range p.Coefficients(all) {
		c.Coefficients = append(c.Coefficients, Coefficient{Name: names[j], Estimate: b})
	}
	full, err := d.full()
	var debiased, errs []float64
	switch {
	case err == nil:
		of := full.Debiased(risk.MuHat, all)
		debiased, errs = of.Values, of.Robust
		c.DebiasedBy, c.DebiasedSigma2 = ByOrthogonalScores, ByResiduals
		if full.uneven.By != "" && full.uneven.Chance < doubtful {
			break
		}
		if c.DebiasedSigma2 = "sigma2"; sigma2 == 0 {
			sigma2, c.DebiasedSigma2 = risk.Sigma2DF, "sigma2_df"
		}
		errs = of.Factors
		floats.Scale(math.Sqrt(sigma2), errs)
	case errors.Is(err, problems.ErrTooFewRows):
		if debiased, errs, err = p.DebiasedByScores(ctx, data.Y, risk.MuHat, all, risk.Trace.Trace); err == nil {
			c.DebiasedBy = ByScores
		}
	case p.Likelihood():
		if debiased, errs, err = p.DebiasedByInformation(data.Y, risk.MuHat, all); err == nil {
			c.DebiasedBy = ByInformation
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
