package predict

import (
	"fmt"
	"math"
	"strings"

	"surepipe/internal/dataio"
	"surepipe/internal/fit"
	"surepipe/risk/warning"
	"surepipe/study"
	"surepipe/study/load"
)

func (m *Model) rows(to *Prediction, files dataio.Files, path string, na []string) error {
	if m.fit.Design != nil {
		return m.table(to, files, path, na)
	}
	set, err := dataio.OpenAs(path, dataio.TableOptions{Files: files, NA: na})
	if err != nil {
		return study.Bad(err)
	}
	defer set.Close()
	if set.IsSparse() {
		x, err := set.Sparse()
		if err == nil {
			to.Predictions, err = m.fit.PredictSparse(x)
		}
		if err != nil {
			return study.Errorf("%s: %w", path, err)
		}
	} else {
		if to.Predictions, err = predictArray(m.fit, set); err != nil {
			return study.Errorf("%s: %w", path, err)
		}
		if unread := set.Unread(); len(unread) > 0 {
			to.note(warning.IgnoredArrays, load.IgnoredText, path, strings.Join(unread, ", "))
		}
	}
	to.mean()
	to.Count = max(len(to.Predictions), len(to.Predicted), len(to.Values))
	return nil
}

// predictArray predicts the rows of the array X, or of a file's only array.
func predictArray(f *fit.Fit, set *dataio.Set) ([]float64, error) {
	name := "X"
	if !set.Has(name) {
		only, err := set.Only()
		if err != nil {
			return nil, set.Missing("X", fmt.Sprintf("(n, %d)", f.BShape[0]), nil)
		}
		name = only
	}
	x, err := load.MatrixIn(set, name, fmt.Sprintf("(n, %d)", f.BShape[0]))
	if err != nil {
		return nil, err
	}
	return f.PredictRows(x)
}

func (m *Model) table(to *Prediction, files dataio.Files, path string, na []string) error {
	if !dataio.IsTable(path) {
		return study.Errorf("--data is %q, but the fit is of a table with named columns: expected a table (.csv, "+
			".tsv)", path)
	}
	rows, err := m.fit.Design.OpenRows(files, path, na)
	if err != nil {
		return study.Bad(err)
	}
	if to.Predictions, err = m.fit.PredictRows(rows.X); err != nil {
		return study.Errorf("%s: %w", path, err)
	}
	n, _ := rows.X.Dims()
	for i, v := range rows.Offset {
		for k := range len(to.Predictions) / n {
			to.Predictions[i*len(to.Predictions)/n+k] += v
		}
	}
	to.Count, to.Names, to.IgnoredColumns, to.Filled = n, rows.Rows, rows.Ignored, rows.Filled
	if len(rows.Ignored) > 0 {
		to.note(warning.IgnoredColumns, "columns that the fit does not use are ignored: %.200s",
			strings.Join(rows.Ignored, ", "))
	}
	if rows.Filled > 0 {
		to.note(warning.ValuesReplaced, "%d missing values are replaced by the means of the fit's data", rows.Filled)
	}
	sum, k := 0.0, len(m.fit.Classes)
	for i, y := range rows.Y {
		switch {
		case math.IsNaN(y):
		case m.parts != nil:
			label, loss := make([]float64, k), make([]float64, k)
			label[int(y)] = 1
			m.parts(loss, to.Predictions[i*k:][:k], label)
			sum += loss[0]
			to.RowsWithResponse++
		case m.at != nil:
			sum += m.at(to.Predictions[i], y)
			to.RowsWithResponse++
		}
	}
	to.setMean(sum)
	to.mean()
	return nil
}

// setMean sets the mean of the losses of the rows with a response, which add up to sum.
func (p *Prediction) setMean(sum float64) {
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
