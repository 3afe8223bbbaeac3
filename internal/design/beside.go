package design

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/dataio"
	"surepipe/internal/lists"
)

// Beside names columns of a table that are neither y nor columns of X, "" for none. Each field is an option.
type Beside struct {
	// Weights is the column of the weights of the observations in the loss.
	Weights string `json:"weights,omitempty"`
	// Offset is what the linear predictor has besides X b, and Exposure the same by its exponential: the time, area or
	// number from which y counts.
	Offset   string `json:"offset,omitempty"`
	Exposure string `json:"exposure,omitempty"`
	// Trials is the number of trials of which y is the number of successes.
	Trials string `json:"trials,omitempty"`
	// Time is that of the event or of the end of the observation, Start that of its beginning, and Strata are groups
	// with hazards of their own, of texts or numbers.
	Time   string `json:"time,omitempty"`
	Start  string `json:"start,omitempty"`
	Strata string `json:"strata,omitempty"`
}

// Named is a column by the name of its option.
type Named struct {
	Option, Column string
	// Signed says that its numbers may be below 0, Positive that they are above, and Timed that it is for losses of
	// events at times. Its texts may be labels.
	Signed, Positive, Timed, labels bool
}

// Named lists the columns, "" where there is none.
func (b Beside) Named() []Named {
	return []Named{{Option: "weights", Column: b.Weights}, {Option: "offset", Column: b.Offset, Signed: true},
		{Option: "exposure", Column: b.Exposure, Positive: true}, {Option: "trials", Column: b.Trials},
		{Option: "time", Column: b.Time, Signed: true, Timed: true},
		{Option: "start", Column: b.Start, Signed: true, Timed: true},
		{Option: "strata", Column: b.Strata, Signed: true, Timed: true, labels: true}}
}

func (b Beside) Options() []string {
	return lists.Map(b.Named(), func(n Named) string { return n.Option })
}

// shift lists the columns without which a linear predictor is not known.
func (b Beside) shift() []string {
	return slices.DeleteFunc([]string{b.Offset, b.Exposure}, func(name string) bool { return name == "" })
}

// columns are those of the table, in the order of the options.
func (b Beside) columns(t *dataio.Table) (columns []dataio.Column, err error) {
	for _, n := range b.Named() {
		if n.Column == "" {
			continue
		}
		c, err := t.Column(n.Column)
		switch {
		case err != nil || c.Values != nil:
		case n.labels:
			c = coded(c, c.Levels)
		default:
			err = textColumn(c)
		}
		if err != nil {
			return nil, &OptionError{n.Option, err}
		}
		columns = append(columns, c)
	}
	return columns, nil
}

// weightless lists the rows of weight 0, which are not observations: none where all are.
func (b Beside) weightless(columns []dataio.Column) (rows []int) {
	if b.Weights == "" {
		return nil
	}
	weights := columns[0].Values // the first of the options
	if rows = lists.Places(len(weights), func(i int) bool { return weights[i] == 0 }); len(rows) == len(weights) {
		return nil
	}
	return rows
}

func (b Beside) values(columns []dataio.Column, rows []int) map[string][]float64 {
	values := map[string][]float64{}
	for _, n := range b.Named() {
		if n.Column == "" {
			continue
		}
		values[n.Option], columns = lists.Pick(columns[0].Values, rows), columns[1:]
	}
	return values
}

// Coding says how a response of labels becomes numbers.
type Coding struct {
	// Success is the level that is 1, where the response has two; "" for the second in the order of their bytes.
	Success string
	// Levels is how many levels a response of texts may have: 0 where it must be numbers. Classes says that numbers are
	// labels too.
	Levels  int
	Classes bool
}

