package predict

import (
	"cmp"
	"errors"
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
	r.each = f.Missing
	if r.Count = f.MissingCount(); path == "" && r.Count > mostPredicted {
		return study.Errorf("the matrix of %d x %d has %d missing entries, more than the %d that are written: give "+
			"those that are wanted, --data with the columns row and column", f.BShape[0], f.BShape[1], r.Count,
			mostPredicted)
	}
	if path == "" {
		return nil
	}
	read := readEntries
	if !dataio.IsTable(path) {
		read = readPlaces
	}
	c, err := read(f, files, path, na)
	if err != nil {
		return study.Bad(err)
	}
	m.score(r, c.entries, c.values)
	r.each, r.Count = slices.Values(c.entries), len(c.entries)
	if r.IgnoredColumns = c.ignored; len(c.ignored) > 0 {
		r.note(warning.IgnoredColumns, "columns that the fit does not use are ignored: %.200s",
			strings.Join(c.ignored, ", "))
	}
	return nil
}

// chosen are entries of the matrix, with their values where these are known, and the columns of their table that the
// fit does not use.
type chosen struct {
	entries []fit.Entry
	values  []float64
	ignored []string
}

// readPlaces reads the entries of the array indices, places in the row-major matrix, and their values where there is
// an array y.
func readPlaces(f *fit.Fit, files dataio.Files, path string, _ []string) (c chosen, err error) {
	set, err := dataio.OpenAs(path, dataio.TableOptions{Files: files})
	if err != nil {
		return c, err
	}
	defer set.Close()
	if c, err = placesOf(f, set); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return c, err
}

func placesOf(f *fit.Fit, set *dataio.Set) (c chosen, err error) {
	if !set.Has("indices") {
		return c, errors.New("expected a table with the columns row and column, or an array \"indices\" of places in " +
			"the row-major matrix")
	}
	at, err := set.Ints("indices")
	if err != nil {
		return c, err
	}
	n := int64(f.BShape[1])
	for i, k := range at.Ints {
		if k < 0 || k/n >= int64(f.BShape[0]) {
			return c, fmt.Errorf("array \"indices\" holds %d at [%d], expected places in the matrix of %d x %d, "+
				"counted from 0", k, i, f.BShape[0], f.BShape[1])
		}
		e, err := f.At(int(k/n), int(k%n))
		if err != nil {
			return c, err
		}
		c.entries = append(c.entries, e)
	}
	if !set.Has("y") {
		return c, nil
	}
	y, err := set.Floats("y")
	if err == nil && len(y.Data) != len(c.entries) {
		err = fmt.Errorf("array \"y\" has %d values, expected %d as indices", len(y.Data), len(c.entries))
	}
	c.values = y.Data
	return c, err
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

// readEntries reads the entries of a table with the columns row and column, or those of the names that the
// fit's rows and columns had, and values, their own where the table has them.
func readEntries(f *fit.Fit, files dataio.Files, path string, na []string) (c chosen, err error) {
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
		return c, err
	}
	c.ignored = t.Unread
	if v, missing := t.Column(f.ValueBy); missing == nil {
		if c.values = v.Values; v.Values == nil {
			return c, fmt.Errorf("%s: column %q, the value of an entry, holds texts such as %.40q, expected numbers, "+
				"or a table without it", path, v.Name, v.Levels[0])
		}
	}
	find := numberedEntries
	if f.RowNames != nil {
		find = namedEntries
	}
	if c.entries, err = find(f, t, by); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return c, err
}

// numberedEntries finds entries by the numbers of their rows and columns.
func numberedEntries(f *fit.Fit, t *dataio.Table, by []string) (entries []fit.Entry, err error) {
	var places [2][]float64
	for k, name := range by {
		c, err := t.Column(name)
		if err != nil {
			return nil, err
		}
		if c.Values == nil {
			return nil, fmt.Errorf("column %q holds texts such as %.40q, expected integers counted from 0", name,
				c.Levels[0])
		}
		places[k] = c.Values
		for i, v := range c.Values {
			if v != math.Trunc(v) || math.Abs(v) > 1<<31 {
				return nil, fmt.Errorf("line %d, column %q: found %g, expected an integer counted from 0", t.Lines[i],
					name, v)
			}
		}
	}
	for i := range t.Rows() {
		e, err := f.At(int(places[0][i]), int(places[1][i]))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", t.Lines[i], err)
		}
		entries = append(entries, e)
	}
	return entries, nil
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
