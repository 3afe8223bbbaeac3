package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"surepipe/internal/dataio"
	"surepipe/internal/design"
	"surepipe/problems"
	"surepipe/study/load"
)

func registerTable(t *load.Table, flags *pflag.FlagSet) {
	flags.StringVar(&t.Response, "response", "",
		"in a table (.csv, .tsv) with a header line: the `column` that is y; the others are X, and columns of "+
			"texts are coded as indicators")
	flags.StringVar(&t.Index, "index", "", "in a table of a sequence: the `column` of its places, dates or "+
		"numbers in order, "+
		"which --out keeps and whose distances whittaker uses (default: the first other column, if it is such)")
	flags.StringSliceVar(&t.Drop, "drop", nil, "in a table: leave out these `columns`, separated by commas")
	flags.StringSliceVar(&t.Only, "only", nil, "in a table: only these `columns`, besides the response")
	flags.StringSliceVar(&t.Categorical, "categorical", nil,
		"in a table: `columns` of numbers that stand for categories")
	flags.StringVar(&t.Weights, "weights", "", weightsFlag)
	flags.StringSliceVar(&t.NA, "na", nil, naFlag)
	flags.StringVar(&t.Missing, "missing", string(design.Refuse), "in a table: what to do about missing values: "+
		"error, drop (leave out such rows; of a sequence, estimate such values) or mean (in X, the mean of the "+
		"column; rows without a response are left out)")
}

// naFlag describes the flag --na.
var naFlag = "in a table: the `texts` that stand for a missing value, separated by commas, besides an empty cell, " +
	"in place of " + strings.Join(dataio.MissingMarks, " ") + "; cells in quotes are texts"

// checkTable rejects flags about the columns of a table where there is none, and sets the defaults
// of regressions of a table.
func (f *estimatorFlags) checkTable(changed func(flag string) bool, l problems.Layout) error {
	t := &f.Table
	ways := []string{string(design.Refuse), string(design.Drop), string(design.Mean)}
	if !slices.Contains(ways, t.Missing) {
		return usagef("--missing is %q, expected error, drop or mean", t.Missing)
	}
	for _, list := range []struct {
		flag  string
		names []string
	}{{"drop", t.Drop}, {"only", t.Only}, {"categorical", t.Categorical}} {
		if changed(list.flag) && (len(list.names) == 0 || slices.Contains(list.names, "")) {
			return usagef("--%s has an empty name, expected names of columns separated by commas", list.flag)
		}
	}
	if f.Spec != "" {
		return nil
	}
	for _, flag := range []string{"drop", "only", "categorical", "missing", "index"} {
		if changed(flag) && t.Response == "" && !(flag == "missing" && l.Sequence()) {
			return usagef("--%s is about the columns of a table, but --response is missing, which names the "+
				"column that is y", flag)
		}
	}
	switch {
	case changed("na") && !slices.ContainsFunc([]string{f.Data, f.X, f.Y, f.Mu, f.D}, dataio.IsTable):
		return usagef("--na is about the cells of a table (.csv, .tsv), and none is given")
	case t.Response == "":
		return nil
	case f.Data == "":
		return usagef("--response is %q, but --data is missing, expected a table (.csv, .tsv)", t.Response)
	case f.X != "":
		return usagef("--response is %q and --X %q: the table has both, expected one of them", t.Response, f.X)
	case f.Y != "":
		return usagef("--response is %q and --y %q: expected one of them", t.Response, f.Y)
	case !l.Design && l.YRank == 2:
		return usagef("--response is %q, but y of %s is a matrix, the whole table", t.Response, f.Problem)
	case changed("index") && !l.Sequence():
		return usagef("--index is %q, but y of %s is not a sequence", t.Index, f.Problem)
	case l.Sequence() && (changed("only") || changed("categorical")):
		return usagef("--only and --categorical are about the columns of X, which %s does not have", f.Problem)
	case !dataio.IsTable(f.Data):
		return usagef("--response is %q, but %s is not a table with a header line (.csv, .tsv) by its name",
			t.Response, f.Data)
	}
	if !changed("intercept") {
		f.Intercept = l.Design
	}
	if !changed("standardize") {
		t.Standardize = l.Design
	}
	return nil
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
