package design

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
)

// Missing says what happens to missing values.
type Missing string

const (
	Refuse Missing = "error"
	Drop   Missing = "drop"
	Mean   Missing = "mean"
)

// Options say which columns of a table are used, and how.
type Options struct {
	// Files has the table.
	dataio.Files
	// Response is the column that is y.
	Response string
	// Only are the columns of X, all but the response where it is nil; Drop are left out.
	Only, Drop []string
	// Categorical are columns of numbers that are coded as categories.
	Categorical []string
	// Missing is Refuse where it is empty. NA are the texts that stand for a missing value, nil for
	// [dataio.MissingMarks].
	Missing Missing
	// NA is that of the options.
	NA []string
	// Reference leaves out the first level of each categorical column, Binary that of those with two levels.
	Reference, Binary bool
	// NoX leaves out all columns but the response, whose values are those of a sequence, and its index:
	// the column Index, or where that is empty the first one if its values show that it is one.
	NoX   bool
	Index string
	Beside
	// Groups is the column by which rows belong together, which is no column of X; "" for none.
	Groups string
	Coding

	// Whole leaves out rows in which any of several responses is missing.
	Whole bool

	others []string // further responses, of [Options.Whole]
	like   *Data    // of another response, whose X serves where the same rows are kept
}

type OptionError struct {
	Option string // response, success, index, only, drop, categorical, missing, groups or of [Beside]
	Err    error
}

func (e *OptionError) Error() string { return e.Option + ": " + e.Err.Error() }

// Unwrap returns the error without the option's name.
func (e *OptionError) Unwrap() error { return e.Err }

// LabelsError is the error of a response of labels where numbers, or two labels, are expected.
type LabelsError struct{ error }

// Design says how the columns of a table become the columns of X. It can be written as JSON.
type Design struct {
	Response  string     `json:"response"`
	Variables []Variable `json:"variables"`
	// Levels are those of a response of texts or of labels: y is the place of its level.
	Levels []string `json:"levels,omitempty"`
	Beside Beside   `json:"beside,omitzero"`
}

// Variable is a column of a table that is coded as one or more columns of X.
type Variable struct {
	Name string `json:"name"`
	// Levels are the levels of a categorical column, nil for one of numbers. Reference says that
	// the first has no column of X.
	Levels    []string `json:"levels,omitempty"`
	Reference bool     `json:"reference,omitempty"`
	// Fill replaces a missing value, a number for each column of X; nil where it is refused.
	Fill []float64 `json:"fill,omitempty"`
}

func (v Variable) Width() int {
	switch {
	case v.Levels == nil:
		return 1
	case v.Reference:
		return len(v.Levels) - 1
	}
	return len(v.Levels)
}

// Columns names the columns of X: "name", or "name=level" of a categorical column.
func (d *Design) Columns() []string {
	var names []string
	for _, v := range d.Variables {
		if v.Levels == nil {
			names = append(names, v.Name)
			continue
		}
		for _, level := range v.Levels[len(v.Levels)-v.Width():] {
			names = append(names, v.Name+"="+level)
		}
	}
	return names
}

// Groups labels each column of X with the place of its variable.
func (d *Design) Groups() []int {
	var labels []int
	for g, v := range d.Variables {
		labels = append(labels, slices.Repeat([]int{g}, v.Width())...)
	}
	return labels
}

// Redundant lists columns of X, one for each categorical column with all its levels, that depend on
// the others and a column of ones: the indicators of all levels add up to one.
func (d *Design) Redundant() []int {
	var redundant []int
	at := 0
	for _, v := range d.Variables {
		if v.Levels != nil && !v.Reference {
			redundant = append(redundant, at)
		}
		at += v.Width()
	}
	return redundant
}

