package noise

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"surepipe/internal/lists"
	"surepipe/internal/numerics"
)

// Matrix is y as a matrix of low rank with noise, row by row.
type Matrix struct {
	Y             []float64
	Rows, Columns int
}

const (
	// mostSide is the most rows, and columns, that are looked at.
	mostSide = 400
	// leastLeft is the least part of a row, or a column, that the low rank's spaces must leave for it to say something.
	leastLeft = 0.05
	// fewEntries is the part of a singular vector's squares in single entries of more than a tenth from which these are
	// outliers, and no part of a low rank.
	fewEntries, ofFew = 0.8, 0.1
)

// remainder is what the low rank of a matrix leaves of some of its rows and columns.
type remainder struct {
	rest        *mat.Dense
	row, column []float64 // the parts that the low rank's spaces leave of them
	at          []int     // the places of entries that are components of their own
	squares     float64   // of these components
	sigma2      float64   // of the singular values that do not stand out
	of          Matrix
}

// remains separates the singular values that stand out, as [MedianSingularValue] does; ok is false where the matrix is
// small, or has no noise.
func (m Matrix) remains() (r remainder, ok bool) {
	rows, cols := min(m.Rows, mostSide), min(m.Columns, mostSide)
	if min(rows, cols) < 2*leastSingularValues {
		return r, false
	}
	y := mat.NewDense(rows, cols, nil)
	for i := range rows {
		for j := range cols {
			y.Set(i, j, m.Y[spaced(i, rows, m.Rows)*m.Columns+spaced(j, cols, m.Columns)])
		}
	}
	left, values, right, err := numerics.SVD(y)
	if err != nil {
		return r, false
	}
	increasing := slices.Clone(values)
	slices.Sort(increasing)
	if !(median(increasing) > epsilon*float64(rows+cols)*values[0]) {
		return r, false
	}
	sigma2, _, rank := bulk(increasing, max(rows, cols))
	r = remainder{rest: y, row: slices.Repeat([]float64{1}, rows), column: slices.Repeat([]float64{1}, cols),
		sigma2: sigma2, of: m}
	for k := range rank {
		u, v := mat.Col(nil, k, left), mat.Col(nil, k, right)
		y.RankOne(y, -values[k], mat.NewVecDense(rows, u), mat.NewVecDense(cols, v))
		floats.Mul(u, u)
		floats.Mul(v, v)
		follows := noiseFollowed(values[k]*values[k]/sigma2, float64(rows), float64(cols))
		floats.AddScaled(r.row, -follows, u)
		floats.AddScaled(r.column, -follows, v)
		r.single(u, v, values[k])
	}
	return r, true
}

// noiseFollowed is how much noise a component of squared singular value s2 takes along, in units of its variance and
// over rows + cols, that of fixed vectors: a signal d stands at s2 = d^2 + rows + cols + rows cols/d^2 (Benaych-Georges
// and Nadakuditi 2012), all but the first of which is noise.
func noiseFollowed(s2, rows, cols float64) float64 {
	half := (s2 - rows - cols) / 2
	d2 := max(half, math.Sqrt(rows*cols))
	d2 += math.Sqrt(max(half*half-rows*cols, 0))
	return 1 + rows*cols/d2/(rows+cols)
}

// single adds the places of a component of few entries, from the squares of its vectors.
func (r *remainder) single(u, v []float64, value float64) {
	few := func(squares []float64) (at []int, part float64) {
		for i, s := range squares {
			if s > ofFew {
				at, part = append(at, i), part+s
			}
		}
		return at, part
	}
	rows, inRows := few(u)
	cols, inColumns := few(v)
	if inRows*inColumns < fewEntries {
		return
	}
	r.squares += value * value
	for _, i := range rows {
		for _, j := range cols {
			if u[i]*v[j] > ofFew {
				r.at = append(r.at, spaced(i, len(u), r.of.Rows)*r.of.Columns+spaced(j, len(v), r.of.Columns))
			}
		}
	}
}

// spaced is place k of n that are evenly spaced among all.
func spaced(k, n, all int) int { return int(int64(k) * int64(all) / int64(n)) }

// leftover is what is left of the entries of a matrix, each over the root of its part that the low rank's spaces leave,
// and their rows and columns in the whole.
type leftover struct {
	values, parts []float64
	rows, columns []int
}

// scaled leaves out the rows and columns of which little is left.
func (r *remainder) scaled() (l leftover) {
	for i, a := range r.row {
		for j, b := range r.column {
			if min(a, b) > leastLeft {
				l.values = append(l.values, r.rest.At(i, j)/math.Sqrt(a*b))
				l.parts = append(l.parts, a*b)
				l.rows = append(l.rows, spaced(i, len(r.row), r.of.Rows))
				l.columns = append(l.columns, spaced(j, len(r.column), r.of.Columns))
			}
		}
	}
	return l
}

