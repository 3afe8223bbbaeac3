package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe/internal/dataio"
	"surepipe/internal/design"
	"surepipe/problems"
)

// tableFlags are the flags about the columns of a table, and of X.
type tableFlags struct {
	response                string
	drop, only, categorical []string
	missing                 string
	weights, index          string
	standardize             bool
}

func (t *tableFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&t.response, "response", "", "in a table (.csv, .tsv) with a header line: the `column` that is y; the others are X, and columns of texts are coded as indicators")
	flags.StringSliceVar(&t.drop, "drop", nil, "in a table: leave out these `columns`, separated by commas")
	flags.StringSliceVar(&t.only, "only", nil, "in a table: only these `columns`, besides the response")
	flags.StringSliceVar(&t.categorical, "categorical", nil, "in a table: `columns` of numbers that stand for categories")
	flags.StringVar(&t.index, "index", "", "whittaker: in a table, the `column` of increasing numbers at which the values are, if these are not evenly spaced")
	flags.StringVar(&t.weights, "weights", "", weightsFlag)
	flags.StringVar(&t.missing, "missing", string(design.Refuse), "in a table: what to do about missing values: error, drop (leave out such rows) or mean (in X, the mean of the column; rows without a response are left out)")
}

// options are those of package design.
func (t *tableFlags) options() design.Options {
	o := design.Options{Response: t.response, Drop: t.drop, Only: t.only, Categorical: t.categorical, Weights: t.weights}
	if t.missing != string(design.Refuse) {
		o.Missing = design.Missing(t.missing)
	}
	return o
}

// checkTable rejects flags about the columns of a table where there is none, and sets the defaults
// of regressions of a table.
func (f *estimatorFlags) checkTable(changed func(flag string) bool, l problems.Layout) error {
	t := &f.table
	ways := []string{string(design.Refuse), string(design.Drop), string(design.Mean)}
	if !slices.Contains(ways, t.missing) {
		return usagef("--missing is %q, expected error, drop or mean", t.missing)
	}
	for _, list := range []struct {
		flag  string
		names []string
	}{{"drop", t.drop}, {"only", t.only}, {"categorical", t.categorical}} {
		if changed(list.flag) && (len(list.names) == 0 || slices.Contains(list.names, "")) {
			return usagef("--%s has an empty name, expected names of columns separated by commas", list.flag)
		}
	}
	if f.spec != "" {
		return nil
	}
	for _, flag := range []string{"drop", "only", "categorical", "missing"} {
		if changed(flag) && t.response == "" {
			return usagef("--%s is about the columns of a table, but --response is missing, which names the column that is y", flag)
		}
	}
	for _, flag := range []string{"drop", "only", "categorical", "missing"} {
		if changed(flag) && l.Gaps {
			return usagef("--%s is not for %s: missing values of its sequence are gaps, which it fills", flag, f.problem)
		}
	}
	switch {
	case t.index != "" && !dataio.IsTable(f.data):
		return usagef("--index is %q, but %s is not a table by its name (.csv, .tsv)", t.index, f.data)
	case t.response == "":
		return nil
	case f.data == "":
		return usagef("--response is %q, but --data is missing, expected a table (.csv, .tsv)", t.response)
	case f.x != "":
		return usagef("--response is %q and --X %q: the table has both, expected one of them", t.response, f.x)
	case f.y != "":
		return usagef("--response is %q and --y %q: expected one of them", t.response, f.y)
	case !l.Design && l.YRank == 2:
		return usagef("--response is %q, but y of %s is a matrix, the whole table", t.response, f.problem)
	case !dataio.IsTable(f.data):
		return usagef("--response is %q, but %s is not a table with a header line (.csv, .tsv) by its name", t.response, f.data)
	}
	if !changed("intercept") {
		f.intercept = l.Design
	}
	if !changed("standardize") {
		t.standardize = l.Design
	}
	return nil
}

// tableOptions are those of a table that is read for the command.
func (in *inputs) tableOptions() design.Options {
	o := in.table.options()
	o.Context = in.context()
	return o
}

// openEntries reads the observed entries of a matrix from a table.
func (in *inputs) openEntries() (*design.Entries, error) {
	e, err := design.OpenEntries(in.data, in.tableOptions())
	if err != nil {
		return nil, in.tableError(err)
	}
	in.putEntries(e)
	return e, nil
}

// openMatrix reads the observed entries from a table that is a matrix with missing ones.
func (in *inputs) openMatrix() (*design.Entries, error) {
	e, err := design.OpenMatrix(in.context(), in.data)
	if err != nil {
		return nil, usageError{err}
	}
	in.putEntries(e)
	return e, nil
}

// putEntries stores entries as arrays.
func (in *inputs) putEntries(e *design.Entries) {
	ints := make([]int64, len(e.Places))
	for i, c := range e.Places {
		ints[i] = int64(c)
	}
	in.more["y"] = dataio.Array{Name: "y", Shape: []int{len(ints)}, Data: e.Y}
	in.more["indices"] = dataio.Array{Name: "indices", Shape: []int{len(ints)}, Ints: ints}
	in.more["shape"] = dataio.Array{Name: "shape", Shape: []int{2}, Ints: []int64{int64(len(e.Rows)), int64(len(e.Columns))}}
	if e.Weights != nil {
		in.more["weights"] = dataio.Array{Name: "weights", Shape: []int{len(ints)}, Data: e.Weights}
	}
}

