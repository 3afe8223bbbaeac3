package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
	"surepipe/internal/fit"
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
		return writeLine(cmd.OutOrStdout(), r)
	}
	return nil
}

// format writes a number with the fewest digits from which it can be read back.
func format(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// entries predicts entries of a matrix, one by one.
func (p *predictFlags) entries(cmd *cobra.Command, f *fit.Fit, r *prediction) error {
	each := f.Missing
	r.Count = len(f.B) - distinct(f.Observed, len(f.B))
	if p.data != "" {
		chosen, ignored, err := chosenEntries(f, p.data)
		if err != nil {
			return usageError{err}
		}
		each = func(yield func(fit.Entry) bool) {
			for _, e := range chosen {
				if !yield(e) {
					return
				}
			}
		}
		r.Count = len(chosen)
		if r.IgnoredColumns = ignored; len(ignored) > 0 {
			r.note(cmd, noteIgnoredColumns, "columns besides row and column are ignored: %.200s", strings.Join(ignored, ", "))
		}
	}
	r.about(cmd)
	ctx := cmd.Context()
	if p.out != "" {
		if err := dataio.WriteFile(p.out, func(w io.Writer) error { return entriesCSV(ctx, w, each) }); err != nil {
			return err
		}
	} else if !p.asJSON {
		return entriesCSV(ctx, cmd.OutOrStdout(), each)
	}
	if p.asJSON {
		return entriesJSON(ctx, cmd.OutOrStdout(), r, each)
	}
	return nil
}

// distinct counts the different places.
func distinct(places []int, n int) int {
	seen, count := make([]bool, n), 0
	for _, c := range places {
		if !seen[c] {
			seen[c] = true
			count++
		}
	}
	return count
}

// chosenEntries reads the entries of a table with the columns row and column.
func chosenEntries(f *fit.Fit, path string) (entries []fit.Entry, ignored []string, err error) {
	t, err := dataio.OpenTable(path, dataio.TableOptions{
		Columns: func(names []string) error {
			for _, name := range []string{"row", "column"} {
				found := false
				for _, n := range names {
					found = found || n == name
				}
				if !found {
					return dataio.MissingColumn(name, names)
				}
			}
			return nil
		},
		Read: func(name string) bool { return name == "row" || name == "column" },
	})
	if err != nil {
		return nil, nil, err
	}
	var places [2][]float64
	for k, name := range []string{"row", "column"} {
		c, err := t.Column(name)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		if c.Values == nil {
			return nil, nil, fmt.Errorf("%s: column %q holds texts such as %.40q, expected integers counted from 0", path, name, c.Levels[0])
		}
		places[k] = c.Values
		for i, v := range c.Values {
			if v != math.Trunc(v) || math.Abs(v) > 1<<31 {
				return nil, nil, fmt.Errorf("%s: line %d, column %q: found %g, expected an integer counted from 0", path, t.Lines[i], name, v)
			}
		}
	}
	for i := range t.Rows() {
		e, err := f.At(int(places[0][i]), int(places[1][i]))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: line %d: %w", path, t.Lines[i], err)
		}
		entries = append(entries, e)
	}
	return entries, t.Unread, nil
}

// stopEvery is the number of entries between two looks at the context.
const stopEvery = 1 << 16

// entriesCSV writes entries as a table.
func entriesCSV(ctx context.Context, to io.Writer, each func(func(fit.Entry) bool)) error {
	w := bufio.NewWriterSize(to, 64<<10)
	w.WriteString("row,column,prediction\n")
	var buf []byte
	if err := eachEntry(ctx, each, func(_ int, e fit.Entry) error {
		buf = append(strconv.AppendInt(buf[:0], int64(e.Row), 10), ',')
		buf = append(strconv.AppendInt(buf, int64(e.Column), 10), ',')
		buf = append(strconv.AppendFloat(buf, e.Value, 'g', -1, 64), '\n')
		_, err := w.Write(buf)
		return err
	}); err != nil {
		return err
	}
	return w.Flush()
}

// entriesJSON writes the object with the entries at its end, without holding their text.
func entriesJSON(ctx context.Context, to io.Writer, r *prediction, each func(func(fit.Entry) bool)) error {
	head, err := json.Marshal(r)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(to, 64<<10)
	w.Write(head[:len(head)-1])
	w.WriteString(`,"entries":[`)
	var buf []byte
	if err := eachEntry(ctx, each, func(i int, e fit.Entry) error {
		buf = buf[:0]
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(strconv.AppendInt(append(buf, '['), int64(e.Row), 10), ',')
		buf = append(strconv.AppendInt(buf, int64(e.Column), 10), ',')
		buf = append(strconv.AppendFloat(buf, e.Value, 'g', -1, 64), ']')
		_, err := w.Write(buf)
		return err
	}); err != nil {
		return err
	}
	w.WriteString("]}\n")
	return w.Flush()
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
