package load

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/dataio"
	"surepipe/internal/design"
	"surepipe/internal/lists"
	"surepipe/loss"
	"surepipe/problems"
	"surepipe/risk/warning"
	"surepipe/study"
)

// IgnoredText is the text of [warning.IgnoredArrays]: the file and its arrays.
const IgnoredText = "%s: arrays that nothing uses are ignored: %.200s"

// Table says which columns of a table are what. The name of each field, in lower case, is that of an option.
type Table struct {
	// Response is the column that is y, and Index that of the places of a sequence.
	Response, Index string
	// Drop leaves columns out, Only takes no others, and those in Categorical are numbers that stand for categories.
	Drop, Only, Categorical []string
	// Missing says what to do about missing values: "error", "drop" or "mean"; NA are the texts that stand for one, nil
	// for the default.
	Missing string
	NA      []string
	// Weights is the column of the weights of the observations, Groups that of groups of them that are left out
	// together. Offset is what the linear predictor has besides X b, and Exposure that by its exponential; y are the
	// numbers of successes among Trials.
	Weights, Groups, Offset, Exposure, Trials string
	// Time, Start and Strata are those of events, with the Cox losses: the column of the times, where there is one that
	// of the times from which on observations are at risk, and that of groups with hazards of their own.
	Time, Start, Strata string
	// Success is the level of a response of two that is 1, "" for the second.
	Success string
	// Factors, Lower and Upper are NAME=NUMBER for coefficients, or patterns of names, or a number for all: factors of
	// their penalties, 0 for none, and bounds. They are for columns of an array X too.
	Factors, Lower, Upper []string
}

// mostSpread is the ratio of the standard deviations of columns from which their units are likely
// to decide what a penalty does.
const mostSpread = 10

// files are those of the source, until the end of the reading under way.
func (f *Source) files() dataio.Files {
	if f.Files == nil {
		return dataio.Files{Context: f.ctx, FS: dataio.NoFiles}
	}
	return dataio.Files{Context: f.ctx, FS: f.Files}
}

func (f *Source) reading() dataio.TableOptions {
	return dataio.TableOptions{Files: f.files(), NA: f.Table.NA, Missing: f.Table.Missing == string(design.Drop)}
}

// tableOptions are the options of the table, with what the loss and an intercept ask of the coding.
func (f *Source) tableOptions() design.Options {
	t := &f.Table
	o := design.Options{
		Response: t.Response, Index: t.Index, Drop: t.Drop, Only: t.Only, Categorical: t.Categorical,
		Beside: design.Beside{Weights: t.Weights, Offset: t.Offset, Exposure: t.Exposure, Trials: t.Trials,
			Time: t.Time, Start: t.Start, Strata: t.Strata},
		NA: t.NA, Coding: design.Coding{Success: t.Success}, Binary: f.Intercept || f.LossOf().Row().Timed,
	}
	if t.Response != "" {
		o.Groups = t.Groups
	}
	if t.Missing != string(design.Refuse) {
		o.Missing = design.Missing(t.Missing)
	}
	k := f.LossOf().Row()
	o.Levels, o.Classes = k.Levels, k.Classes
	return o
}

// labelled says which losses are for responses of labels.
func labelled() string {
	var names []string
	for _, k := range loss.Kinds() {
		switch {
		case k.Classes:
			names = append(names, "--loss "+k.Name+" takes several levels")
		case k.Levels > 0 && !k.Timed:
			names = append(names, "--loss "+k.Name+" takes "+strconv.Itoa(k.Levels))
		}
	}
	return "; " + strings.Join(names, ", ")
}

// tableError names the flag of an option about the columns of a table.
func (f *Source) tableError(err error) error {
	var option *design.OptionError
	var labels design.LabelsError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &option) && errors.As(err, &labels) && !f.classes():
		return study.Errorf("%s: %s: %w%s", cmp.Or(f.Data, f.Spec), study.Option(option.Option), option.Err, labelled())
	case errors.As(err, &option):
		return study.Errorf("%s: %s: %w",
			cmp.Or(f.Data, f.Spec), study.Option(option.Option), option.Err)
	}
	return study.Bad(err)
}

// NotesOn says what the user should know about the data.
func (f *Source) NotesOn(data problems.Data, sigma2 float64) study.Notes {
	var n study.Notes
	spread := sync.OnceValues(func() (means, deviations []float64) { return problems.Spread(data) })
	if s := data.Shared; s != nil {
		once := spread
		spread = func() (means, deviations []float64) { return s.Spread(once) }
	}
	f.noteIntercept(&n, data, spread)
	if len(data.Ignored) > 0 {
		n.Add(warning.IgnoredArrays, IgnoredText, cmp.Or(f.Data, f.Name()), strings.Join(data.Ignored, ", "))
	}
	f.noteCodes(&n, data)
	f.noteTable(&n, data)
	f.noteStorage(&n, data, sigma2)
	f.noteScales(&n, data, spread)
	f.noteResponses(&n, data)
	f.noteUnits(&n, data)
	f.noteCopies(&n, data)
	return n
}

func indexName(s *design.Sequence) string {
	if s.Index == "" {
		return ""
	}
	return fmt.Sprintf(" %q", s.Index)
}

// noteSteps prints that the distances of an index are not taken into account: an estimate on places does so.
func (f *Source) noteSteps(n *study.Notes, s *design.Sequence, placed bool) {
	switch {
	case placed && s.Index != "" && !s.Measured:
		n.Add(warning.UnequalSteps, "the index%s holds neither numbers nor dates: the estimate takes its steps for "+
			"equal",
			indexName(s))
	case !placed && s.Unequal != "":
		n.Add(warning.UnequalSteps, "the steps of the index%s differ (%s): the estimate takes them for equal",
			indexName(s), s.Unequal)
	}
}

