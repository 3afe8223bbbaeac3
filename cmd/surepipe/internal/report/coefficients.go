package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"surepipe/internal/digits"
	"surepipe/study"
)

// debiasedTexts explain the debiased estimates.
var debiasedTexts = map[string]string{
	study.ByOrthogonalScores: `debiased: b_j + <z_j, y - mu_hat> / ||z_j||^2 with z_j what the other columns leave of
column j (Zhang and Zhang 2014), here least squares with all columns, and its standard error for the
variance SIGMA2; for a coefficient chosen before y was seen, not for having been selected
`,
	study.ByScores: `debiased: b_j + <z_j, y - mu_hat> / ((1 - df/d) <z_j, x_j>), with z_j the residual of a LASSO of
column j on the others (Bellec and Zhang 2022), and its standard error, which needs no sigma2,
by the squared residuals where the noise is uneven;
for rows of X that are about normal, columns with sparse regressions on each other, and a
coefficient chosen before y was seen, not for having been selected
`,
	study.ByInformation: `debiased: b_j less one step of Newton's method for the likelihood with all columns (van de
Geer and others 2014), and its standard error by the information at the fit; for a coefficient chosen before
y was seen, not for having been selected
`}

// variances are those that standard errors are for.
var variances = map[string]string{"sigma2": "variance sigma2", "sigma2_df": "variance sigma2_df",
	study.ByResiduals: "squared residuals (HC3)"}

// blankText says why a coefficient has no debiased estimate.
const blankText = `no debiased estimate: the other columns and the intercept determine the column, as those of all
levels of a category do
`

// Coefficients prints the coefficients that are not 0 as a table.
func Coefficients(c *study.CoefficientsResult, out io.Writer) error {
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
	zeros, count, blank := 0, 0, false
	for _, k := range c.Coefficients {
		penalized := !strings.HasSuffix(k.Name, study.InterceptName)
		if penalized {
			count++
		}
		if k.Estimate == 0 && penalized {
			zeros++
			continue
		}
		fmt.Fprintf(w, "%-*s\t%.6g\t", width, k.Name, k.Estimate)
		if k.Debiased != nil && k.DebiasedStdErr != nil {
			fmt.Fprintf(w, "%.6g\t%s\t", *k.Debiased, digits.Error(*k.DebiasedStdErr))
		} else if c.DebiasedBy != "" {
			fmt.Fprint(w, "\t\t")
			blank = blank || penalized
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
		if blank {
			fmt.Fprint(out, blankText)
		}
		text := strings.Replace(debiasedTexts[c.DebiasedBy], "variance SIGMA2", variances[c.DebiasedSigma2], 1)
		if c.DebiasedSigma2 == study.ByResiduals {
			text = strings.Replace(text, "by the information at the fit", "by the squared residuals (HC3)", 1)
		}
		_, err = fmt.Fprint(out, text)
	} else {
		_, err = fmt.Fprintf(out, "no debiased estimates: %s\n", c.DebiasedAbsent)
	}
	return err
}
