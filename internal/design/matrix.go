package design

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"surepipe/internal/dataio"
)

// OpenMatrix reads a table that is a matrix in which some entries are missing: every column is one of
// numbers. A header line names the matrix's columns and a first column without a name its rows; where
// there are none they are counted from 0. The observed entries are in the
// order of the rows. Files, NA, Only and Drop alone matter among the options.
func OpenMatrix(path string, o Options) (*Entries, error) {
	return open(path, dataio.TableOptions{Files: o.Files, NA: o.NA, Unnamed: true, Columns: o.checkLists,
		Read: o.used}, matrixEntries)
}

func matrixEntries(t *dataio.Table) (*Entries, error) {
	m, err := t.Matrix()
	if err != nil {
		var texts *dataio.TextColumnError
		if errors.As(err, &texts) {
			err = fmt.Errorf("%w in a matrix of which some entries are missing, and --drop leaves columns out; for a "+
				"table with an entry a line, which column is the value? Expected --response NAME, one of %s", err,
				list(t.Names()))
		}
		return nil, err
	}
	rows, cols := m.Shape[0], m.Shape[1]
	e := &Entries{RowsBy: "row", ColumnsBy: "column", Rows: t.RowNames, Columns: t.Names()}
	if e.Rows == nil {
		for i := range rows {
			e.Rows = append(e.Rows, strconv.Itoa(i))
		}
	}
	seen := map[string]int{}
	for i, name := range e.Rows {
		first, twice := seen[name]
		if seen[name] = i; twice {
			return nil, fmt.Errorf("lines %d and %d are both named %.40q, expected different names of rows",
				t.Lines[first], t.Lines[i], name)
		}
	}
	for c, v := range m.Data {
		if !math.IsNaN(v) {
			e.Places, e.Y = append(e.Places, c), append(e.Y, v)
		}
	}
	switch {
	case len(e.Y) == rows*cols:
		return nil, fmt.Errorf("no entry of the %d x %d matrix is missing (empty, NA or NaN): for a table "+
			"with an entry a line, which column is the value? Expected --response NAME, one of %s; a whole matrix "+
			"is denoised by --problem svt", rows, cols, list(t.Names()))
	case len(e.Y) == 0:
		return nil, fmt.Errorf("every entry of the %d x %d matrix is missing", rows, cols)
	}
	return e, nil
}