// openTable reads the table of --data. A sequence is one of its columns.
func (in *inputs) openTable() (*design.Data, error) {
	o := in.tableOptions()
	o.Reference, o.NoX = in.problem == "ols", !in.layout.Design
	table, err := design.Open(in.data, o)
	return table, in.tableError(err)
}

// openSeries reads the sequence of --data, which may have gaps.
func (in *inputs) openSeries() (at []float64, err error) {
	s, err := design.OpenSeries(in.context(), in.data, in.table.response, in.table.index)
	if err != nil {
		return nil, in.tableError(err)
	}
	in.more["y"] = dataio.Array{Name: "y", Shape: []int{len(s.Y)}, Data: s.Y}
	return s.At, nil
}

// askResponse asks for --response where --data is a table with named columns, and nothing else says
// what X and y are.
func (in *inputs) askResponse() error {
	if !in.layout.Design || in.haveY || in.x != "" || !dataio.IsTable(in.data) {
		return nil
	}
	t, err := dataio.OpenTable(in.data, dataio.TableOptions{Context: in.context(), Read: func(string) bool { return false }})
	if err != nil {
		return nil // the file is read again as numbers, with the error of that
	}
	return usagef("%s: which column is the response? Expected --response NAME%s, or --y FILE", in.data, columnNames(t.Names()))
}

// columnNames lists the columns of a table for an error.
func columnNames(names []string) string {
	if len(names) == 0 {
		return " (the file has no header line that names the columns)"
	}
	const most = 12
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	return ", one of " + strings.Join(names, ", ") + more
}

// tableError names the flag of an option about the columns of a table.
func (f *estimatorFlags) tableError(err error) error {
	var option *design.OptionError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &option):
		return usagef("%s: --%s: %w", cmp.Or(f.data, f.spec), option.Option, option.Err)
	}
	return usageError{err}
}

// warnData prints what the user should know about the data.
func (f *estimatorFlags) warnData(cmd *cobra.Command, data problems.Data) {
	f.warnIntercept(cmd, data)
	f.noteTable(cmd, data)
	f.noteStorage(cmd, data)
	f.noteScales(cmd, data)
}

// noteTable prints what was left out of a table, or replaced.
func (f *estimatorFlags) noteTable(cmd *cobra.Command, data problems.Data) {
	if t := data.Table; t != nil && t.Left > 0 {
		f.note(cmd, noteRowsLeftOut, "%d of %d rows have a missing value and are left out", t.Left, t.Left+len(t.Y))
	}
	if e := data.Entries; e != nil && e.Left > 0 {
		f.note(cmd, noteRowsLeftOut, "%d of %d rows have a missing value and are left out", e.Left, e.Left+len(e.Y))
	}
	var merged []string
	if data.Table != nil {
		merged = data.Table.Merged
	}
	if data.Entries != nil {
		merged = append(merged, data.Entries.Merged...)
	}
	if len(merged) > 0 {
		f.note(cmd, noteMerged, "texts that are equal numbers count as one: %s", strings.Join(merged, "; "))
	}
	if t := data.Table; t != nil && t.Filled > 0 {
		f.note(cmd, noteFilled, "%d missing values are replaced by the means of their columns", t.Filled)
	}
}

// mostSpread is the ratio of the standard deviations of columns from which their units are likely
// to decide what a penalty does.
const mostSpread = 10

// noteScales prints a note if a penalty treats alike columns in very different units.
func (f *estimatorFlags) noteScales(cmd *cobra.Command, data problems.Data) {
	if l, _ := layoutOf(f.problem); !l.Design || f.specification != nil || f.table.standardize || f.problem == "ols" {
		return
	}
	least, most, ok := data.ScaleRange()
	if !ok || most <= mostSpread*least {
		return
	}
	f.note(cmd, noteScales, "the standard deviations of the columns of X range from %.3g to %.3g, and the penalty depends on their units: --standardize makes it independent of them", least, most)
}

// tableHelp describes tables, and the scale of lambda.
const tableHelp = `Tables. With --response, --data is a table with a header line, as R, pandas and spreadsheets
write it: cells between commas, semicolons, tabs or spaces, quoted or not, decimal points, or
decimal commas where the separator is no comma. A first column without a name has the names of
the rows. Empty cells, NA, NaN, null, "?" and "." are missing: see --missing. A column of texts
has a column of zeros and ones in X for each of its levels, named column=level; for ols the
first level has none. group-lasso penalizes the columns of X that come from one column of the
table as a group. matrix-completion takes the observed entries from a table with two columns
besides the response (--only names them), of which the first names the row of the matrix and the
second its column, by numbers or texts. Texts that are equal numbers, such as 1 and 1.0, are one
name, where all names are numbers. Tables of regressions have an intercept and standardized columns, if --intercept=false or
--standardize=false do not say otherwise.

With --standardize the penalty is on b_j s_j, where s_j = sqrt(sum_i (x_ij - mean_j)^2 / d) is
the standard deviation of column j. The loss is 1/2 ||y - X b||^2, a sum and not a mean. So
glmnet(X, y, lambda = l) has the same LASSO as lambda = d l here, and its elastic net
(alpha = a) is lambda = d l a, lambda2 = d l (1 - a) / s_y, with s_y the standard deviation of
y. The alpha of scikit-learn's Lasso is lambda / d.

`
