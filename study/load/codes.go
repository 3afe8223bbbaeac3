package load

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/problems"
	"surepipe/risk/warning"
	"surepipe/study"
)

// A value such as -999 or 9999 stands for a missing one where it is the least or greatest of a column, and farther from
// the others than codeFrom times their range, of at least fewUncoded values.
const codeFrom, fewUncoded, leastCode = 3, 20, 99

// isCode reports whether v is a number of nines only, with either sign.
func isCode(v float64) bool {
	n := math.Abs(v)
	return n >= leastCode && n < 1e9 && math.Pow(10, math.Ceil(math.Log10(n)))-n == 1
}

// codeIn is a value of a column that seems to stand for a missing one, and how often it is there, 0 for none.
func codeIn(values []float64) (code float64, n int) {
	low, high := slices.Min(values), slices.Max(values)
	for _, v := range [2]float64{low, high} {
		if !isCode(v) {
			continue
		}
		rest := slices.DeleteFunc(slices.Clone(values), func(w float64) bool { return w == v })
		if len(rest) < fewUncoded {
			continue
		}
		least, greatest := slices.Min(rest), slices.Max(rest)
		if far := max(least-v, v-greatest); least < greatest && far > codeFrom*(greatest-least) {
			return v, len(values) - len(rest)
		}
	}
	return 0, 0
}

// noteCodes says that a column of a table, or the response, has values that seem to stand for missing ones.
func (f *Source) noteCodes(n *study.Notes, data problems.Data) {
	t := data.Table
	if t == nil || t.X == nil || len(t.Y) == 0 {
		return
	}
	note := func(name string, values []float64) {
		if code, times := codeIn(values); times > 0 {
			n.Add(warning.MissingCodes, "column %q has the value %g in %d of %d rows, far from all others: if it "+
				"stands for a missing value, give --na=%g, and --missing", name, code, times, len(values), code)
		}
	}
	low, high := slices.Clone(t.X.RawRowView(0)), slices.Clone(t.X.RawRowView(0))
	for i := range t.Y {
		for j, v := range t.X.RawRowView(i) {
			low[j], high[j] = min(low[j], v), max(high[j], v)
		}
	}
	for j, name := range t.Design.Columns() {
		if isCode(low[j]) || isCode(high[j]) {
			note(name, mat.Col(nil, j, t.X))
		}
	}
	note(f.Table.Response, t.Y)
}
