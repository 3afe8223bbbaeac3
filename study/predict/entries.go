package predict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/design"
	"surepipe/internal/fit"
	"surepipe/risk/warning"
	"surepipe/study"
)

// mostPredicted is the largest number of missing entries that are all predicted: some 30 GB of text.
const mostPredicted = 1 << 30

func (m *Model) entries(r *Prediction, files dataio.Files, path string, na []string) error {
	f := m.fit
	each := f.Missing
	if r.Count = f.MissingCount(); path == "" && r.Count > mostPredicted {
		return study.Errorf("the matrix of %d x %d has %d missing entries, more than the %d that are written: give "+
			"those that are wanted, --data with the columns row and column", f.BShape[0], f.BShape[1], r.Count,
			mostPredicted)
	}
	if path != "" {
		choose := chosenEntries
		if !dataio.IsTable(path) {
			choose = chosenPlaces
		}
		chosen, values, ignored, err := choose(f, files, path, na)
		if err != nil {
			return study.Bad(err)
		}
		m.score(r, chosen, values)
		each = func(yield func(fit.Entry) bool) {
			for _, e := range chosen {
				if !yield(e) {
					return
				}
			}
		}
		r.Count = len(chosen)
		if r.IgnoredColumns = ignored; len(ignored) > 0 {
			r.note(warning.IgnoredColumns, "columns that the fit does not use are ignored: %.200s",
				strings.Join(ignored, ", "))
		}
	}
	r.each = each
	return nil
}

// chosenPlaces reads the entries of the array indices, places in the row-major matrix, and their values where there is
// an array y.
func chosenPlaces(f *fit.Fit, files dataio.Files, path string, _ []string) (entries []fit.Entry, values []float64,
	ignored []string, err error) {
	set, err := dataio.OpenAs(path, dataio.TableOptions{Files: files})
	if err != nil {
		return nil, nil, nil, err
	}
	defer set.Close()
	if !set.Has("indices") {
		return nil, nil, nil, fmt.Errorf("%s: expected a table with the columns row and column, or an array "+
			"\"indices\" of places in the row-major matrix", path)
	}
	at, err := set.Ints("indices")
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	n := int64(f.BShape[1])
	for i, k := range at.Ints {
		if k < 0 || k/n >= int64(f.BShape[0]) {
			return nil, nil, nil, fmt.Errorf("%s: array \"indices\" holds %d at [%d], expected places in the matrix "+
				"of %d x %d, counted from 0", path, k, i, f.BShape[0], f.BShape[1])
		}
		e, err := f.At(int(k/n), int(k%n))
		if err != nil {
			return nil, nil, nil, err
		}
		entries = append(entries, e)
	}
	if set.Has("y") {
		y, err := set.Floats("y")
		if err == nil && len(y.Data) != len(entries) {
			err = fmt.Errorf("array \"y\" has %d values, expected %d as indices", len(y.Data), len(entries))
		}
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		values = y.Data
	}
	return entries, values, nil, nil
}

// namedEntries finds entries by the names of their rows and columns.
func namedEntries(f *fit.Fit, t *dataio.Table, by []string) (entries []fit.Entry, err error) {
	var columns [2]dataio.Column
	for k, name := range by {
		if columns[k], err = t.Column(name); err != nil {
			return nil, err
		}
	}
	columns[0], columns[1] = design.Unify(columns[0], f.RowNames), design.Unify(columns[1], f.ColumnNames)
	unknown := 0
	for i := range t.Rows() {
		for _, c := range columns {
			if c.Missing(i) {
				return nil, fmt.Errorf("line %d, column %q: the value is missing", t.Lines[i], c.Name)
			}
		}
		row, column := columns[0], columns[1]
		e, bad := f.Named(row.Levels[row.Codes[i]], column.Levels[column.Codes[i]])
		if entries = append(entries, e); bad == nil {
			continue
		}
		if unknown++; unknown == 1 {
			err = fmt.Errorf("line %d: %w", t.Lines[i], bad)
		}
	}
	if unknown > 1 {
		err = fmt.Errorf("%w, nor are %s or %s of %d other lines", err, f.RowsBy, f.ColumnsBy, unknown-1)
	}
	return entries, err
}

// chosenEntries reads the entries of a table with the columns row and column, or those of the names that the
// fit's rows and columns had, and values, their own where the table has them.
func chosenEntries(f *fit.Fit, files dataio.Files, path string, na []string) (entries []fit.Entry,
	values []float64, ignored []string, err error) {
	by := []string{cmp.Or(f.RowsBy, "row"), cmp.Or(f.ColumnsBy, "column")}
	t, err := dataio.OpenTable(path, dataio.TableOptions{
		Files: files, NA: na,
		Columns: func(names []string) error {
			for _, name := range by {
				if !slices.Contains(names, name) {
					return ndarray.MissingColumn(name, names)
				}
			}
			return nil
		},
		Read: func(name string) bool { return slices.Contains(by, name) || f.ValueBy != "" && name == f.ValueBy },
		Text: func(name string) bool { return f.RowNames != nil && name != f.ValueBy },
	})
	if err != nil {
		return nil, nil, nil, err
	}
	if v, err := t.Column(f.ValueBy); err == nil {
		if values = v.Values; v.Values == nil {
			return nil, nil, nil, fmt.Errorf("%s: column %q, the value of an entry, holds texts such as %.40q, "+
				"expected numbers, or a table without it", path, v.Name, v.Levels[0])
		}
	}
	if f.RowNames != nil {
		entries, err = namedEntries(f, t, by)
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return entries, values, t.Unread, err
	}
	var places [2][]float64
	for k, name := range []string{"row", "column"} {
		c, err := t.Column(name)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		if c.Values == nil {
			return nil, nil, nil, fmt.Errorf("%s: column %q holds texts such as %.40q, expected integers "+
				"counted from 0", path, name, c.Levels[0])
		}
		places[k] = c.Values
		for i, v := range c.Values {
			if v != math.Trunc(v) || math.Abs(v) > 1<<31 {
				return nil, nil, nil,
					fmt.Errorf("%s: line %d, column %q: found %g, expected an integer counted from 0", path,
						t.Lines[i], name, v)
			}
		}
	}
	for i := range t.Rows() {
		e, err := f.At(int(places[0][i]), int(places[1][i]))
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: line %d: %w", path, t.Lines[i], err)
		}
		entries = append(entries, e)
	}
	return entries, values, t.Unread, nil
}

func (m *Model) score(r *Prediction, chosen []fit.Entry, values []float64) {
	sum := 0.0
	for i, y := range values {
		if !math.IsNaN(y) {
			unit := m.fit.Unit(chosen[i].Column)
			sum += m.at(m.fit.Linear(chosen[i])/unit, y/unit)
			r.RowsWithResponse++
		}
	}
	r.setMean(sum, r.RowsWithResponse)
}