// code gives a response of labels the places of their levels as numbers. A response of numbers stays as it is, unless
// one of them is the success.
func (c Coding) code(y dataio.Column, rows []int) (dataio.Column, []string, error) {
	switch {
	case y.Values != nil && c.Success == "" && !c.Classes:
		return y, nil, nil
	case y.Values != nil:
		y = asTexts(y)
	}
	found := levels(y, rows)
	switch n := len(found); {
	case c.Success != "" && !slices.Contains(found, c.Success):
		return y, nil, &OptionError{"success", fmt.Errorf("found %.40q, expected one of the levels of column %q: %s",
			c.Success, y.Name, list(found))}
	case n < 2 || n > c.Levels:
		expected := "two"
		if c.Levels > 2 {
			expected = fmt.Sprintf("2 to %d", c.Levels)
		}
		has := fmt.Sprintf("%d levels", n)
		if n == 1 {
			has = "one level"
		}
		return y, nil, &OptionError{"response", LabelsError{fmt.Errorf("column %q has %s, %s; expected %s",
			y.Name, has, list(found), expected)}}
	case c.Success == found[0] && n == 2:
		slices.Reverse(found)
	}
	return coded(y, found), found, nil
}

// coded is a column of labels with the places of its levels as numbers, NaN for others and where one is missing.
func coded(c dataio.Column, levels []string) dataio.Column {
	of := dataio.Column{Name: c.Name, Values: make([]float64, len(c.Codes))}
	for i, k := range c.Codes {
		of.Values[i] = math.NaN()
		if k >= 0 {
			if at := slices.Index(levels, c.Levels[k]); at >= 0 {
				of.Values[i] = float64(at)
			}
		}
	}
	return of
}

func asTexts(c dataio.Column) dataio.Column {
	of := dataio.Column{Name: c.Name, Codes: make([]int, len(c.Values))}
	text := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for i, v := range c.Values {
		if !c.Missing(i) {
			of.Levels = append(of.Levels, text(v))
		}
	}
	slices.Sort(of.Levels)
	of.Levels = slices.Compact(of.Levels)
	for i, v := range c.Values {
		if of.Codes[i] = -1; !c.Missing(i) {
			of.Codes[i], _ = slices.BinarySearch(of.Levels, text(v))
		}
	}
	return of
}

// response are the values of y in new rows: those of a fit's labels, and shares of successes where there are trials.
func (d *Design) response(t *dataio.Table, y dataio.Column, levels []string) ([]float64, error) {
	switch {
	case levels != nil && y.Values != nil:
		y = coded(asTexts(y), levels)
	case levels != nil:
		y = coded(Unify(y, levels), levels)
	case y.Values == nil:
		return nil, fmt.Errorf("column %q, the response, holds texts such as %.40q, expected numbers, or a "+
			"table without it", y.Name, y.Levels[0])
	}
	if d.Beside.Trials == "" {
		return y.Values, nil
	}
	trials, err := t.Column(d.Beside.Trials)
	if err != nil || trials.Values == nil {
		return nil, nil // without them nothing is known of the response
	}
	return floats.DivTo(make([]float64, len(y.Values)), y.Values, trials.Values), nil
}

// factors are the columns whose product weighs the loss of a row.
func (b Beside) factors() []string { return []string{b.Weights, b.Trials} }

func (d *Design) weigh(t *dataio.Table, r *NewRows) {
	for _, name := range d.Beside.factors() {
		c, err := t.Column(name)
		if name == "" || err != nil || c.Values == nil {
			continue
		}
		if r.Weights == nil {
			r.Weights = slices.Repeat([]float64{1}, t.Rows())
		}
		floats.Mul(r.Weights, c.Values)
	}
}

func (d *Design) offset(t *dataio.Table, r *NewRows) error {
	for _, n := range d.Beside.Named() {
		if n.Column == "" || !slices.Contains(d.Beside.shift(), n.Column) {
			continue
		}
		c, err := t.Column(n.Column)
		switch {
		case err != nil:
			return err
		case c.Values == nil:
			return textColumn(c)
		}
		if r.Offset == nil {
			r.Offset = make([]float64, t.Rows())
		}
		for i, v := range c.Values {
			if n.Option == "exposure" {
				v = math.Log(v)
			}
			if r.Offset[i] += v; c.Missing(i) || math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("%s: found %g, expected the %s of each row", t.Place(i, n.Column), c.Values[i],
					n.Option)
			}
		}
	}
	return nil
}
