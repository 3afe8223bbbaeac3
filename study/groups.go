package study

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"surepipe/internal/lists"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/problems/spec"
	"surepipe/risk/folds"
	"surepipe/risk/warning"
)

// mostAlike is the number of standard deviations by which residuals may agree within the values of a column. There are
// many columns, and residuals of a fit are a little dependent. An effect is a curve where neighbouring values differ by
// less than leastSteps of what any two do, or, where equal values do not stand together, a polynomial of the third
// degree is mostCurve of it.
const mostAlike, leastSteps, mostCurve = 5, 0.4, 0.6

// RowNotes tell of rows of a regression that belong together, in a table or in arrays, where nothing leaves them out
// together.
func RowNotes(data problems.Data, risk pipeline.Risk, f folds.Folds) (notes Notes) {
	x, y, e := rowsOf(data), data.Y, residuals(data, risk)
	if t := data.Table; t != nil {
		y = t.Y
	}
	if x == nil || len(e) != x.RawMatrix().Rows || len(y) != len(e) || f.Groups != nil || f.Blocks > 0 {
		return nil
	}
	if rowsInGroups(&notes, data, x, e); len(notes) > 0 {
		return notes
	}
	// A loss whose observations do not stand alone has residuals that follow their order.
	if l := risk.LossTerms; l == nil || l.Dispersion > 0 {
		rowsInOrder(&notes, y, e)
	}
	return notes
}

func (r *Swept) rows(all *Notes) {
	*all = append(*all, RowNotes(r.Data, r.Chosen.Risk, r.Options.Folds)...)
}

// rowsOf are the rows of X as they are given, nil where they are none of a dense regression.
func rowsOf(data problems.Data) *mat.Dense {
	switch {
	case data.Table != nil:
		return data.Table.X
	case data.Spec != nil || data.X == nil:
		return nil
	}
	return spec.MatrixOf(data.X).Dense
}

// rowsInGroups notes the column of X of whole numbers within whose values the residuals agree most, if that is
// more than chance allows: with the mean squares B between and W within G values,
//
//	log(B/W) / sqrt(2/(G - 1) + 2/(d - G)) > 5.
//
// An effect of the column that is no straight line, but smooth, makes B large too: see curved. Of the other columns the
// one with most is named.
// Columns of texts are indicators in X, which leave residuals of mean 0.
func rowsInGroups(notes *Notes, data problems.Data, x *mat.Dense, residuals []float64) {
	column, most, p := 0, 0.0, x.RawMatrix().Cols
	var whole wholeNumbers
	for j := range p {
		n := whole.number(x, j)
		if n < 3 || 2*n > len(residuals) {
			continue
		}
		if z, curved := whole.alike(n, residuals); z > most && !curved {
			column, most = j, z
		}
	}
	if most > mostAlike {
		name, beyond := ColumnNames(data, p)[column], fmt.Sprintf("%.2g standard deviations beyond chance", most)
		if math.IsInf(most, 1) {
			beyond = "exactly"
		}
		notes.Add(warning.RowsInGroups, "rows with the same %s have residuals that agree, %s: if they belong "+
			"together, such as visits of a patient, new ones are predicted worse than the criteria say; leave them "+
			"out together, --groups %s (or the effect of %s jumps)", name, beyond, name, name)
	}
}

// Residuals of rows that follow each other agree where their correlation is above leastAgreement, and mostAlike
// standard deviations from 0. In a table that is sorted by y, perhaps within groups, they do so without a meaning:
// where less than leastTurns of the steps of y go up, or down.
const leastAgreement, leastTurns = 0.25, 0.15

// rowsInOrder notes that residuals of rows that follow each other agree.
func rowsInOrder(notes *Notes, y, e []float64) {
	if c := agreeInOrder(y, e); c > 0 {
		notes.Add(warning.CorrelatedRows, "residuals of rows that follow each other have a correlation "+
			"of %.2f, as rows in the order of time, or of groups or places that no column names: standard errors of "+
			"coefficients are too small, and rows of other times, groups or places are predicted worse than the "+
			"criteria say; compare --criterion cv with runs of N rows left out together, --blocks N, or with "+
			"--groups (or the effect of a column by which the rows are sorted is no straight line)", c)
	}
}

// agreeInOrder is the correlation of residuals e with the next, 0 where it is small or y is sorted.
func agreeInOrder(y, e []float64) float64 {
	d, mean, products, squares, up, down := float64(len(e)), stat.Mean(e, nil), 0.0, 0.0, 0.0, 0.0
	for i, v := range e {
		squares += (v - mean) * (v - mean)
		if i == 0 {
			continue
		}
		products += (v - mean) * (e[i-1] - mean)
		switch {
		case y[i] > y[i-1]:
			up++
		case y[i] < y[i-1]:
			down++
		}
	}
	if c := products / squares; min(up, down) > leastTurns*d && c > max(leastAgreement, mostAlike/math.Sqrt(d)) {
		return c
	}
	return 0
}

