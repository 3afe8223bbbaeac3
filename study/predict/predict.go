// Package predict predicts from the file of a fit: new rows of a regression, or the missing entries of
// a matrix.
package predict

import (
	"context"
	"io/fs"
	"iter"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/dataio"
	"surepipe/internal/fit"
	"surepipe/internal/lists"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk/warning"
	"surepipe/study"
)

// Model is a fit that predicts.
type Model struct {
	fit *fit.Fit
	// at is the loss of an observation at a linear predictor: for the squared loss (z - y)^2; nil where there is none.
	at func(z, y float64) float64
	// parts are the losses of observations with several entries each; nil for others.
	parts func(dst, z, y []float64)
}

// New is a model of a fit.
func New(f *study.Fit) (*Model, error) {
	m := &Model{fit: f}
	return m, m.knowLoss()
}

// Predict predicts what is in a file of the file system: the rows of a regression, or the entries of a matrix; ""
// stands for all entries that were not observed. na are the texts of a table that stand for missing values, nil for
// those of the fit. The result has its warnings also where there is an error.
func (m *Model) Predict(ctx context.Context, in fs.FS, path string, na []string) (*Prediction, error) {
	files := dataio.Files{Context: ctx, FS: in}
	p := &Prediction{Predicts: m.fit.Predicts, Fit: m.fit.Info, Version: study.Version(), fit: m.fit}
	if !m.fit.Converged {
		p.note(warning.FitNotConverged, "the fit has not converged")
	}
	if na == nil {
		na = m.fit.NA
	}
	switch {
	case m.fit.Predicts == fit.Entries:
		return p, m.entries(p, files, path, na)
	case path == "":
		return p, study.Errorf("--data is missing, expected a file with new rows")
	}
	return p, m.rows(p, files, path, na)
}

func (m *Model) knowLoss() error {
	f := m.fit
	known, err := problems.Loss{Name: f.Loss, Parameter: f.LossParameter}.Structure(len(f.Classes))
	if err != nil {
		return err
	}
	m.at = func(z, y float64) float64 { return (z - y) * (z - y) }
	switch {
	case known.Several() && known.Parts != nil:
		m.at, m.parts = nil, known.Parts
	case known.Joint != nil:
		m.at = nil
	case known.At != nil:
		m.at = func(z, y float64) float64 { return known.At(0, z, y) }
	}
	f.Mean = known.Mean
	return nil
}

// Prediction is what a fit predicts, and what is known of its error. In JSON the entries of a matrix
// follow as entries, of row, column and value.
type Prediction struct {
	Predicts string `json:"predicts"`
	Count    int    `json:"count"`
	// IgnoredColumns are columns of the table that the fit does not use, and Filled the number of
	// missing values that were replaced.
	IgnoredColumns []string `json:"ignored_columns,omitempty"`
	Filled         int      `json:"filled,omitempty"`
	// MeanSquaredError is that of the rows with a response, absent where there are none; of a completion whose columns
	// were standardized that of the quotients by their standard deviations.
	MeanSquaredError *float64 `json:"mean_squared_error,omitempty"`
	// MeanLoss takes its place where the loss is not squared: for a likelihood minus its logarithm,
	// without terms of y alone.
	MeanLoss *float64 `json:"mean_loss,omitempty"`
	// ByResponse is the same for each of several responses, nil for those that the table does not have: the mean is
	// over all that it has, and RowsWithResponse the most rows of one.
	ByResponse       []*float64         `json:"by_response,omitempty"`
	RowsWithResponse int                `json:"rows_with_response,omitempty"`
	Warnings         []pipeline.Warning `json:"warnings,omitempty"`
	Fit              fit.Info           `json:"fit"`
	Version          string             `json:"version"`
	// Names are those of the rows.
	Names       []string  `json:"names,omitempty"`
	Predictions []float64 `json:"predictions,omitempty"`
	// Of a response of several Classes: for each row the probability of each, in their order, and the likeliest one.
	Classes       []string    `json:"classes,omitempty"`
	Probabilities [][]float64 `json:"probabilities,omitempty"`
	Predicted     []string    `json:"predicted,omitempty"`
	// Of several Responses: for each row the prediction of each, in their order.
	Responses []string    `json:"responses,omitempty"`
	Values    [][]float64 `json:"values,omitempty"`

	fit *fit.Fit
	// each yields the entries of a matrix; nil for rows.
	each iter.Seq[fit.Entry]
}

// Entry is a predicted entry of a matrix, by its place counted from 0, and by names where the fit's table has them.
type Entry struct {
	Row, Column         int
	RowName, ColumnName string
	Value               float64
}

// Entries are the entries of a matrix, none for rows. Those that were not observed are computed one after the other.
func (p *Prediction) Entries() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		if p.each == nil {
			return
		}
		name := func(names []string, k int) string {
			if names == nil {
				return ""
			}
			return names[k]
		}
		for e := range p.each {
			if !yield(Entry{e.Row, e.Column, name(p.fit.RowNames, e.Row), name(p.fit.ColumnNames, e.Column), e.Value}) {
				return
			}
		}
	}
}

// Labels are the names of the rows and columns of the matrix, nil where they have none.
func (p *Prediction) Labels() (rows, columns []string) {
	if p.each == nil {
		return nil, nil
	}
	return p.fit.RowNames, p.fit.ColumnNames
}

func (p *Prediction) note(k *warning.Kind, format string, args ...any) {
	p.Warnings = append(p.Warnings, k.With(format, args...))
}

// mean replaces linear predictors by the expectations of y there: of several classes these are their probabilities.
func (p *Prediction) mean() {
	f := p.fit
	if f.Mean != nil {
		f.Mean(p.Predictions, p.Predictions)
	}
	p.Responses, p.Classes = f.Responses, f.Classes
	k := max(len(p.Responses), len(p.Classes))
	if k == 0 {
		return
	}
	rows := slices.Collect(slices.Chunk(p.Predictions, k))
	if p.Predictions = nil; len(p.Responses) > 0 {
		p.Values = rows
		return
	}
	p.Probabilities = rows
	p.Predicted = lists.Map(rows, func(row []float64) string { return p.Classes[floats.MaxIdx(row)] })
}
