package study

import (
	"math"

	"surepipe/risk/folds"
	"surepipe/risk/warning"
)

// mostAlike is the number of standard deviations by which residuals may agree within the values of a column. There are
// many columns, and residuals of a fit are a little dependent.
const mostAlike = 5

// rowsInGroups notes the column of a table of whole numbers within whose values the residuals agree most, if that is
// more than chance allows: with the mean squares B between and W within G values,
//
//	log(B/W) / sqrt(2/(G - 1) + 2/(d - G)) > 5.
//
// Columns of texts are indicators in X, which leave residuals of mean 0.
func (r *Swept) rowsInGroups(notes *Notes) {
	t, mu := r.Data.Table, r.Chosen.MuHat
	if t == nil || t.X == nil || len(mu) != len(t.Y) || t.Groups != nil || r.Options.Folds.Blocks > 0 ||
		r.Header.LossName != "" {
		return
	}
	name, most := "", 0.0
	for j, column := range t.Design.Columns() {
		labels, n := wholeNumbers(t.X.ColView(j).AtVec, len(mu))
		if n < 3 || 2*n > len(mu) {
			continue
		}
		residual := func(i int) float64 { return r.Data.Y[i] - mu[i] }
		if z := alikeWithin(folds.Members(labels, n), residual); z > most {
			name, most = column, z
		}
	}
	if most > mostAlike {
		notes.Add(warning.RowsInGroups, "rows with the same %s have residuals that agree, %.2g standard deviations "+
			"beyond "+
			"chance: if they belong together, such as visits of a patient, new ones are predicted worse than "+
			"the criteria say; leave them out together, --groups %s (or the effect of %s is "+
			"no straight line)", name, most, name, name)
	}
}

// wholeNumbers numbers the values of a column of whole numbers, and counts them; 0 for another column.
func wholeNumbers(at func(i int) float64, d int) (labels []int, n int) {
	number := map[float64]int{}
	labels = make([]int, d)
	for i := range labels {
		v := at(i)
		if v != math.Trunc(v) {
			return nil, 0
		}
		if _, ok := number[v]; !ok {
			number[v] = len(number)
		}
		labels[i] = number[v]
	}
	return labels, len(number)
}

// alikeWithin is by how many standard deviations the mean square of residuals between groups exceeds that within.
func alikeWithin(groups [][]int, residual func(i int) float64) float64 {
	d, sum := 0, 0.0
	for _, g := range groups {
		for _, i := range g {
			sum += residual(i)
			d++
		}
	}
	between, within := 0.0, 0.0
	for _, g := range groups {
		mean := 0.0
		for _, i := range g {
			mean += residual(i) / float64(len(g))
		}
		for _, i := range g {
			within += (residual(i) - mean) * (residual(i) - mean)
		}
		off := mean - sum/float64(d)
		between += float64(len(g)) * off * off
	}
	a, b := float64(len(groups)-1), float64(d-len(groups))
	return math.Log(between/a/(within/b)) / math.Sqrt(2/a+2/b)
}
