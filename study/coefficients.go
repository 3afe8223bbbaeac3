package study

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/internal/noise"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk/warning"
)

// Coefficient is a line of the table of coefficients, in the units of the columns of X.
type Coefficient struct {
	Name     string  `json:"name"`
	Estimate float64 `json:"estimate"`
	// Debiased is an estimate without the bias of the penalty, and DebiasedStdErr its standard
	// error; absent where they are not defined, and for coefficients that are 0.
	Debiased       *float64 `json:"debiased,omitempty"`
	DebiasedStdErr *float64 `json:"debiased_stderr,omitempty"`
}

// CoefficientsResult is the part of the JSON with the coefficients, the intercept first.
type CoefficientsResult struct {
	Coefficients []Coefficient `json:"coefficients,omitempty"`
	// DebiasedBy says what the debiased estimates are, and DebiasedSigma2 which variance their
	// errors have: sigma2, sigma2_df, or residuals where it differs between observations; absent where they need none.
	// DebiasedAbsent says why there are none.
	DebiasedBy     string `json:"debiased_by,omitempty"`
	DebiasedSigma2 string `json:"debiased_sigma2,omitempty"`
	DebiasedAbsent string `json:"debiased_absent,omitempty"`
}

// InterceptName is the name of the intercept in tables of coefficients.
const InterceptName = "(intercept)"

const (
	ByOrthogonalScores = "scores orthogonal to the other columns (Zhang and Zhang 2014)"
	ByScores           = "scores by a LASSO of the column on the others, degrees-of-freedom adjustment (Bellec " +
		"and Zhang 2022)"
	ByInformation = "one Newton step for the likelihood of all columns (van de Geer and others 2014)"
)

// ColumnNames are those of the p columns of X: by a table or as they are given, else x0, x1, ...
func ColumnNames(data problems.Data, p int) []string {
	switch {
	case data.Table != nil && data.Table.X != nil:
		return data.Table.Design.Columns()
	case data.Columns != nil:
		return data.Columns
	}
	return lists.Make(p, func(j int) string { return "x" + strconv.Itoa(j) })
}

// CoefficientNames are those of the coefficients of the columns of X. Where y has several columns there are as many
// for each, named column:coefficient.
func CoefficientNames(data problems.Data, p *problems.Problem) []string {
	names := ColumnNames(data, p.Variables())
	if p.Several() == 0 {
		return names
	}
	all := make([]string, 0, p.P)
	for _, name := range names {
		for _, outcome := range OutcomeNames(data, p) {
			all = append(all, outcome+":"+name)
		}
	}
	return all
}

// InterceptNames are those of n intercepts.
func InterceptNames(data problems.Data, p *problems.Problem, n int) (names []string) {
	if n == 1 {
		return []string{InterceptName}
	}
	for _, outcome := range OutcomeNames(data, p)[:n] {
		names = append(names, outcome+":"+InterceptName)
	}
	return names
}

// OutcomeNames are those of the columns of y where it has several for a row of X, else nil.
func OutcomeNames(data problems.Data, p *problems.Problem) (names []string) {
	if len(data.Labels.Columns) == p.Several() {
		return data.Labels.Columns
	}
	for k := range p.Several() {
		names = append(names, strconv.Itoa(k))
	}
	return names
}

// CoefficientsOf are the coefficients of a fit. sigma2 is the variance of the noise, 0 where it is
// not known. The error is that of ctx.
func CoefficientsOf(ctx context.Context, p *problems.Problem, data problems.Data, risk pipeline.Risk,
	sigma2 float64) (c CoefficientsResult, err error) {
	b0 := InterceptOf(p, risk).All()
	for k, name := range InterceptNames(data, p, len(b0)) {
		c.Coefficients = append(c.Coefficients, Coefficient{Name: name, Estimate: b0[k]})
	}
	first := len(c.Coefficients)
	names, all := CoefficientNames(data, p), risk.DenseB()
	for j, b := range p.Coefficients(all) {
		c.Coefficients = append(c.Coefficients, Coefficient{Name: names[j], Estimate: b})
	}
	d, err := p.Debiased(data.Y, risk.MuHat, all)
	debiased, errs := d.Values, d.Robust
	switch {
	case err == nil:
		c.DebiasedBy, c.DebiasedSigma2 = ByOrthogonalScores, ByResiduals
		if u, _ := p.Uneven(doubtful, data.Y); u.By != "" {
			break
		}
		if c.DebiasedSigma2 = "sigma2"; sigma2 == 0 {
			sigma2, c.DebiasedSigma2 = risk.Sigma2DF, "sigma2_df"
		}
		errs = d.Factors
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

// ByResiduals says that standard errors have the variance of the residuals, each of its own observation. They do where
// the variances differ beyond a false alarm of doubtful: such errors are right, too, where the variances are equal.
const (
	ByResiduals = "residuals"
	doubtful    = 0.05
)

// FitNotes are the warnings of a fit about its data: coefficients without bound, and noise whose variance differs.
func FitNotes(p *problems.Problem, data problems.Data, risk pipeline.Risk) Notes {
	all := unboundedNotes(p, data, risk)
	u, column := p.Uneven(noise.FalseAlarm, data.Y)
	if u.By == "" {
		return all
	}
	by := "the fitted value"
	if column >= 0 {
		by = CoefficientNames(data, p)[column]
	}
	all.Add(warning.UnevenNoise, "the variance of the noise about least squares is %.3g where %s is about %.3g, and "+
		"%.3g where it is about %.3g: sigma2, SURE, GCV and error bars take it for the same everywhere; standard "+
		"errors of coefficients are by the residuals; take the logarithm or the root of y, divide rows of X and y by "+
		"the standard deviation of their noise, or choose by alo or cv", u.Least, by, u.LeastAt, u.Greatest,
		u.GreatestAt)
	return all
}

// Notes says that standard errors do not count that the fit has selected its coefficients.
func (c *CoefficientsResult) Notes() (n Notes) {
	errors, zeros := 0, 0
	for _, k := range c.Coefficients {
		if k.DebiasedStdErr != nil {
			errors++
		} else if k.Estimate == 0 {
			zeros++
		}
	}
	if errors > 0 && zeros > 0 {
		n.Add(warning.Selected, "%d of %d coefficients were selected by the fit, and their standard errors do not "+
			"count that: of coefficients that are 0, those that are selected have estimates that are too large for "+
			"these errors", errors, errors+zeros)
	}
	return n
}

// mostNamed is how many columns a warning names.
const mostNamed = 5

// unboundedNotes are the warning of a fit of which neither a penalty nor the likelihood bounds some coefficients.
func unboundedNotes(p *problems.Problem, data problems.Data, risk pipeline.Risk) (notes Notes) {
	if risk.LossTerms == nil {
		return nil
	}
	columns, observations := p.Unbounded(data.Y, risk.MuHat)
	if len(columns) == 0 {
		return nil
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
	return notes
}

// WriteCSV writes all coefficients to a file; cells of what is not defined are empty.
func (c *CoefficientsResult) WriteCSV(path string) error {
	cell := func(v *float64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(*v, 'g', -1, 64)
	}
	at := -1
	return dataio.WriteRecords(path, func() []string {
		if at++; at == 0 {
			return []string{"name", "estimate", "debiased", "debiased_stderr"}
		}
		if at > len(c.Coefficients) {
			return nil
		}
		k := c.Coefficients[at-1]
		return []string{k.Name, cell(&k.Estimate), cell(k.Debiased), cell(k.DebiasedStdErr)}
	})
}
