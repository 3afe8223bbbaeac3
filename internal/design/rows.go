package design

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
)

// NewRows is the design matrix of new rows.
type NewRows struct {
	X    *mat.Dense
	Rows []string
	// Y holds the responses, row by row, NaN where one is missing; nil where the table has none of these columns.
	Y []float64
	// Weights are those of the losses of the rows, numbers of trials among them; nil where the table has none.
	Weights []float64
	// Offset is what the linear predictor has besides X b, nil for nothing.
	Offset []float64
	// Ignored are the columns of the table that the design does not use, and Filled the number of
	// cells whose missing values were replaced.
	Ignored []string
	Filled  int
}

// OpenRows reads a table and codes its rows as d does, whatever the order of the columns. It
// rejects a table in which a column is missing or of another kind, a level that d does not know, and
// missing values for which d has no replacement. na are the texts that stand for one, nil for
// [dataio.MissingMarks]. The responses are the design's, or several with these levels. Errors name the file and the
// place.
func (d *Design) OpenRows(files dataio.Files, path string, na []string, several ...Response) (*NewRows, error) {
	named := func(name string) *Variable {
		if i := slices.IndexFunc(d.Variables, func(v Variable) bool { return v.Name == name }); i >= 0 {
			return &d.Variables[i]
		}
		return nil
	}
	several = d.responses(several)
	return open(path, dataio.TableOptions{
		Files: files, NA: na,
		Columns: func(names []string) error {
			needed := append(lists.Map(d.Variables, func(v Variable) string { return v.Name }), d.Beside.shift()...)
			missing := slices.DeleteFunc(needed, func(name string) bool { return slices.Contains(names, name) })
			switch {
			case len(missing) == 1:
				return ndarray.MissingColumn(missing[0], names)
			case len(missing) > 1:
				return fmt.Errorf("%d columns of the fit are missing: %s; the table holds %s", len(missing),
					list(missing), list(names))
			}
			return nil
		},
		Read: func(name string) bool {
			return slices.ContainsFunc(several, func(r Response) bool { return r.Name == name }) ||
				named(name) != nil || name != "" && slices.Contains(d.Beside.factors(), name) ||
				slices.Contains(d.Beside.shift(), name)
		},
		Text: func(name string) bool { v := named(name); return v != nil && v.Levels != nil },
	}, func(t *dataio.Table) (*NewRows, error) { return d.Code(t, several...) })
}

// Response is a column that is predicted, with the levels of which it has the places, nil for numbers.
type Response struct {
	Name   string
	Levels []string
}

// responses are several, or the design's own for none.
func (d *Design) responses(several []Response) []Response {
	if several == nil {
		return []Response{{d.Response, d.Levels}}
	}
	return several
}

func (d *Design) Code(t *dataio.Table, several ...Response) (*NewRows, error) {
	r := &NewRows{Rows: t.RowNames, Ignored: t.Unread}
	columns := make([]dataio.Column, len(d.Variables))
	for j, v := range d.Variables {
		c, err := t.Column(v.Name)
		if err != nil {
			return nil, err
		}
		if v.Levels == nil && c.Values == nil {
			return nil, fmt.Errorf("column %q holds texts such as %.40q, but numbers in the fit", v.Name, c.Levels[0])
		}
		c = Unify(c, v.Levels)
		if v.Levels != nil && c.Values != nil {
			// All cells are missing.
			c.Codes = slices.Repeat([]int{-1}, t.Rows())
			c.Values = nil
		}
		columns[j] = c
	}
	several = d.responses(several)
	for k, of := range several {
		c, err := t.Column(of.Name)
		if err != nil {
			continue
		}
		y, err := d.response(t, c, of.Levels)
		if err != nil {
			return nil, err
		}
		if r.Y == nil && y != nil {
			r.Y = slices.Repeat([]float64{math.NaN()}, t.Rows()*len(several))
		}
		for i, v := range y {
			r.Y[i*len(several)+k] = v
		}
	}
	d.weigh(t, r)
	if err := d.offset(t, r); err != nil {
		return nil, err
	}
	all := lists.Upto(t.Rows())
	var err error
	r.X, r.Filled, err = d.code(t, columns, all)
	return r, err
}
