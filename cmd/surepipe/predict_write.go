package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
	"surepipe/internal/design"
	"surepipe/internal/fit"
	"surepipe/study"
)

// write writes the predictions of rows.
func (p *predictFlags) write(cmd *cobra.Command, r *prediction) error {
	at := -1
	record := func() []string {
		if at++; at > len(r.Predictions) {
			return nil
		}
		var cells []string
		switch {
		case at == 0 && r.Names != nil:
			cells = []string{"", "prediction"}
		case at == 0:
			cells = []string{"prediction"}
		case r.Names != nil:
			cells = []string{r.Names[at-1], format(r.Predictions[at-1])}
		default:
			cells = []string{format(r.Predictions[at-1])}
		}
		return cells
	}
	if p.out != "" {
		if err := dataio.WriteRecords(p.out, record); err != nil {
			return err
		}
	} else if !p.asJSON {
		return dataio.EncodeRecords(cmd.OutOrStdout(), record)
	}
	if p.asJSON {
		return study.WriteLine(cmd.OutOrStdout(), r)
	}
	return nil
}

// format writes a number with the fewest digits from which it can be read back.
func format(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// mostPredicted is the largest number of missing entries that are all predicted: some 30 GB of text.
const mostPredicted = 1 << 30

// entries predicts entries of a matrix, one by one.
func (p *predictFlags) entries(cmd *cobra.Command, f *fit.Fit, r *prediction) error {
	each := f.Missing
	if r.Count = f.MissingCount(); p.data == "" && r.Count > mostPredicted {
		return usagef("the matrix of %d x %d has %d missing entries, more than the %d that are written: give those that are wanted, --data with the columns row and column", f.BShape[0], f.BShape[1], r.Count, mostPredicted)
	}
	if p.data != "" {
		chosen, values, ignored, err := chosenEntries(f, p.data, p.na)
		if err != nil {
			return usageError{err}
		}
		p.score(f, r, chosen, values)
		each = func(yield func(fit.Entry) bool) {
			for _, e := range chosen {
				if !yield(e) {
					return
				}
			}
		}
		r.Count = len(chosen)
		if r.IgnoredColumns = ignored; len(ignored) > 0 {
			r.note(cmd, study.NoteIgnoredColumns, "columns that the fit does not use are ignored: %.200s", strings.Join(ignored, ", "))
		}
	}
	r.about(cmd)
	ctx := cmd.Context()
	if p.out != "" {
		if err := dataio.WriteFile(p.out, func(w io.Writer) error { return entriesCSV(ctx, w, f, each) }); err != nil {
			return err
		}
	} else if !p.asJSON {
		return entriesCSV(ctx, cmd.OutOrStdout(), f, each)
	}
	if p.asJSON {
		return entriesJSON(ctx, cmd.OutOrStdout(), f, r, each)
	}
	return nil
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
	for i := range t.Rows() {
		for _, c := range columns {
			if c.Missing(i) {
				return nil, fmt.Errorf("line %d, column %q: the value is missing", t.Lines[i], c.Name)
			}
		}
		row, column := columns[0], columns[1]
		e, err := f.Named(row.Levels[row.Codes[i]], column.Levels[column.Codes[i]])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", t.Lines[i], err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// chosenEntries reads the entries of a table with the columns row and column, or those of the names
// that the fit's rows and columns had.
// values are the entries' own values, where the table has them.
func chosenEntries(f *fit.Fit, path string, na []string) (entries []fit.Entry, values []float64, ignored []string, err error) {
	by := []string{cmp.Or(f.RowsBy, "row"), cmp.Or(f.ColumnsBy, "column")}
	t, err := dataio.OpenTable(path, dataio.TableOptions{
		NA: na,
		Columns: func(names []string) error {
			for _, name := range by {
				if !slices.Contains(names, name) {
					return dataio.MissingColumn(name, names)
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
			return nil, nil, nil, fmt.Errorf("%s: column %q, the value of an entry, holds texts such as %.40q, expected numbers, or a table without it", path, v.Name, v.Levels[0])
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
			return nil, nil, nil, fmt.Errorf("%s: column %q holds texts such as %.40q, expected integers counted from 0", path, name, c.Levels[0])
		}
		places[k] = c.Values
		for i, v := range c.Values {
			if v != math.Trunc(v) || math.Abs(v) > 1<<31 {
				return nil, nil, nil, fmt.Errorf("%s: line %d, column %q: found %g, expected an integer counted from 0", path, t.Lines[i], name, v)
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

// score sets the mean error of the chosen entries that have a value of their own.
func (p *predictFlags) score(f *fit.Fit, r *prediction, chosen []fit.Entry, values []float64) {
	sum := 0.0
	for i, y := range values {
		if !math.IsNaN(y) {
			sum += p.at(f.Linear(chosen[i]), y)
			r.RowsWithResponse++
		}
	}
	r.setMean(sum)
}

// stopEvery is the number of entries between two looks at the context.
const stopEvery = 1 << 16

// entriesCSV writes entries as a table.
func entriesCSV(ctx context.Context, to io.Writer, f *fit.Fit, each func(func(fit.Entry) bool)) error {
	w := bufio.NewWriterSize(to, 64<<10)
	rows, columns := labels(f.RowNames, csvCell), labels(f.ColumnNames, csvCell)
	w.WriteString(csvCell(cmp.Or(f.RowsBy, "row")) + "," + csvCell(cmp.Or(f.ColumnsBy, "column")) + ",prediction\n")
	var buf []byte
	if err := eachEntry(ctx, each, func(_ int, e fit.Entry) error {
		buf = append(rows(buf[:0], e.Row), ',')
		buf = append(columns(buf, e.Column), ',')
		buf = append(strconv.AppendFloat(buf, e.Value, 'g', -1, 64), '\n')
		_, err := w.Write(buf)
		return err
	}); err != nil {
		return err
	}
	return w.Flush()
}

// entriesJSON writes the object with the entries at its end, without holding their text.
func entriesJSON(ctx context.Context, to io.Writer, f *fit.Fit, r *prediction, each func(func(fit.Entry) bool)) error {
	head, err := json.Marshal(r)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(to, 64<<10)
	w.Write(head[:len(head)-1])
	w.WriteString(`,"entries":[`)
	rows, columns := labels(f.RowNames, jsonText), labels(f.ColumnNames, jsonText)
	var buf []byte
	if err := eachEntry(ctx, each, func(i int, e fit.Entry) error {
		buf = buf[:0]
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(rows(append(buf, '['), e.Row), ',')
		buf = append(columns(buf, e.Column), ',')
		buf = append(strconv.AppendFloat(buf, e.Value, 'g', -1, 64), ']')
		_, err := w.Write(buf)
		return err
	}); err != nil {
		return err
	}
	w.WriteString("]}\n")
	return w.Flush()
}

// labels appends the name of a row or column as text has it, or its number where it has none.
func labels(names []string, text func(string) string) func(buf []byte, k int) []byte {
	if names == nil {
		return func(buf []byte, k int) []byte { return strconv.AppendInt(buf, int64(k), 10) }
	}
	texts := make([]string, len(names))
	for k, name := range names {
		texts[k] = text(name)
	}
	return func(buf []byte, k int) []byte { return append(buf, texts[k]...) }
}

// csvCell is a text as a cell of a .csv file.
func csvCell(text string) string { return string(dataio.AppendCell(nil, text)) }

// jsonText is a text in JSON.
func jsonText(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string is always valid
	}
	return string(quoted)
}

// eachEntry calls f with every entry and its number, until an error or the end of ctx.
func eachEntry(ctx context.Context, each func(func(fit.Entry) bool), f func(int, fit.Entry) error) error {
	var err error
	i := 0
	each(func(e fit.Entry) bool {
		if i%stopEvery == 0 {
			err = ctx.Err()
		}
		if err == nil {
			err = f(i, e)
		}
		i++
		return err == nil
	})
	return err
}
