package study

import (
	"strconv"

	"surepipe/internal/dataio"
	"surepipe/internal/lists"
	"surepipe/problems"
	"surepipe/risk/warning"
)

// Coefficient is a line of the table of coefficients, in the units of the columns of X.
type Coefficient struct {
	Name     string  `json:"name"`
	Estimate float64 `json:"estimate"`
	// Standardized is the estimate times the standard deviation of its column, in what a page shows of a fit to
	// columns that are divided by it.
	Standardized *float64 `json:"standardized,omitempty"`
	// Debiased is an estimate without the bias of the penalty, and DebiasedStdErr its standard
	// error; absent where they are not defined, and for coefficients that are 0.
	Debiased       *float64 `json:"debiased,omitempty"`
	DebiasedStdErr *float64 `json:"debiased_stderr,omitempty"`
}

// CoefficientsResult is the part of the JSON with the coefficients, the intercept first.
type CoefficientsResult struct {
	Coefficients []Coefficient `json:"coefficients,omitempty"`
	// DebiasedBy says what the debiased estimates are, and DebiasedSigma2 which variance their
	// errors have: sigma2, sigma2_df, or residuals where it differs between observations, or exceeds that of a
	// likelihood; absent where they need none.
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
func InterceptNames(data problems.Data, p *problems.Problem, n int) []string {
	if n == 1 {
		return []string{InterceptName}
	}
	return lists.Map(OutcomeNames(data, p)[:n], func(outcome string) string { return outcome + ":" + InterceptName })
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

// ByResiduals says that standard errors have the variance of the residuals, each of its own observation. They do where
// the variances differ with a chance below doubtful, or exceed those of a likelihood by doubtfulErrors standard errors:
// such errors are right, too, where the variances are equal.
const (
	ByResiduals              = "residuals"
	doubtful, doubtfulErrors = 0.05, 1.645
)

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

// WriteCSV writes all coefficients to a file; cells of what is not defined are empty.
func (c *CoefficientsResult) WriteCSV(path string) error {
	names := lists.Map(c.Coefficients, func(k Coefficient) string { return k.Name })
	table := dataio.Array{Shape: []int{len(names), 3}, Absent: true, Labels: dataio.Labels{RowNames: names,
		Columns: []string{"estimate", "debiased", "debiased_stderr"}, Corner: "name"}}
	for _, k := range c.Coefficients {
		table.Data = append(table.Data, k.Estimate, valueOr(k.Debiased), valueOr(k.DebiasedStdErr))
	}
	return dataio.WriteCSV(path, table)
}
