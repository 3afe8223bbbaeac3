package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe/internal/dataio"
	"surepipe/internal/design"
	"surepipe/problems"
	"surepipe/study"
)

// tableFlags are the flags about the columns of a table, and of X.
type tableFlags struct {
	response, index         string
	drop, only, categorical []string
	missing                 string
	na                      []string // nil for the default
	weights                 string
	standardize             bool
}

func (t *tableFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&t.response, "response", "", "in a table (.csv, .tsv) with a header line: the `column` that is y; the others are X, and columns of texts are coded as indicators")
	flags.StringVar(&t.index, "index", "", "in a table of a sequence: the `column` of its places, dates or numbers in order, "+
		"which --out keeps and whose distances whittaker uses (default: the first other column, if it is such)")
	flags.StringSliceVar(&t.drop, "drop", nil, "in a table: leave out these `columns`, separated by commas")
	flags.StringSliceVar(&t.only, "only", nil, "in a table: only these `columns`, besides the response")
	flags.StringSliceVar(&t.categorical, "categorical", nil, "in a table: `columns` of numbers that stand for categories")
	flags.StringVar(&t.weights, "weights", "", weightsFlag)
	flags.StringSliceVar(&t.na, "na", nil, naFlag)
	flags.StringVar(&t.missing, "missing", string(design.Refuse), "in a table: what to do about missing values: error, drop (leave out such rows; of a sequence, estimate such values) or mean (in X, the mean of the column; rows without a response are left out)")
}

// naFlag describes the flag --na.
var naFlag = "in a table: the `texts` that stand for a missing value, separated by commas, besides an empty cell, " +
	"in place of " + strings.Join(dataio.MissingMarks, " ") + "; cells in quotes are texts"

// reading are the options of a table of which all columns are read.
func (t *tableFlags) reading(ctx context.Context) dataio.TableOptions {
	return dataio.TableOptions{Context: ctx, NA: t.na, Missing: t.missing == string(design.Drop)}
}

// gaps reports whether a sequence may have missing values.
func (f *estimatorFlags) gaps() bool { return f.table.missing == string(design.Drop) }

