package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
	"surepipe/pipeline"
	"surepipe/problems"
)

// coefficientFlags are the flags about coefficients.
type coefficientFlags struct {
	print bool
	csv   string
}

func (c *coefficientFlags) register(cmd *cobra.Command, which string) {
	cmd.Flags().BoolVar(&c.print, "coefficients", false, "regressions: also print the coefficients"+which+" by name, with debiased estimates of those that are not 0 where these are defined; with --json, as coefficients")
	cmd.Flags().StringVar(&c.csv, "coefficients-csv", "", "regressions: write the coefficients"+which+" to this .csv `file`")
	markFile(cmd, writes, "coefficients-csv", "csv")
}

// wanted reports whether the coefficients are asked for.
func (c *coefficientFlags) wanted() bool { return c.print || c.csv != "" }

// checkProblem rejects a problem without coefficients.
func (c *coefficientFlags) checkProblem(p *problems.Problem) error {
	if c.wanted() && !p.Rows() {
		return usagef("--coefficients is for regressions, whose operator is a matrix of the data, found %s", p.Name)
	}
	return nil
}

// coefficient is a line of the table of coefficients, in the units of the columns of X.
type coefficient struct {
	Name     string  `json:"name"`
	Estimate float64 `json:"estimate"`
	// Debiased is an estimate without the bias of the penalty, and DebiasedStdErr its standard
	// error; absent where they are not defined, and for coefficients that are 0.
	Debiased       *float64 `json:"debiased,omitempty"`
	DebiasedStdErr *float64 `json:"debiased_stderr,omitempty"`
}

// coefficientsResult is the part of the JSON with the coefficients, the intercept first.
type coefficientsResult struct {
	Coefficients []coefficient `json:"coefficients,omitempty"`
	// DebiasedBy says what the debiased estimates are, and DebiasedSigma2 which variance their
	// errors have: sigma2 or sigma2_df, absent where they need none. DebiasedAbsent says why there are none.
	DebiasedBy     string `json:"debiased_by,omitempty"`
	DebiasedSigma2 string `json:"debiased_sigma2,omitempty"`
	DebiasedAbsent string `json:"debiased_absent,omitempty"`
}

// interceptName is the name of the intercept in tables of coefficients.
const interceptName = "(intercept)"

// coefficientNames are those of the columns of X: by a table, else x0, x1, ...
func coefficientNames(data problems.Data, p int) []string {
	if data.Table != nil && data.Table.X != nil {
		return data.Table.Design.Columns()
	}
	names := make([]string, p)
	for j := range names {
		names[j] = "x" + strconv.Itoa(j)
	}
	return names
}

// coefficientsOf are the coefficients of a fit. sigma2 is the variance of the noise, 0 where it is
// not known. The error is that of ctx.
func coefficientsOf(ctx context.Context, p *problems.Problem, data problems.Data, risk pipeline.Risk, sigma2 float64) (c coefficientsResult, err error) {
	if b0 := interceptOf(p, risk); b0 != nil {
		c.Coefficients = append(c.Coefficients, coefficient{Name: interceptName, Estimate: *b0})
	}
	first := len(c.Coefficients)
	names, all := coefficientNames(data, p.P), risk.DenseB()
	for j, b := range p.Coefficients(all) {
		c.Coefficients = append(c.Coefficients, coefficient{Name: names[j], Estimate: b})
	}
	debiased, errs, err := p.Debiased(data.Y, risk.MuHat, all)
	switch {
	case err == nil:
		if c.DebiasedSigma2 = "sigma2"; sigma2 == 0 {
			sigma2, c.DebiasedSigma2 = risk.Sigma2DF, "sigma2_df"
		}
		c.DebiasedBy = byOrthogonalScores
		for j := range errs {
			errs[j] *= math.Sqrt(sigma2)
		}
	case errors.Is(err, problems.ErrTooFewRows):
		if debiased, errs, err = p.DebiasedByScores(ctx, data.Y, risk.MuHat, all, risk.Trace.Trace); err == nil {
			c.DebiasedBy = byScores
		}
	}
	if err != nil {
		c.DebiasedAbsent = err.Error()
		return c, ctx.Err()
	}
	for j := range debiased {
		if all[j] != 0 {
			at := &c.Coefficients[first+j]
			at.Debiased, at.DebiasedStdErr = defined(debiased[j]), defined(errs[j])
		}
	}
	return c, nil
}

// The ways to debiased estimates.
const (
	byOrthogonalScores = "scores orthogonal to the other columns (Zhang and Zhang 2014)"
	byScores           = "scores by a LASSO of the column on the others, degrees-of-freedom adjustment (Bellec and Zhang 2022)"
)

// debiasedTexts explain the debiased estimates.
var debiasedTexts = map[string]string{byOrthogonalScores: `debiased: b_j + <z_j, y - mu_hat> / ||z_j||^2 with z_j what the other columns leave of column j
(Zhang and Zhang 2014), here least squares with all columns, and its standard error for the
variance SIGMA2; for a coefficient chosen before y was seen, not for having been selected
`, byScores: `debiased: b_j + <z_j, y - mu_hat> / ((1 - df/d) <z_j, x_j>), with z_j the residual of a LASSO of
column j on the others (Bellec and Zhang 2022), and its standard error, which needs no sigma2;
for rows of X that are about normal, columns with sparse regressions on each other, and a
coefficient chosen before y was seen, not for having been selected
`}

// write prints the coefficients that are not 0 as a table.
func (c *coefficientsResult) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	width := len("coefficient")
	for _, k := range c.Coefficients {
		width = max(width, utf8.RuneCountInString(k.Name))
	}
	fmt.Fprintln(out)
	header := fmt.Sprintf("%-*s\testimate\t", width, "coefficient")
	if c.DebiasedBy != "" {
		header += "debiased\tstd. error\t"
	}
	fmt.Fprintln(w, header)
	zeros, count := 0, 0
	for _, k := range c.Coefficients {
		if k.Name != interceptName {
			count++
		}
		if k.Estimate == 0 && k.Name != interceptName {
			zeros++
			continue
		}
		fmt.Fprintf(w, "%-*s\t%.6g\t", width, k.Name, k.Estimate)
		if k.Debiased != nil && k.DebiasedStdErr != nil {
			fmt.Fprintf(w, "%.6g\t%.2g\t", *k.Debiased, *k.DebiasedStdErr)
		} else if c.DebiasedBy != "" {
			fmt.Fprint(w, "\t\t")
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if zeros > 0 {
		fmt.Fprintf(out, "%d of %d coefficients are 0\n", zeros, count)
	}
	var err error
	if c.DebiasedBy != "" {
		_, err = fmt.Fprint(out, strings.Replace(debiasedTexts[c.DebiasedBy], "SIGMA2", c.DebiasedSigma2, 1))
	} else {
		_, err = fmt.Fprintf(out, "no debiased estimates: %s\n", c.DebiasedAbsent)
	}
	return err
}

// writeCSV writes all coefficients to a file; cells of what is not defined are empty.
func (c *coefficientsResult) writeCSV(path string) error {
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
