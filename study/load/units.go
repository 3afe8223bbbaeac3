package load

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"surepipe/internal/lists"
	"surepipe/internal/sublist"
	"surepipe/problems"
	"surepipe/risk/warning"
	"surepipe/study"
)

// leastEntries is the number of entries from which a column's standard deviation says what its unit is, and fewEntries
// where no column has as many: of two or three equal deviations differ by more than a factor of 10 by chance.
const leastEntries, fewEntries = 10, 4

// strayColumns is one over the share of a matrix's columns with the smallest, and of those with the largest standard
// deviations, that say nothing of the units of all: among thousands of columns of ratings some hardly vary.
const strayColumns = 20

// roundingOfColumn is the standard deviation over the mean up to which a column is constant but for rounding errors.
const roundingOfColumn = 1e-13

// standardize divides the columns of a matrix with missing entries by their standard deviations where that is asked
// for, or where they are to be where they are in different units. Numbers that are given for the whole matrix, a sigma2
// or samples of y, are in the units that y has.
func (f *Source) standardize(data *Contents) error {
	l, _ := LayoutOf(f.Problem)
	table := data.Entries != nil && data.Entries.ValueBy == ""
	auto := f.StandardizeAuto || f.StandardizeOpen && table
	if !l.Selection || !f.Standardize && !auto {
		return nil
	}
	switch samples := data.Stack != nil || data.Simulated; {
	case auto && (samples || data.Sigma2 != nil || !f.LossOf().Squared()):
		return nil
	case samples:
		return study.Errorf("--standardize divides columns by the standard deviations of one y, found samples of y: " +
			"divide them before")
	case !f.LossOf().Squared():
		return study.Errorf("--standardize of a matrix with missing entries is for the squared loss, and the loss is "+
			"%s", f.LossOf().Name)
	}
	units := deviations(data.Data)
	if units == nil || auto && !spreadOf(units).different() {
		return nil
	}
	data.Units = slices.Repeat([]float64{1}, data.Shape[1])
	for _, c := range units {
		if c.deviation > 0 && !math.IsInf(c.deviation, 0) {
			data.Units[c.place] = c.deviation
		}
	}
	data.Y, data.Mu = divided(data, data.Y), divided(data, data.Mu)
	return nil
}

func divided(data *Contents, values []float64) []float64 {
	if values == nil {
		return nil
	}
	return lists.Make(len(values), func(i int) float64 {
		return values[i] / data.Units[data.Indices[i]%len(data.Units)]
	})
}

// column is what the observed entries of one say of its unit. Where more than three in four are the same, as of pixels
// at the border of pictures, it is steady, and says how often they differ, and nothing of a unit.
type column struct {
	place, entries int
	deviation      float64
	steady         bool
}

// deviations are the standard deviations of the columns of a matrix, or of the observed entries of those that have
// some; nil where y is no matrix, or an entry is not in it.
func deviations(data problems.Data) []column {
	shape := data.YShape
	if data.Indices != nil {
		shape = data.Shape
	}
	if len(shape) != 2 || min(shape[0], shape[1]) < 1 {
		return nil
	}
	of, n := make([]int, len(data.Y)), shape[1] // the columns of the entries
	for i := range of {
		at := i
		if data.Indices != nil {
			at = data.Indices[i]
		}
		if at < 0 || at/n >= shape[0] {
			return nil
		}
		of[i] = at % n
	}
	known := sublist.Number(of, n)
	all, sums, means := make([]column, len(known)), make([]float64, len(known)), make([]float64, len(known))
	weight := func(i int) float64 {
		if data.Weights == nil {
			return 1
		}
		return data.Weights[i]
	}
	for i, y := range data.Y {
		all[of[i]].entries++
		sums[of[i]] += weight(i)
		means[of[i]] += weight(i) * y
	}
	for i, y := range data.Y {
		d := y - means[of[i]]/sums[of[i]]
		all[of[i]].deviation += weight(i) * d * d
	}
	for j, n := range majorities(data.Y, of, len(all)) {
		all[j].steady = 4*n > 3*all[j].entries
		all[j].place, all[j].deviation = known[j], math.Sqrt(all[j].deviation/sums[j])
		if all[j].deviation <= roundingOfColumn*math.Abs(means[j]/sums[j]) {
			all[j].deviation = 0
		}
	}
	return all
}

