package noise

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

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
	_, _, rank := bulk(increasing, max(rows, cols))
	r = remainder{rest: y, row: slices.Repeat([]float64{1}, rows), column: slices.Repeat([]float64{1}, cols), of: m}
	for k := range rank {
		u, v := mat.Col(nil, k, left), mat.Col(nil, k, right)
		y.RankOne(y, -values[k], mat.NewVecDense(rows, u), mat.NewVecDense(cols, v))
		floats.Mul(u, u)
		floats.Mul(v, v)
		floats.Sub(r.row, u)
		floats.Sub(r.column, v)
		r.single(u, v, values[k])
	}
	return r, true
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

// scaled are the entries of the rest over the root of what the low rank leaves of their row and column, with the
// rows and columns of these in the whole; those of a row or column of which little is left are left out.
func (r *remainder) scaled() (values []float64, rows, columns []int) {
	for i, a := range r.row {
		for j, b := range r.column {
			if min(a, b) > leastLeft {
				values = append(values, r.rest.At(i, j)/math.Sqrt(a*b))
				rows = append(rows, spaced(i, len(r.row), r.of.Rows))
				columns = append(columns, spaced(j, len(r.column), r.of.Columns))
			}
		}
	}
	return values, rows, columns
}

// Uneven compares the variances of the noise in the columns of a matrix of low rank, and in its rows ([UnevenBy]): of
// what the low rank leaves, each entry over the root of what the rank's spaces leave of its row and column. at and
// share are as in [Outliers], of the entries beyond 5 standard deviations of both their row and their column, by the
// MAD; where there are some the noise is not compared. A matrix of fewer than 20 rows or columns, or that is of no low
// rank, is even.
func (m Matrix) Uneven() (u Uneven, at []int, share float64) {
	r, ok := m.remains()
	if !ok {
		return u, nil, 0
	}
	values, rows, columns := r.scaled()
	byRow, byColumn := ByPlaces(ByRow, rows, m.Rows), ByPlaces(ByColumn, columns, m.Columns)
	scales := func(g Grouping) []float64 {
		return lists.Map(g.Groups, func(places []int) float64 {
			sizes := lists.Map(places, func(i int) float64 { return math.Abs(values[i]) })
			return math.Sqrt(squaredMAD(append(sizes, 0)))
		})
	}
	inRows, inColumns, n := scales(byRow), scales(byColumn), len(r.row)*len(r.column)
	for k, v := range values {
		if s := v / max(inRows[rows[k]], inColumns[columns[k]]); math.Abs(s) > outlying {
			at = append(at, rows[k]*m.Columns+columns[k])
			share += s * s / float64(n)
		}
	}
	if share < LeastBias(n) {
		at, share = nil, 0
	}
	if at = append(at, r.at...); at != nil {
		slices.Sort(at)
		sizes := lists.Map(values, math.Abs)
		return u, at, share + r.squares/float64(n)/squaredMAD(sizes)
	}
	return UnevenBy(FalseAlarm, values, 2, slices.Values([]Grouping{byColumn, byRow})), nil, 0
}