// Data is the design matrix and the response of a table.
type Data struct {
	Design Design
	NA     []string
	// X is nil with NoX.
	X *mat.Dense
	Y []float64
	// Several are those of all responses that are one y of several columns; nil elsewhere.
	Several []*Data
	// Beside are the columns of the options by the names of these, nil where there are none.
	Beside map[string][]float64
	// Groups are labels of the rows by the column of the options, nil where there is none.
	Groups []int
	// Rows names the rows of X, nil where the table does not.
	Rows []string
	// Left is the number of rows that were left out, and Filled the number of cells whose missing
	// values were replaced. Weightless is the number of rows of weight 0, which are left out too.
	Left, Filled, Weightless int
	// Sequence is what is known of a sequence, with NoX.
	Sequence *Sequence
	// Merged says which texts of categorical columns are equal numbers and count as one level, a text
	// for each such column.
	Merged []string

	kept []int // the rows of the table
}

// Open reads a table and builds X and y. Errors in the options are OptionErrors; others name the
// file.
func Open(path string, o Options) (*Data, error) {
	if o.NoX {
		return openSequence(path, o)
	}
	return open(path, dataio.TableOptions{
		Files: o.Files, NA: o.NA, Columns: o.check, Read: o.used,
		Text: func(name string) bool { return slices.Contains(o.Categorical, name) },
	}, func(t *dataio.Table) (*Data, error) { return Build(t, o) })
}

