package design

import (
	"context"
	"fmt"
	"math"

	"surepipe/internal/dataio"
)

// Series is a sequence of a table.
type Series struct {
	// Y are its values, NaN where one is missing.
	Y []float64
	// At are the places of the values, increasing, nil where they are not given.
	At []float64
}

// OpenSeries reads a sequence in which values may be missing: the column that is the response, or the only one of a table,
// which then needs no header line. index is the column of the places, "" for none. Errors name the file.
func OpenSeries(ctx context.Context, path, response, index string) (*Series, error) {
	used := func(name string) bool { return response == "" || name == response || name == index }
	t, err := dataio.OpenTable(path, dataio.TableOptions{Context: ctx, Unnamed: response == "", Read: used, Columns: func(names []string) error {
		for option, name := range map[string]string{"response": response, "index": index} {
			if o := (Options{Response: name, NoX: true}); name != "" {
				if err := o.check(names); err != nil {
					return &OptionError{option, dataio.MissingColumn(name, names)}
				}
			}
		}
		if n := len(names); response == "" && n != 1 && !(n == 2 && index != "") {
			return &OptionError{"response", fmt.Errorf("which column is the sequence? Expected one of %s", list(names))}
		}
		return nil
	}})
	if err != nil {
		return nil, unnamed(err)
	}
	s := &Series{}
	for _, c := range t.Columns {
		if c.Values == nil {
			return nil, fmt.Errorf("%s: %w", path, &dataio.TextColumnError{Column: c.Name, Text: c.Levels[0]})
		}
		if c.Name == index {
			s.At = c.Values
		} else {
			s.Y = c.Values
		}
	}
	for i := range t.Rows() {
		switch {
		case i > 0 && s.At == nil && t.Lines[i] != t.Lines[i-1]+1:
			return nil, fmt.Errorf("%s: line %d is empty, expected a number, or NA where a value is missing", path, t.Lines[i-1]+1)
		case s.At != nil && (math.IsNaN(s.At[i]) || i > 0 && !(s.At[i] > s.At[i-1])):
			return nil, &OptionError{"index", fmt.Errorf("%s: found %g, expected increasing numbers", place(t, i, index), s.At[i])}
		}
	}
	return s, nil
}