// leastGroups is the number of groups from which they tell how much groups differ.
const leastGroups = 5

// fewGroups warns where the errors of very few groups are compared.
func (r *Swept) fewGroups(notes *Notes) {
	f := r.Options.Folds
	if rule := r.Options.Criterion.Rule(); f.Groups == nil || !rule.Blocks && !rule.Refits {
		return
	}
	if _, n := f.Units(len(f.Groups) * max(f.Each, 1)); n < leastGroups {
		notes.Add(warning.FewGroups, "there are %d groups only: what their errors say of a new group, and of "+
			"the weight that is best for it, is little; the error bars are widened for so few", n)
	}
}

// residuals are those of a fit, nil where there is none.
func residuals(data problems.Data, risk pipeline.Risk) []float64 {
	if l := risk.LossTerms; l != nil {
		return l.Residuals
	}
	return lists.Make(len(risk.MuHat), func(i int) float64 { return data.Y[i] - risk.MuHat[i] })
}

// wholeNumbers are the values of a column of whole numbers, and their numbers in increasing order.
type wholeNumbers struct {
	values []float64
	labels []int
}

// number numbers the values of a column, and counts the different ones; 0 for another column.
func (w *wholeNumbers) number(x *mat.Dense, column int) (n int) {
	raw := x.RawMatrix()
	w.values, w.labels = w.values[:0], w.labels[:0]
	least, most := math.Inf(1), math.Inf(-1)
	for i := range raw.Rows {
		v := raw.Data[i*raw.Stride+column]
		if v != math.Trunc(v) {
			return 0
		}
		w.values, least, most = append(w.values, v), min(least, v), max(most, v)
	}
	if wide := most - least; wide < float64(raw.Rows) { // no sorting
		place := make([]int, int(wide)+1)
		for _, v := range w.values {
			place[int(v-least)] = 1
		}
		for k, here := range place {
			place[k], n = n, n+here
		}
		for _, v := range w.values {
			w.labels = append(w.labels, place[int(v-least)])
		}
		return n
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(w.values)))
	for _, v := range w.values {
		k, _ := slices.BinarySearch(sorted, v)
		w.labels = append(w.labels, k)
	}
	return len(sorted)
}

// alike is by how many standard deviations the mean square of residuals between the n values exceeds that within, and
// whether that is a curve: neighbours' means differ by much less than others, as by the mean square of their
// differences over 1/n_k + 1/n_l (von Neumann), or a polynomial has most of it. Of identifiers it has 2/(n - 2), for
// which the share is adjusted; where few identifiers have their rows one after the other it may have more.
func (w *wholeNumbers) alike(n int, residuals []float64) (z float64, curved bool) {
	means, sizes, at, sum, apart := make([]float64, n), make([]float64, n), make([]float64, n), 0.0, 0
	for i, k := range w.labels {
		means[k] += residuals[i]
		sum += residuals[i]
		sizes[k]++
		at[k] = w.values[i]
		if i > 0 && k != w.labels[i-1] {
			apart++
		}
	}
	floats.Div(means, sizes)
	between, steps, within := 0.0, 0.0, 0.0
	for i, k := range w.labels {
		within += (residuals[i] - means[k]) * (residuals[i] - means[k])
	}
	a, d := float64(n-1), float64(len(w.labels))
	for k := range means {
		means[k] -= sum / d
		between += sizes[k] * means[k] * means[k] / a
		if k > 0 {
			step := means[k] - means[k-1]
			steps += step * step / (1/sizes[k] + 1/sizes[k-1]) / a
		}
	}
	b := d - float64(n)
	within /= b
	curved = steps-within < leastSteps*(between-within)
	if together := apart < 2*n; !together && n > 4 {
		left := 1 - cubicShare(at, means, sizes)
		curved = curved || 1-left*float64(n-2)/float64(n-4) > mostCurve
	}
	return math.Log(between/within) / math.Sqrt(2/a+2/b), curved
}

// cubicShare is the share of the weighted sum of squares of y that a polynomial of the third degree in x has.
func cubicShare(x, y, weights []float64) float64 {
	least, most := floats.Min(x), floats.Max(x)
	inner := func(u, v []float64) (sum float64) {
		for k, w := range weights {
			sum += w * u[k] * v[k]
		}
		return sum
	}
	share, all := 0.0, inner(y, y)
	var basis [][]float64
	for degree := range 4 {
		p := lists.Map(x, func(v float64) float64 { return math.Pow((2*v-least-most)/(most-least), float64(degree)) })
		for _, q := range basis {
			floats.AddScaled(p, -inner(p, q), q)
		}
		floats.Scale(1/math.Sqrt(inner(p, p)), p)
		basis = append(basis, p)
		c := inner(p, y)
		share += c * c / all
	}
	return share
}
