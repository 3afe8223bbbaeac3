package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
	"surepipe/internal/fit"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/study"
	"surepipe/study/load"
)

// predictHelp is the command's help.
const predictHelp = `Predicts from the file that surepipe run --out fit.npz or sweep --out fit.npz has written.

A fit of a regression predicts b0 + x b for the rows x of --data; one with --loss logistic or
poisson the expectation of y there, a probability or a rate, and so for entries. Where the fit is of a table,
--data is a table with the same columns by name, in any order; others are ignored, and named on
standard error. A missing column, a level that the fit does not know and a missing value are
errors, but missing values are replaced by the means of the fit's data where the fit was made
with --missing mean. If the table has the response too, the mean squared error is reported.
Where the fit is of arrays, --data has X, with as many columns.

A fit of a matrix completion predicts entries: those of --data, a table with the columns row
and column, counted from 0, or where the fit is of a table the columns that named the rows and
columns of its matrix; without --data all that were not observed. Effects of rows and columns
are part of the predictions. If the table has the values too, the mean squared error is reported.

Prints a .csv table, with the names of the rows where the table has them, or with --json one
object: predicts (rows or entries), count, predictions or entries (row, column, value),
ignored_columns, filled, mean_squared_error (mean_loss where the fit's loss is not squared),
rows_with_response, warnings, and fit: what is
known of the fit, among it gcv, the mean squared error of predicting one more observation.

` + exitHelp

func newPredict() *cobra.Command {
	var p predictFlags
	cmd := &cobra.Command{
		Use:   "predict",
		Short: "Predict new rows, or missing entries, from a saved fit",
		Long:  predictHelp,
		Example: `  surepipe sweep --problem lasso --data table.csv --response price --lambda 0.01max:max:40 --out fit.npz
  surepipe predict --fit fit.npz --data new.csv
  surepipe predict --fit completion.npz --out missing.csv`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPredict(cmd, &p) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&p.fit, "fit", "", "the `file` of the fit (.npz)")
	cmd.Flags().StringVar(&p.data, "data", "", "the `file` with the new rows, or the entries")
	cmd.Flags().StringSliceVar(&p.na, "na", nil, naFlag+" (default: those of the fit)")
	cmd.Flags().StringVar(&p.out, "out", "", "write the predictions to this .csv `file`, and not to standard output")
	cmd.Flags().BoolVar(&p.asJSON, "json", false, "print one JSON object")
	markFile(cmd, reads, "fit", "npz")
	markFile(cmd, reads, "data", "csv", "tsv", "npz", "npy", "mtx", "gz")
	markFile(cmd, writes, "out", "csv")
	return cmd
}

// predictFlags are the flags of surepipe predict.
type predictFlags struct {
	fit, data, out string
	na             []string
	asJSON         bool
	// at is the loss of an observation at a linear predictor: for the squared loss (z - y)^2.
	at func(z, y float64) float64
}

// check rejects flags that are wrong for any fit.
func (p *predictFlags) check(cmd *cobra.Command) error {
	if p.fit == "" {
		return usagef("--fit is missing, expected a file that run --out or sweep --out wrote")
	}
	if cmd.Flags().Changed("na") && !dataio.IsTable(p.data) {
		return usagef("--na is about the cells of a table (.csv, .tsv), found --data %q", p.data)
	}
	if p.out == "" {
		return nil
	}
	if ext := strings.ToLower(filepath.Ext(p.out)); ext != ".csv" {
		return usagef("--out is %q, expected a name that ends in .csv", p.out)
	}
	return nil
}

// prediction is the JSON object of surepipe predict.
type prediction struct {
	Predicts string `json:"predicts"`
	Count    int    `json:"count"`
	// IgnoredColumns are columns of the table that the fit does not use, and Filled the number of
	// missing values that were replaced.
	IgnoredColumns []string `json:"ignored_columns,omitempty"`
	Filled         int      `json:"filled,omitempty"`
	// MeanSquaredError is that of the rows with a response, absent where there are none.
	MeanSquaredError *float64 `json:"mean_squared_error,omitempty"`
	// MeanLoss takes its place where the loss is not squared: for a likelihood minus its logarithm,
	// without terms of y alone.
	MeanLoss         *float64           `json:"mean_loss,omitempty"`
	RowsWithResponse int                `json:"rows_with_response,omitempty"`
	Warnings         []pipeline.Warning `json:"warnings,omitempty"`
	Fit              fit.Info           `json:"fit"`
	Version          string             `json:"version"`
	// Names are those of the rows.
	Names       []string  `json:"names,omitempty"`
	Predictions []float64 `json:"predictions,omitempty"`
}

// note prints a note on standard error, and keeps it.
func (p *prediction) note(cmd *cobra.Command, code, format string, args ...any) {
	n := pipeline.Warning{Code: code, Text: fmt.Sprintf(format, args...)}
	fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: %s\n", n.Text)
	p.Warnings = append(p.Warnings, n)
}

func runPredict(cmd *cobra.Command, p *predictFlags) error {
	if err := p.check(cmd); err != nil {
		return err
	}
	f, err := fit.Load(p.fit)
	if err != nil {
		return usageError{err}
	}
	if !cmd.Flags().Changed("na") {
		p.na = f.NA
	}
	if err := p.knowLoss(f); err != nil {
		return usagef("%s: %w", p.fit, err)
	}
	result := &prediction{Predicts: f.Predicts, Fit: f.Info, Version: study.Version()}
	if !f.Converged {
		result.note(cmd, study.NoteFitNotConverged, "the fit has not converged")
	}
	if f.Predicts == fit.Entries {
		return p.entries(cmd, f, result)
	}
	if p.data == "" {
		return usagef("--data is missing, expected a file with new rows")
	}
	if err := p.rows(cmd, f, result); err != nil {
		return err
	}
	result.about(cmd)
	return p.write(cmd, result)
}

