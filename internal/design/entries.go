package design

import (
	"errors"
	"fmt"
	"slices"

	"surepipe/internal/dataio"
)

// Entries are the observed entries of a matrix, from a table with a column that names each entry's
// row, one that names its column, and one with its value, such as user, item, rating. The names may
// be of any kind.
type Entries struct {
	// RowsBy, ColumnsBy and ValueBy are the names of the table's columns; ValueBy is empty for a
	// matrix.
	RowsBy, ColumnsBy, ValueBy string
	// Rows and Columns name the rows and the columns of the matrix, in increasing order of their
	// bytes.
	Rows, Columns []string
	// Places are the observed places in the row-major matrix, and Y their values.
	Places  []int
	Y       []float64
	Weights []float64
	// NA is that of the options.
	NA []string
	// Left is the number of rows of the table that were left out.
	Left int
	// Merged says which texts are equal numbers and name one row or column, a text for each column of
	// the table with such texts.
	Merged []string
}

// OpenEntries reads a table of entries: o.Response is the value, o.Weights its weight, and of the two
// other columns that o uses the first names the rows. Texts that are equal numbers, such as 1 and 1.0,
// name the same row or column, where all names are numbers. Errors in the options are OptionErrors; others name
// the file.
func OpenEntries(path string, o Options) (*Entries, error) {
	var by []string
	check := func(names []string) error {
		if err := o.check(names); err != nil {
			return err
		}
		by = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return name == o.Response || name == o.Weights || !o.used(name)
		})
		switch {
		case o.Missing == Mean:
			return &OptionError{"missing", errors.New("found mean, but entries of a matrix have no mean to put in " +
				"their place: expected error or drop")}
		case len(by) != 2:
			return &OptionError{"only", fmt.Errorf("%d columns besides %q are left, %s; expected two, which name "+
				"the rows and the columns of the matrix", len(by), o.Response, list(by))}
		}
		return nil
	}
	return open(path, dataio.TableOptions{
		Files: o.Files, NA: o.NA, Columns: check, Read: o.used,
		Text: func(name string) bool { return name != o.Response && name != o.Weights },
	}, func(t *dataio.Table) (*Entries, error) { return entriesOf(t, by, o) })
}

func entriesOf(t *dataio.Table, by []string, o Options) (*Entries, error) {
	names := []string{o.Response, by[0], by[1]}
	if o.Weights != "" {
		names = append(names, o.Weights)
	}
	columns := make([]dataio.Column, len(names))
	for k, name := range names {
		c, err := t.Column(name)
		if err != nil {
			return nil, err
		}
		if option := map[int]string{0: "response", 3: "weights"}[k]; option != "" && c.Values == nil {
			return nil, &OptionError{option, textColumn(c)}
		}
		columns[k] = c
	}
	kept, err := o.rows(t, columns, len(columns), nil)
	if err != nil {
		return nil, err
	}
	e := &Entries{RowsBy: by[0], ColumnsBy: by[1], ValueBy: o.Response, NA: o.NA, Left: t.Rows() - len(kept)}
	for k := 1; k <= 2; k++ {
		var merged string
		if columns[k], merged = unify(columns[k], nil); merged != "" {
			e.Merged = append(e.Merged, merged)
		}
	}
	y, row, column := columns[0], columns[1], columns[2]
	if o.Weights != "" {
		if e.Weights, err = weightsOf(t, columns[3], kept); err != nil {
			return nil, err
		}
	}
	rowAt, columnAt := e.index(&e.Rows, row, kept), e.index(&e.Columns, column, kept)
	e.Places, e.Y = make([]int, len(kept)), make([]float64, len(kept))
	for k, i := range kept {
		e.Places[k], e.Y[k] = rowAt[row.Codes[i]]*len(e.Columns)+columnAt[column.Codes[i]], y.Values[i]
	}
	if first, again, twice := repeated(e.Places); twice {
		i := kept[again]
		return nil, fmt.Errorf("line %d repeats the entry of line %d, %s %.40q and %s %.40q: expected each to be "+
			"observed once", t.Lines[i], t.Lines[kept[first]], row.Name, row.Levels[row.Codes[i]], column.Name,
			column.Levels[column.Codes[i]])
	}
	return e, nil
}

// repeated finds the first place in the list that is there before.
func repeated(places []int) (first, again int, twice bool) {
	sorted := slices.Clone(places)
	slices.Sort(sorted)
	if len(slices.Compact(sorted)) == len(places) {
		return 0, 0, false
	}
	seen := map[int]int{}
	for k, c := range places {
		if first, twice = seen[c]; twice {
			return first, k, true
		}
		seen[c] = k
	}
	panic("design: places are repeated and are not")
}

func weightsOf(t *dataio.Table, c dataio.Column, rows []int) ([]float64, error) {
	var w []float64
	for _, i := range rows {
		if !(c.Values[i] > 0) {
			return nil, &OptionError{"weights", fmt.Errorf("%s: found %g, expected a positive weight: leave out "+
				"the line of an entry that does not count", t.Place(i, c.Name), c.Values[i])}
		}
		w = append(w, c.Values[i])
	}
	return w, nil
}

// index lists the levels that occur in the given rows, and returns their places in the list by code.
func (e *Entries) index(names *[]string, c dataio.Column, rows []int) []int {
	*names = levels(c, rows)
	at := make([]int, len(c.Levels))
	for k, level := range c.Levels {
		at[k], _ = slices.BinarySearch(*names, level)
	}
	return at
}
