package predict

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/dataio"
	"surepipe/internal/design"
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
	n := 0
	if set.IsSparse() {
		x, err := set.Sparse()
		if err == nil {
			n = x.Rows
			to.Predictions, err = m.fit.PredictSparse(x)
		}
		if err != nil {
			return study.Errorf("%s: %w", path, err)
		}
	} else {
		if to.Predictions, n, err = predictArray(m.fit, set); err != nil {
			return study.Errorf("%s: %w", path, err)
		}
		if unread := set.Unread(); len(unread) > 0 {
			to.note(warning.IgnoredArrays, load.IgnoredText, path, strings.Join(unread, ", "))
		}
	}
	m.beyond(to, n)
	to.mean()
	to.Count = max(len(to.Predictions), len(to.Predicted), len(to.Values))
	return nil
}

func predictArray(f *fit.Fit, set *dataio.Set) (z []float64, rows int, err error) {
	name := "X"
	if !set.Has(name) {
		only, err := set.Only()
		if err != nil {
			return nil, 0, set.Missing("X", fmt.Sprintf("(n, %d)", f.BShape[0]), nil)
		}
		name = only
	}
	r, err := set.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	x, err := r.Matrix(fmt.Sprintf("(n, %d)", f.BShape[0]))
	if err != nil {
		return nil, 0, err
	}
	rows, _ = x.Dims()
	z, err = f.PredictRows(x)
	return z, rows, err
}

func (m *Model) table(to *Prediction, files dataio.Files, path string, na []string) error {
	if !dataio.IsTable(path) {
		return study.Errorf("--data is %q, but the fit is of a table with named columns: expected a table (.csv, "+
			".tsv)", path)
	}
	rows, err := m.fit.Design.OpenRows(files, path, na, m.several()...)
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
	m.judge(to, rows.Y, rows.Weights)
	m.beyond(to, n)
	to.mean()
	return nil
}

func (m *Model) several() (of []design.Response) {
	for k, name := range m.fit.Responses {
		r := design.Response{Name: name}
		if m.fit.Fits != nil {
			r.Levels = m.fit.Fits[k].Levels
		}
		of = append(of, r)
	}
	return of
}

// judge sets the mean losses of linear predictors, of all responses and of each. Weights of rows are those of another
// loss than the squared one, as in leave-one-out; nil stands for ones.
func (m *Model) judge(to *Prediction, all, weights []float64) {
	k, each := len(m.fit.Classes), max(len(m.fit.Responses), 1)
	sums, counts := make([]float64, each), make([]int, each)
	for i, y := range all {
		w := 1.0
		if weights != nil && m.fit.Loss != "" {
			w = weights[i/each]
		}
		switch {
		case math.IsNaN(w * y):
			continue
		case m.parts != nil:
			label, loss := make([]float64, k), make([]float64, k)
			label[int(y)] = 1
			m.parts(loss, to.Predictions[i*k:][:k], label)
			sums[0] += w * loss[0]
		case m.at == nil:
			continue
		default:
			sums[i%each] += w * m.at(to.Predictions[i], y)
		}
		counts[i%each]++
	}
	n := 0
	for r, c := range counts {
		n += c
		if to.RowsWithResponse = max(to.RowsWithResponse, c); each > 1 {
			to.ByResponse = append(to.ByResponse, study.Defined(sums[r]/float64(c)))
		}
	}
	to.setMean(floats.Sum(sums), n)
}

func (p *Prediction) setMean(sum float64, n int) {
	if n == 0 {
		p.ByResponse = nil
		return
	}
	mean := study.Defined(sum / float64(n))
	if p.Fit.Loss == "" {
		p.MeanSquaredError = mean
	} else {
		p.MeanLoss = mean
	}
}