// knowLoss sets what follows from the loss of the fit.
func (p *predictFlags) knowLoss(f *fit.Fit) error {
	known, err := problems.Loss{Name: f.Loss, Parameter: f.LossParameter}.Structure()
	if err != nil {
		return err
	}
	p.at = func(z, y float64) float64 { return (z - y) * (z - y) }
	if known.At != nil {
		p.at = func(z, y float64) float64 { return known.At(0, z, y) }
	}
	if known.Mean != nil {
		f.Mean = func(z float64) float64 {
			one := []float64{z}
			known.Mean(one, one)
			return one[0]
		}
	}
	return nil
}

// mean replaces linear predictors by the expectations of y there.
func (p *prediction) mean(f *fit.Fit) {
	if f.Mean == nil {
		return
	}
	for i, z := range p.Predictions {
		p.Predictions[i] = f.Mean(z)
	}
}

// about says on standard error what is known of the error of the predictions.
func (p *prediction) about(cmd *cobra.Command) {
	if p.MeanSquaredError != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: the mean squared error is %.6g, over %d rows with a response\n", *p.MeanSquaredError, p.RowsWithResponse)
	}
	if p.MeanLoss != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: the mean %s loss is %.6g, over %d rows with a response\n", p.Fit.Loss, *p.MeanLoss, p.RowsWithResponse)
	}
	if p.Fit.Loss != "" && p.Fit.ALO != nil && p.Fit.ALOStdErr != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: by the fit's own data (leave-one-out) the mean %s loss of one prediction is %.6g ± %.2g\n", p.Fit.Loss, *p.Fit.ALO, *p.Fit.ALOStdErr)
	}
	if p.Fit.Loss == "" && p.Fit.ALO != nil && p.Fit.ALOStdErr != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: by the fit's own data (leave-one-out) the mean squared error of one prediction is %.6g ± %.2g\n", *p.Fit.ALO, *p.Fit.ALOStdErr)
	} else if p.Fit.GCV != nil && p.Fit.GCVStdErr != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: by the fit's own data (GCV) the mean squared error of one prediction is %.6g ± %.2g\n", *p.Fit.GCV, *p.Fit.GCVStdErr)
	}
}

// rows predicts the rows of --data.
func (p *predictFlags) rows(cmd *cobra.Command, f *fit.Fit, to *prediction) error {
	if f.Design != nil {
		return p.table(cmd, f, to)
	}
	set, err := dataio.OpenAs(p.data, dataio.TableOptions{NA: p.na})
	if err != nil {
		return usageError{err}
	}
	defer set.Close()
	if set.IsSparse() {
		x, err := set.Sparse()
		if err == nil {
			to.Predictions, err = f.PredictSparse(x)
		}
		if err != nil {
			return usagef("%s: %w", p.data, err)
		}
	} else {
		if to.Predictions, err = predictArray(f, set); err != nil {
			return usagef("%s: %w", p.data, err)
		}
		if unread := set.Unread(); len(unread) > 0 {
			to.note(cmd, study.NoteIgnored, load.IgnoredText, p.data, strings.Join(unread, ", "))
		}
	}
	to.mean(f)
	to.Count = len(to.Predictions)
	return nil
}

// predictArray predicts the rows of the array X, or of a file's only array.
func predictArray(f *fit.Fit, set *dataio.Set) ([]float64, error) {
	name := "X"
	if !set.Has(name) {
		only, err := set.Only()
		if err != nil {
			return nil, set.Missing("X", fmt.Sprintf("(n, %d)", len(f.B)), nil)
		}
		name = only
	}
	x, err := load.MatrixIn(set, name, fmt.Sprintf("(n, %d)", len(f.B)))
	if err != nil {
		return nil, err
	}
	return f.PredictRows(x)
}

// table predicts the rows of a table.
func (p *predictFlags) table(cmd *cobra.Command, f *fit.Fit, to *prediction) error {
	if !dataio.IsTable(p.data) {
		return usagef("--data is %q, but the fit is of a table with named columns: expected a table (.csv, .tsv)", p.data)
	}
	rows, err := f.Design.OpenRows(p.data, p.na)
	if err != nil {
		return usageError{err}
	}
	if to.Predictions, err = f.PredictRows(rows.X); err != nil {
		return usagef("%s: %w", p.data, err)
	}
	to.Count, to.Names, to.IgnoredColumns, to.Filled = len(to.Predictions), rows.Rows, rows.Ignored, rows.Filled
	if len(rows.Ignored) > 0 {
		to.note(cmd, study.NoteIgnoredColumns, "columns that the fit does not use are ignored: %.200s", strings.Join(rows.Ignored, ", "))
	}
	if rows.Filled > 0 {
		to.note(cmd, study.NoteFilled, "%d missing values are replaced by the means of the fit's data", rows.Filled)
	}
	sum := 0.0
	for i, y := range rows.Y {
		if !math.IsNaN(y) {
			sum += p.at(to.Predictions[i], y)
			to.RowsWithResponse++
		}
	}
	to.setMean(sum)
	to.mean(f)
	return nil
}

// setMean sets the mean of the losses of the rows with a response, which add up to sum.
func (p *prediction) setMean(sum float64) {
	if p.RowsWithResponse == 0 {
		return
	}
	mean := study.Defined(sum / float64(p.RowsWithResponse))
	if p.Fit.Loss == "" {
		p.MeanSquaredError = mean
	} else {
		p.MeanLoss = mean
	}
}