// below tells whether variances of rows or columns are below sigma2, or below that of all where this is less, at a
// probability for each grouping. Signal that is of no low rank adds to the variance of some, and takes from none: even
// noise leaves none below. A variance has as many degrees of freedom as parts are left of its entries, fewer where
// their kurtosis is above 3. The sum of squares of the normal scores that are negative has at most a chi-bar-squared
// law.
func (l leftover) below(sigma2, probability float64, groupings ...Grouping) (u Uneven) {
	squares := lists.Map(l.values, func(v float64) float64 { return v * v })
	sigma2 = min(sigma2, stat.Mean(squares, l.parts))
	all := lists.Upto(len(squares))
	for _, g := range groupings {
		var known []int
		variances, free, fourth := make([]float64, len(g.At)), make([]float64, len(g.At)), 0.0
		groups, partsOf := g.divide(nil, squares, all), g.divide(nil, l.parts, all)
		for k, of := range groups {
			if len(of) < fewInGroup {
				continue
			}
			parts := partsOf[k]
			known = append(known, k)
			if variances[k], free[k] = stat.Mean(of, parts), floats.Sum(parts); variances[k] > 0 {
				fourth += floats.Dot(of, of) / (variances[k] * variances[k])
			}
		}
		if len(known) == 0 {
			continue
		}
		kurtosis := max(3, fourth/float64(len(squares)))
		scores, sum := make([]float64, len(g.At)), 0.0
		for _, k := range known {
			law := distuv.ChiSquared{K: 2 * free[k] / (kurtosis - 1)}
			scores[k] = distuv.UnitNormal.Quantile(law.CDF(law.K * variances[k] / sigma2))
			sum += min(scores[k], 0) * min(scores[k], 0)
		}
		if p := chiBarSurvival(sum, len(known)); p < probability {
			low := slices.MinFunc(known, func(i, j int) int { return cmp.Compare(scores[i], scores[j]) })
			high := slices.MaxFunc(known, func(i, j int) int { return cmp.Compare(variances[i], variances[j]) })
			probability, u = p, Uneven{variances[low], variances[high], g.By, g.At[low], g.At[high], p}
		}
	}
	return u
}

// chiBarSurvival is the probability that the squares of the negative ones of n normal values sum to more.
func chiBarSurvival(sum float64, n int) (p float64) {
	negative := distuv.Binomial{N: float64(n), P: 0.5}
	for k := 1; k <= n; k++ {
		p += negative.Prob(float64(k)) * distuv.ChiSquared{K: float64(k)}.Survival(sum)
	}
	return p
}

// UnevenEntries tells noise of less than sigma2 in a column of a matrix of rows x columns, or in a row, by the squared
// errors of predicting entries, at these places, that a fit leaves out: their mean is at least the variance of the
// noise. NaN stands for one that is not known. A false alarm has the probability [FalseAlarm] for all rows and columns
// together. tails is the squared MAD of the errors over sigma2 where it is below 1 by more than chance, at that
// probability, and no row or column is: with normal noise it is no less, with heavy tails it is.
func UnevenEntries(squares []float64, places []int, rows, columns int, sigma2 float64) (u Uneven, tails float64) {
	var l leftover
	for k, v := range squares {
		if !math.IsNaN(v) {
			l.values, l.parts = append(l.values, math.Sqrt(v)), append(l.parts, 1)
			l.rows, l.columns = append(l.rows, places[k]/columns), append(l.columns, places[k]%columns)
		}
	}
	u = l.below(sigma2, FalseAlarm/2, ByPlaces(ByColumn, l.columns, columns), ByPlaces(ByRow, l.rows, rows))
	if n := float64(len(l.values)); u.By == "" && n > 0 {
		spread := madSpread / math.Sqrt(n)
		if ratio := squaredMAD(l.values) / sigma2; ratio < 1+spread*distuv.UnitNormal.Quantile(FalseAlarm) {
			tails = ratio
		}
	}
	return u, tails
}

// The squared MAD of n normal values has the standard error madSpread / sqrt(n) over its value.
const madSpread = 2.333

// Uneven tells noise of less than sigma2 in a column of a matrix of low rank, or in a row, by the variance of what the
// low rank leaves, each entry over the root of what the rank's spaces leave of its row and column. sigma2 is 0 where it
// is that of the singular values. A false alarm has the probability [FalseAlarm] for all rows and columns together. at
// and share are as in [Outliers], of the entries beyond 5 standard deviations of both their row and their column, by
// the MAD; where there are some the noise is not compared. A matrix of fewer than 20 rows or columns, or that is of no
// low rank, is even.
func (m Matrix) Uneven(sigma2 float64) (u Uneven, at []int, share float64) {
	r, ok := m.remains()
	if !ok {
		return u, nil, 0
	}
	l := r.scaled()
	byRow, byColumn := ByPlaces(ByRow, l.rows, m.Rows), ByPlaces(ByColumn, l.columns, m.Columns)
	sizes := lists.Map(l.values, math.Abs)
	scales := func(g Grouping) []float64 {
		return lists.Map(g.divide(nil, sizes, lists.Upto(len(sizes))), func(of []float64) float64 {
			return math.Sqrt(squaredMAD(append(of, 0)))
		})
	}
	inRows, inColumns, n := scales(byRow), scales(byColumn), len(r.row)*len(r.column)
	for k, v := range l.values {
		if s := v / max(inRows[l.rows[k]], inColumns[l.columns[k]]); math.Abs(s) > outlying {
			at = append(at, l.rows[k]*m.Columns+l.columns[k])
			share += s * s / float64(n)
		}
	}
	if share < LeastBias(n) {
		at, share = nil, 0
	}
	if at = append(at, r.at...); at != nil {
		slices.Sort(at)
		sizes := lists.Map(l.values, math.Abs)
		return u, at, share + r.squares/float64(n)/squaredMAD(sizes)
	}
	return l.below(cmp.Or(sigma2, r.sigma2), FalseAlarm/2, byColumn, byRow), nil, 0
}