// options are those of package design.
func (t *tableFlags) options() design.Options {
	o := design.Options{
		Response: t.response, Index: t.index, Drop: t.drop, Only: t.only, Categorical: t.categorical, Weights: t.weights, NA: t.na,
	}
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
	for _, flag := range []string{"drop", "only", "categorical", "missing", "index"} {
		if changed(flag) && t.response == "" && !(flag == "missing" && l.Sequence()) {
			return usagef("--%s is about the columns of a table, but --response is missing, which names the column that is y", flag)
		}
	}
	switch {
	case changed("na") && !slices.ContainsFunc([]string{f.data, f.x, f.y, f.mu, f.d}, dataio.IsTable):
		return usagef("--na is about the cells of a table (.csv, .tsv), and none is given")
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
	case changed("index") && !l.Sequence():
		return usagef("--index is %q, but y of %s is not a sequence", t.index, f.problem)
	case l.Sequence() && (changed("only") || changed("categorical")):
		return usagef("--only and --categorical are about the columns of X, which %s does not have", f.problem)
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
	e, err := design.OpenMatrix(in.data, in.tableOptions())
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

// askResponse asks for --response where --data is a table with named columns, and nothing else says
// what X and y are.
func (in *inputs) askResponse() error {
	series := in.layout.Sequence()
	if in.haveY || in.x != "" || !dataio.IsTable(in.data) || !in.layout.Design && !series {
		return nil
	}
	t, err := dataio.OpenTable(in.data, dataio.TableOptions{
		Context: in.context(), NA: in.table.na, Unnamed: true, Read: func(string) bool { return series },
	})
	if err != nil {
		return nil // the file is read again as numbers, with the error of that
	}
	var names []string
	if !t.Unnamed {
		names = t.Names()
	}
	if !series {
		return usagef("%s: which column is the response? Expected --response NAME%s, or --y FILE",
			in.data, columnNames(names))
	}
	if err := design.CheckSequence(t); err != nil {
		return usagef("%s: %w", in.data, err)
	}
	return nil
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
	if len(data.Ignored) > 0 {
		f.note(cmd, study.NoteIgnored, ignoredText, f.source(), strings.Join(data.Ignored, ", "))
	}
	f.noteTable(cmd, data)
	f.noteStorage(cmd, data)
	f.noteScales(cmd, data)
}

// indexName is the name of an index, for a note.
func indexName(s *design.Sequence) string {
	if s.Index == "" {
		return ""
	}
	return fmt.Sprintf(" %q", s.Index)
}

// noteSteps prints that the distances of an index are not taken into account: an estimate on places does so.
func (f *estimatorFlags) noteSteps(cmd *cobra.Command, s *design.Sequence, placed bool) {
	switch {
	case placed && s.Index != "" && !s.Measured:
		f.note(cmd, study.NoteUnequal, "the index%s holds neither numbers nor dates: the estimate takes its steps for equal",
			indexName(s))
	case !placed && s.Unequal != "":
		f.note(cmd, study.NoteUnequal, "the steps of the index%s differ (%s): the estimate takes them for equal",
			indexName(s), s.Unequal)
	}
}

// placed reports whether the estimate depends on the distances of the index.
func (f *estimatorFlags) placed(data problems.Data) bool {
	l, _ := layoutOf(f.problem)
	return l.Places && f.specification == nil || data.Spec != nil && data.Spec.Placed()
}

// noteTable prints what was left out of a table, or replaced.
func (f *estimatorFlags) noteTable(cmd *cobra.Command, data problems.Data) {
	gaps, d := 0, len(data.Y)
	if data.Indices != nil && len(data.Shape) == 1 {
		gaps = data.Shape[0] - d
	} else if t := data.Table; t != nil && t.Sequence != nil {
		gaps = t.Left
	}
	switch {
	case gaps > 0 && data.Spec != nil && !data.Spec.Selects():
		f.note(cmd, study.NoteGaps, "%d of %d values of the sequence are missing, and their neighbours are taken for "+
			"neighbours of each other: operator: {selection: {indices: indices, shape: shape}} "+
			"leaves gaps", gaps, gaps+d)
	case gaps > 0:
		f.note(cmd, study.NoteGaps, "%d of %d values of the sequence are missing: they are estimated from the others",
			gaps, gaps+d)
	}
	if t := data.Table; t != nil && t.Sequence != nil {
		f.noteSteps(cmd, t.Sequence, f.placed(data))
	}
	if t := data.Table; t != nil && t.Left > 0 && t.Sequence == nil {
		f.note(cmd, study.NoteRowsLeftOut, "%d of %d rows have a missing value and are left out", t.Left, t.Left+len(t.Y))
	}
	if e := data.Entries; e != nil && e.Left > 0 {
		f.note(cmd, study.NoteRowsLeftOut, "%d of %d rows have a missing value and are left out", e.Left, e.Left+len(e.Y))
	}
	var merged []string
	if data.Table != nil {
		merged = data.Table.Merged
	}
	if data.Entries != nil {
		merged = append(merged, data.Entries.Merged...)
	}
	if len(merged) > 0 {
		f.note(cmd, study.NoteMerged, "texts that are equal numbers count as one: %s", strings.Join(merged, "; "))
	}
	if t := data.Table; t != nil && t.Filled > 0 {
		f.note(cmd, study.NoteFilled, "%d missing values are replaced by the means of their columns", t.Filled)
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
	f.note(cmd, study.NoteScales, "the standard deviations of the columns of X range from %.3g to %.3g, and the penalty depends on their units: --standardize makes it independent of them", least, most)
}

// tableHelp describes tables, and the scale of lambda.
var tableHelp = `Tables. With --response, --data is a table with a header line, as R, pandas and spreadsheets
write it: cells between commas, semicolons, tabs or spaces, quoted or not, decimal points, or
decimal commas where the separator is no comma. A first column without a name has the names of
the rows. Empty cells and ` + strings.Join(dataio.MissingMarks, " ") + ` are missing: see
--missing, and --na for other texts. A mark in quotes is a text, unless its column is one of
numbers; quoted numbers are texts where another cell of their column is one. A column of texts
has a column of zeros and ones in X for each of its levels, named column=level; for ols the
first level has none. group-lasso penalizes the columns of X that come from one column of the
table as a group. matrix-completion takes the observed entries from a table with two columns
besides the response (--only names them), of which the first names the row of the matrix and the
second its column, by numbers or texts. Texts that are equal numbers, such as 1 and 1.0, are one
name, where all names are numbers. Tables of regressions have an intercept and standardized columns, if --intercept=false or
--standardize=false do not say otherwise.

Of a table of a sequence (tv1d, trend1d, whittaker) --response is the column of its values, in the
order of the rows, and the first other column its index, if it holds dates such as 2020-01-31,
2020-01 or 2020Q1, with or without a time, or numbers in order; --index names another. --out, a
.csv file, has it too. Whittaker's differences are divided by the distances of the index, in days or what
part of one is needed; months and quarters count as equal where all are there. The others take
its steps for equal, with a warning where they differ. With --missing drop, values may be
missing: they are estimated from the others.

With --standardize the penalty is on b_j s_j, where s_j = sqrt(sum_i (x_ij - mean_j)^2 / d) is
the standard deviation of column j. The loss is 1/2 ||y - X b||^2, a sum and not a mean. So
glmnet(X, y, lambda = l) has the same LASSO as lambda = d l here, and its elastic net
(alpha = a) is lambda = d l a, lambda2 = d l (1 - a) / s_y, with s_y the standard deviation of
y. The alpha of scikit-learn's Lasso is lambda / d.

`