// placed reports whether the estimate depends on the distances of the index.
func (f *Source) placed(data problems.Data) bool {
	l, _ := LayoutOf(f.Problem)
	return l.Places && f.Specification == nil || data.Spec != nil && data.Spec.Placed()
}

// longGap is the number of values in a row from which on a gap is told of. Runs of eight values of real sequences that
// were held out lie as near to what criteria say as single ones, or are marked (docs/trust.md).
const longGap = 9

// noteGap notes the longest gap of a sequence.
func (f *Source) noteGap(n *study.Notes, data problems.Data) {
	if len(data.Shape) != 1 {
		return
	}
	longest, from, last := 0, 0, -1
	for _, at := range append(slices.Sorted(slices.Values(data.Indices)), data.Shape[0]) {
		if gap := at - last - 1; gap > longest {
			longest, from = gap, last+1
		}
		last = at
	}
	if longest >= longGap {
		n.Add(warning.LongGap, "%d values of the sequence are missing in a row, from place %d on: criteria are about "+
			"single values between others, and the error there may be far larger", longest, from+1)
	}
}

func (f *Source) noteTable(n *study.Notes, data problems.Data) {
	t, e := cmp.Or(data.Table, new(design.Data)), cmp.Or(data.Entries, new(design.Entries))
	gaps, left, whole := 0, t.Left, "sequence"
	if l, _ := LayoutOf(f.Problem); data.Indices != nil && (l.Gaps || len(data.Shape) == 1) {
		if gaps = lists.Product(data.Shape) - len(data.Y); len(data.Shape) > 1 {
			whole = "image"
		}
	} else if t.Sequence != nil {
		gaps = t.Left
	}
	switch of := gaps + len(data.Y); {
	case gaps > 0 && data.Spec != nil && !data.Spec.Selects():
		n.Add(warning.MissingValues, "%d of %d values of the sequence are missing, and their neighbours are taken for "+
			"neighbours of each other: operator: {selection: {indices: indices, shape: shape}} leaves gaps", gaps, of)
	case gaps > 0:
		n.Add(warning.MissingValues, "%d of %d values of the %s are missing: they are estimated from the others",
			gaps, of, whole)
		f.noteGap(n, data)
	}
	if t.Sequence != nil {
		left = 0
		f.noteSteps(n, t.Sequence, f.placed(data))
	}
	rows := t.Weightless + t.Left + len(t.Y)
	for _, some := range []struct {
		kind      *warning.Kind
		count, of int
		are       string
	}{
		{warning.RowsLeftOut, left, rows, "rows have a missing value and are left out"},
		{warning.RowsLeftOut, t.Weightless, rows, "rows have weight 0 and are left out"},
		{warning.RowsLeftOut, e.Left, e.Left + len(e.Y), "rows have a missing value and are left out"},
		{warning.ZeroWeights, floats.Count(func(w float64) bool { return w == 0 }, data.Weights), len(data.Weights),
			"observations have weight 0"},
	} {
		if some.count > 0 {
			n.Add(some.kind, "%d of %d %s", some.count, some.of, some.are)
		}
	}
	if w := data.Weights; len(w) > 0 && f.LossOf().Squared() && floats.Min(w) < floats.Max(w) {
		n.Add(warning.EqualVariances, "the weights differ: they are those of the loss, and the noise of every "+
			"observation counts as equally large")
	}
	if levels := t.Design.Levels; len(levels) == 2 && data.Loss.Name != "" && len(data.YShape) == 1 {
		n.Add(warning.Levels, "column %q: %.40q is 1 and %.40q is 0; --success says which is 1", t.Design.Response,
			levels[1], levels[0])
	}
	for _, v := range t.Design.Variables {
		if odd := v.AmongNumbers(); len(odd) > 0 && !slices.Contains(f.Table.Categorical, v.Name) {
			n.Add(warning.NumbersAsCategory, "column %q holds numbers in quotes and %.200q among them: it is "+
				"coded as a category of %d levels; --na takes texts for missing values, --categorical confirms it",
				v.Name, strings.Join(odd, ", "), len(v.Levels))
		}
	}
	if merged := slices.Concat(t.Merged, e.Merged); len(merged) > 0 {
		n.Add(warning.EqualNames, "texts that are equal numbers count as one: %s", strings.Join(merged, "; "))
	}
	if t.Filled > 0 {
		n.Add(warning.ValuesReplaced, "%d missing values are replaced by the means of their columns", t.Filled)
	}
}

func (f *Source) unpenalized() bool {
	n, known := problems.Lookup(f.Problem)
	return known && n.Unpenalized()
}

func (f *Source) noteScales(n *study.Notes, data problems.Data, spread func() (means, deviations []float64)) {
	if l, _ := LayoutOf(f.Problem); !l.Design || f.Specification != nil || f.Standardize || f.unpenalized() {
		return
	}
	_, deviations := spread()
	varying := lists.Places(len(deviations), func(j int) bool { return deviations[j] > 0 })
	if len(varying) == 0 {
		return
	}
	by := func(i, j int) int { return cmp.Compare(deviations[i], deviations[j]) }
	least, most := slices.MinFunc(varying, by), slices.MaxFunc(varying, by)
	if deviations[most] > mostSpread*deviations[least] {
		names := study.ColumnNames(data, len(deviations))
		n.Add(warning.UnscaledColumns, "standard deviations of columns of X range from %.3g (%q) to %.3g (%q), "+
			"and the penalty depends on their units: --standardize makes it independent of them", deviations[least],
			names[least], deviations[most], names[most])
	}
}