// majorities are, of the columns of values, how many have the value that more than half have; less than half where
// there is none (Boyer and Moore 1991).
func majorities(y []float64, of []int, columns int) []int {
	values, leads, counts := make([]float64, columns), make([]int, columns), make([]int, columns)
	for i, j := range of {
		switch {
		case leads[j] == 0:
			values[j], leads[j] = y[i], 1
		case values[j] == y[i]:
			leads[j]++
		default:
			leads[j]--
		}
	}
	for i, j := range of {
		if values[j] == y[i] {
			counts[j]++
		}
	}
	return counts
}

// spread is that of the columns' standard deviations: the least and the greatest, but for strays.
type spread struct{ least, most column }

// fewVarying is one over the share of the columns that are to be not steady for the others to be left out: where nearly
// all are steady, as amounts that are mostly 0, they tell units too.
const fewVarying = 3

// spreadOf looks at the columns of at least [leastEntries] entries that are not steady, or where these are few at the
// others too, or where there is none at all of [fewEntries].
func spreadOf(all []column) (s spread) {
	for pass, least := range []int{leastEntries, leastEntries, fewEntries} {
		varying := slices.DeleteFunc(slices.Clone(all), func(c column) bool {
			steady := pass == 0 && c.steady
			return steady || c.entries < least || !(c.deviation > 0) || math.IsInf(c.deviation, 0)
		})
		if n := len(varying); n == 0 || pass == 0 && fewVarying*n < len(all) {
			continue
		}
		slices.SortFunc(varying, func(a, b column) int { return cmp.Compare(a.deviation, b.deviation) })
		k := len(varying) / strayColumns
		return spread{varying[k], varying[len(varying)-1-k]}
	}
	return s
}

func (s spread) different() bool { return s.most.deviation > mostSpread*s.least.deviation }

// noteUnits says that the columns of a matrix of low rank are in different units, and what that did.
func (f *Source) noteUnits(n *study.Notes, data problems.Data) {
	l, _ := LayoutOf(f.Problem)
	lowRank := l.Selection || l.YRank == 2 && !l.Colours && data.Frames == nil
	if kind, err := f.LossOf().Kind(); !lowRank || err != nil || kind.Transforms || f.Standardize {
		return
	}
	columns := deviations(data)
	for j, c := range columns {
		if data.Units != nil {
			columns[j].deviation *= data.Units[c.place]
		}
	}
	s := spreadOf(columns)
	if !s.different() {
		return
	}
	name := func(c column) string {
		if data.Entries != nil {
			return fmt.Sprintf("%q", data.Entries.Columns[c.place])
		}
		for _, names := range [][]string{data.Labels.Columns, data.Columns} {
			if c.place < len(names) {
				return fmt.Sprintf("%q", names[c.place])
			}
		}
		return fmt.Sprintf("column %d, counted from 0", c.place)
	}
	of := fmt.Sprintf("the standard deviations of the columns range from %.3g (%s) to %.3g (%s): ", s.least.deviation,
		name(s.least), s.most.deviation, name(s.most))
	if data.Units != nil {
		n.Add(warning.StandardizedColumns, "%scolumns are divided by them, and weights, criteria and errors are those "+
			"of the quotients; where columns are in one unit, switch it off: --standardize", of)
		return
	}
	bad := "%sthe penalty and the printed error are about the largest, and the others' entries may be estimated badly: "
	if l.Selection && f.LossOf().Squared() {
		n.Add(warning.UnscaledColumns, bad+"--standardize divides columns by their standard deviations", of)
		return
	}
	n.Add(warning.UnscaledColumns, bad+"divide columns by their standard deviations", of)
}