func open[T any](path string, reading dataio.TableOptions, build func(t *dataio.Table) (*T, error)) (*T, error) {
	t, err := dataio.OpenTable(path, reading)
	var data *T
	if err == nil {
		if data, err = build(t); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if option := (*OptionError)(nil); errors.As(err, &option) {
		err = option
	}
	return data, err
}

func (o Options) used(name string) bool {
	return name == o.Response || o.beside(name) ||
		!slices.Contains(o.Drop, name) && (o.Only == nil || slices.Contains(o.Only, name))
}

// inX reports whether a column is one of X. One with a use of its own is where Only names it too.
func (o Options) inX(name string) bool {
	return name != o.Response && (!o.beside(name) || slices.Contains(o.Only, name)) && o.used(name)
}

// beside reports whether a column is neither y nor one of X, but has a use of its own.
func (o Options) beside(name string) bool {
	return name != "" && slices.ContainsFunc(o.named(), func(n Named) bool { return n.Column == name })
}

func (o Options) named() []Named {
	return append(o.Beside.Named(), Named{Option: "groups", Column: o.Groups})
}

func (o Options) check(names []string) error {
	if !slices.Contains(names, o.Response) {
		return &OptionError{"response", ndarray.MissingColumn(o.Response, names)}
	}
	for _, n := range append(o.named(), Named{Option: "index", Column: o.Index}) {
		switch {
		case n.Column == "":
		case !slices.Contains(names, n.Column):
			return &OptionError{n.Option, ndarray.MissingColumn(n.Column, names)}
		case n.Column == o.Response:
			return &OptionError{n.Option, fmt.Errorf("column %q is the response", n.Column)}
		}
	}
	if err := o.checkLists(names); err != nil {
		return err
	}
	if !o.NoX && !slices.ContainsFunc(names, func(name string) bool { return o.inX(name) }) {
		return &OptionError{"response", fmt.Errorf("no column besides %q is left for X", o.Response)}
	}
	if !slices.Contains([]Missing{"", Refuse, Drop, Mean}, o.Missing) {
		return &OptionError{"missing", fmt.Errorf("found %q, expected error, drop or mean", o.Missing)}
	}
	return nil
}

// checkLists rejects lists of columns of which one is not there, or has another use.
func (o Options) checkLists(names []string) error {
	for _, list := range []struct {
		option string
		names  []string
	}{{"only", o.Only}, {"drop", o.Drop}, {"categorical", o.Categorical}} {
		for _, name := range list.names {
			switch {
			case !slices.Contains(names, name):
				return &OptionError{list.option, ndarray.MissingColumn(name, names)}
			case name == o.Response:
				return &OptionError{list.option, fmt.Errorf("column %q is the response", name)}
			case list.option == "categorical" && !o.used(name):
				return &OptionError{list.option, fmt.Errorf("column %q is not used", name)}
			}
		}
	}
	return nil
}

func Build(t *dataio.Table, o Options) (*Data, error) {
	if err := o.check(t.Names()); err != nil {
		return nil, err
	}
	columns := slices.DeleteFunc(slices.Clone(t.Columns), func(c dataio.Column) bool { return !o.inX(c.Name) })
	y, err := t.Column(o.Response)
	if err != nil {
		return nil, &OptionError{"response", err}
	}
	if y.Values == nil && o.Levels == 0 {
		return nil, &OptionError{"response", LabelsError{textColumn(y)}}
	}
	beside, err := o.columns(t)
	if err != nil {
		return nil, err
	}
	needed := append([]dataio.Column{y}, beside...)
	needed = append(needed, o.with(t)...)
	weightless := o.weightless(beside)
	kept, err := o.rows(t, slices.Concat(needed, columns), len(needed), weightless)
	if err != nil {
		return nil, err
	}
	data := &Data{Design: Design{Response: o.Response, Beside: o.Beside}, NA: o.NA, Weightless: len(weightless),
		kept: kept}
	data.Left = t.Rows() - len(kept) - data.Weightless
	if y, data.Design.Levels, err = o.code(y, kept); err != nil {
		return nil, err
	}
	data.Y = lists.Pick(y.Values, kept)
	data.Beside = o.values(beside, kept)
	if of := o.like; of != nil && slices.Equal(of.kept, kept) {
		data.X, data.Design.Variables, data.Merged = of.X, of.Design.Variables, of.Merged
		data.Filled, data.Rows, data.Groups = of.Filled, of.Rows, of.Groups
		return data, nil
	}
	if err := o.variables(data, columns, kept); err != nil {
		return nil, err
	}
	if err := data.Design.checkNames(); err != nil {
		return nil, err
	}
	if len(data.Design.Columns()) == 0 {
		return nil, fmt.Errorf("every column besides %q has a single level: no column is left for X", o.Response)
	}
	if o.Missing == Mean {
		data.fill(columns, kept)
	}
	data.Rows = lists.Pick(t.RowNames, kept)
	if o.Groups != "" {
		if data.Groups, err = labels(t, o.Groups, kept); err != nil {
			return nil, err
		}
	}
	data.X, data.Filled, err = data.Design.code(t, columns, kept)
	return data, err
}

// variables sets the coding of the columns, of which equal texts become one.
func (o *Options) variables(d *Data, columns []dataio.Column, kept []int) error {
	for j := range columns {
		var merged string
		if columns[j], merged = unify(columns[j], nil); merged != "" {
			d.Merged = append(d.Merged, merged)
		}
		c := columns[j]
		v := Variable{Name: c.Name}
		if err := checkColumn(c, kept); err != nil {
			return err
		}
		if c.Values == nil {
			v.Levels = levels(c, kept)
			v.Reference = o.Reference || o.Binary && len(v.Levels) == 2
		}
		d.Design.Variables = append(d.Design.Variables, v)
	}
	return nil
}

// checkNames rejects columns of X with the same name: that of a column of the table, and of a level
// of another.
func (d *Design) checkNames() error {
	from := map[string]string{}
	for _, v := range d.Variables {
		of := Design{Variables: []Variable{v}}
		for _, name := range of.Columns() {
			if other, twice := from[name]; twice {
				return fmt.Errorf("columns %q and %q of the table both give a column of X with the name %.60q: "+
					"rename one of them", other, v.Name, name)
			}
			from[name] = v.Name
		}
	}
	return nil
}

// rows lists the rows without missing values, or with Mean those whose first columns, so many as are needed, have
// values. Rows without a weight are not among them, whatever they hold.
func (o Options) rows(t *dataio.Table, columns []dataio.Column, needed int, weightless []int) ([]int, error) {
	var kept []int
	count := 0
	where := ""
	per := make([]int, len(columns))
	for i := range t.Rows() {
		if len(weightless) > 0 && weightless[0] == i {
			weightless = weightless[1:]
			continue
		}
		whole := true
		for j, c := range columns {
			if !c.Missing(i) {
				continue
			}
			if count == 0 {
				where = t.Place(i, c.Name)
			}
			count++
			per[j]++
			whole = whole && o.Missing == Mean && j >= needed
		}
		if whole {
			kept = append(kept, i)
		}
	}
	if count > 0 && (o.Missing == "" || o.Missing == Refuse) {
		var in []string
		for j, n := range per {
			if n > 0 {
				in = append(in, fmt.Sprintf("%s %d", columns[j].Name, n))
			}
		}
		if len(in) > 6 {
			in = append(in[:6], "...")
		}
		return nil, &OptionError{"missing", fmt.Errorf("%s: the value is missing, the first of %d (%s); expected "+
			"drop, to leave out such rows, or mean, to put the column's mean in their place", where, count,
			strings.Join(in, ", "))}
	}
	if len(kept) == 0 {
		return nil, &OptionError{"missing", fmt.Errorf("no row is left: each of the %d has a missing value", t.Rows())}
	}
	return kept, nil
}

// checkColumn rejects columns that carry nothing to learn from: those without values, and texts
// that nearly all differ, such as names.
func checkColumn(c dataio.Column, kept []int) error {
	observed := len(lists.Places(len(kept), func(k int) bool { return !c.Missing(kept[k]) }))
	if observed == 0 {
		return fmt.Errorf("column %q holds no values in the %d rows that are used; leave it out with drop", c.Name,
			len(kept))
	}
	found := levels(c, kept)
	odd := (&Variable{Levels: found}).AmongNumbers()
	if n := len(found); n > 2 && (n == observed || n > 20 && 2*n > observed) {
		if len(odd) > 0 {
			return fmt.Errorf("column %q holds numbers in quotes and texts among them, %s: write these as missing "+
				"values, or leave it out with drop", c.Name, list(odd))
		}
		return fmt.Errorf("column %q holds %d different texts in %d rows, such as %.40q: a name and not a "+
			"category; leave it out with drop", c.Name, n, len(kept), c.Levels[0])
	}
	return nil
}

// AmongNumbers lists the levels of a category that are no numbers, where most are: quoted numbers, a few of which are
// written in another way.
func (v *Variable) AmongNumbers() []string {
	odd := slices.DeleteFunc(slices.Clone(v.Levels), func(s string) bool { _, number := decimal(s); return number })
	if 2*len(odd) >= len(v.Levels) {
		return nil
	}
	return odd
}

func levels(c dataio.Column, rows []int) []string {
	if c.Values != nil {
		return nil
	}
	occurs := make([]bool, len(c.Levels))
	for _, i := range rows {
		if c.Codes[i] >= 0 {
			occurs[c.Codes[i]] = true
		}
	}
	return lists.Pick(c.Levels, lists.Places(len(occurs), func(k int) bool { return occurs[k] }))
}

func list(texts []string) string {
	quoted := lists.Map(texts, func(s string) string { return fmt.Sprintf("%.40q", s) })
	if len(quoted) > 12 {
		quoted = append(quoted[:12], fmt.Sprintf("%d more", len(texts)-12))
	}
	return strings.Join(quoted, ", ")
}

// Arrays are y, and where there is an X, X and groups, the labels of its columns, under these names; else
// indices and shape, the places of y in the sequence and the length of that. They share memory with d.
func (d *Data) Arrays() []dataio.Array {
	y := d.y()
	if d.X == nil {
		return append(d.Sequence.arrays(), y)
	}
	rows, p := d.X.Dims()
	labels := lists.Map(d.Design.Groups(), func(g int) float64 { return float64(g) })
	return []dataio.Array{
		{Name: "X", Shape: []int{rows, p}, Data: d.X.RawMatrix().Data},
		y,
		{Name: "groups", Shape: []int{p}, Data: labels},
	}
}
