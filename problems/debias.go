package problems

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"surepipe/internal/lists"
	"surepipe/internal/noise"
	"surepipe/linops"
	"surepipe/risk"
)

// mostDebiased bounds the work of Debiased: d p^2.
const mostDebiased = 2e12

var ErrTooFewRows = errors.New("expected more rows than columns")

// Debiased are the coefficients in the units of the original columns without the bias of the
// penalty, and the factors by which sigma is multiplied in their standard errors:
//
//	debiased_j = b_j + <z_j, y - mu_hat> / ||z_j||^2,   standard error sigma / ||z_j||
//
// with z_j what the other columns, and the intercept, leave of column j: see [risk.Debias]. b is
// that of the problem as it is solved. Coefficients that are not identified are NaN: those of
// constant columns, and of the levels of a categorical column that has no reference. The error says
// why there are none at all: columns that depend on each other, no matrix, weights of the
// observations, too large a problem, or, which is an ErrTooFewRows, too few rows: then see
// [Problem.DebiasedByScores].
func (p *Problem) Debiased(y, muHat, b []float64) (d Debiased, err error) {
	kept, x, err := p.identifiedColumns()
	if err != nil {
		return d, err
	}
	constant := 0.0
	if p.means != nil {
		constant = 1 / float64(p.D)
	}
	left := slices.DeleteFunc(lists.Upto(p.P), func(j int) bool { return slices.Contains(kept, j) })
	f, err := risk.Debias(withoutColumns(x, left), floats.SubTo(make([]float64, p.D), y, muHat), constant)
	if err != nil {
		return d, err
	}
	for k, j := range kept {
		f.Shift[k], f.Variance[k], f.Robust[k] = b[j]+f.Shift[k], math.Sqrt(f.Variance[k]), math.Sqrt(f.Robust[k])
	}
	return Debiased{p.inUnits(kept, f.Shift), p.inUnits(kept, f.Variance), p.inUnits(kept, f.Robust)}, nil
}

// Debiased are coefficients without the bias of a penalty, the factors of sigma in their standard errors, and standard
// errors where the variance of the noise differs between observations ([risk.Debias]).
type Debiased struct{ Values, Factors, Robust []float64 }

// identifiedColumns are the columns of the operator's matrix that determine their coefficients, and the matrix.
func (p *Problem) identifiedColumns() (kept []int, x *mat.Dense, err error) {
	dense := linops.StructureOf(p.Operator).Dense
	switch {
	case !p.rows || dense == nil:
		return nil, nil, errors.New("the operator is not a matrix")
	case p.outcomes > 0:
		return nil, nil, errors.New("they are for one response, and y has several columns")
	case p.loss != nil:
		return nil, nil, errors.New("the observations have weights or a loss of their own")
	case float64(p.D)*float64(p.P)*float64(min(p.P, p.D)) > mostDebiased:
		return nil, nil, fmt.Errorf("a factorization of %d x %d would take too long", p.D, p.P)
	}
	x = dense()
	for j := range p.P {
		if !slices.Contains(p.redundant, j) && mat.Norm(x.ColView(j), math.Inf(1)) > 0 {
			kept = append(kept, j)
		}
	}
	if !p.identified(p.P - len(kept)) {
		return nil, nil, fmt.Errorf("%w: X has %d columns and %d rows", ErrTooFewRows, len(kept), p.D)
	}
	return kept, x, nil
}

// mostCompared bounds the work of Uneven, which nobody has asked for: d p^2.
const mostCompared = 4e8

// Uneven compares the variances of the residuals of least squares with all columns between fifths of the observations,
// by the fitted value and by each column ([noise.UnevenBy]), whatever the fit. column is that by which they differ
// most, in whose units LeastAt and GreatestAt are, or -1 for the fitted value. Problems that are no regression of fewer
// columns than rows, and large ones, are even.
func (p *Problem) Uneven(falseAlarm float64, y []float64) (u noise.Uneven, column int) {
	if float64(p.D)*float64(p.P)*float64(p.P) > mostCompared {
		return u, -1
	}
	kept, x, err := p.identifiedColumns()
	if err != nil || len(y) != p.D {
		return u, -1
	}
	mean := 0.0
	if p.means != nil {
		mean = stat.Mean(y, nil)
	}
	fitted, residual := p.leastSquares(x, kept, y, mean)
	if fitted == nil {
		return u, -1
	}
	u = noise.UnevenBy(falseAlarm, residual, 1+len(kept), func(yield func(noise.Grouping) bool) {
		var g noise.Grouping
		g.Fifths(noise.ByFitted, fitted)
		for k := 0; yield(g) && k < len(kept); k++ {
			g.Fifths(strconv.Itoa(kept[k]), mat.Col(fitted, kept[k], x))
		}
	})
	if column, err = strconv.Atoi(u.By); err != nil {
		return u, -1
	}
	for _, at := range []*float64{&u.LeastAt, &u.GreatestAt} {
		if p.scales != nil {
			*at *= p.scales[column]
		}
		if p.means != nil {
			*at += p.means[column]
		}
	}
	u.By = noise.ByColumn
	return u, column
}

// leastSquares are the fitted values of y by some columns of x and a mean, and the residuals, each over the root of
// what its leverage leaves; nil where columns depend on each other.
func (p *Problem) leastSquares(x *mat.Dense, columns []int, y []float64, mean float64) (fitted, residual []float64) {
	n := len(columns)
	norms := lists.Map(columns, func(j int) float64 { return mat.Norm(x.ColView(j), 2) })
	buffer := make([]float64, min(p.D, rowsAtOnce)*n)
	blocks := func(f func(first int, rows *mat.Dense)) {
		for first := 0; first < p.D; first += rowsAtOnce {
			size := min(rowsAtOnce, p.D-first)
			rows := mat.NewDense(size, n, buffer[:size*n])
			for i := range size {
				row, all := rows.RawRowView(i), x.RawRowView(first+i)
				for k, j := range columns {
					row[k] = all[j] / norms[k]
				}
			}
			f(first, rows)
		}
	}
	gram, slope := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
	blocks(func(first int, rows *mat.Dense) {
		blas64.Syrk(blas.Trans, 1, rows.RawMatrix(), 1, gram.RawSymmetric())
		for i := range rows.RawMatrix().Rows {
			floats.AddScaled(slope.RawVector().Data, y[first+i]-mean, rows.RawRowView(i))
		}
	})
	var root mat.Cholesky
	if !root.Factorize(gram) || root.Cond() > mostCondition || root.SolveVecTo(slope, slope) != nil {
		return nil, nil
	}
	var upper mat.TriDense
	root.UTo(&upper)
	constant := 0.0
	if p.means != nil {
		constant = 1 / float64(p.D)
	}
	fitted, residual = make([]float64, 0, p.D), make([]float64, 0, p.D)
	blocks(func(first int, rows *mat.Dense) {
		for i := range rows.RawMatrix().Rows {
			fitted = append(fitted, mean+floats.Dot(rows.RawRowView(i), slope.RawVector().Data))
		}
		// The squared norms of the rows of X U^{-1} are their leverages, where X'X = U'U.
		blas64.Trsm(blas.Right, blas.NoTrans, 1, upper.RawTriangular(), rows.RawMatrix())
		for i := range rows.RawMatrix().Rows {
			row := rows.RawRowView(i)
			left := max(1-constant-floats.Dot(row, row), leastLeft)
			residual = append(residual, (y[first+i]-fitted[first+i])/math.Sqrt(left))
		}
	})
	return fitted, residual
}

// leastLeft is the least that counts as left of a leverage, mostCondition the condition number of the Gram matrix
// up to which its columns count as independent, and rowsAtOnce the number of rows that are copied at a time.
const leastLeft, mostCondition, rowsAtOnce = 1e-6, 1e12, 128

// inUnits are values of some columns, of X as it is solved, in the units of the original ones. Of the other columns,
// and of the levels of a categorical column that has no reference, they are NaN.
func (p *Problem) inUnits(columns []int, values []float64) []float64 {
	all := slices.Repeat([]float64{math.NaN()}, p.P)
	for k, j := range columns {
		if all[j] = values[k]; p.scales != nil {
			all[j] /= p.scales[j]
		}
	}
	for _, j := range p.levels {
		all[j] = math.NaN()
	}
	return all
}

// identified reports whether the columns, without some of them and with the intercept, are fewer
// than the observations.
func (p *Problem) identified(without int) bool {
	columns := p.P - without
	if p.means != nil {
		columns++
	}
	return columns > 0 && p.D > columns
}

// Rows reports whether mu_hat is a matrix times b, beside an intercept, so that b predicts the mean
// for new rows of the matrix.
func (p *Problem) Rows() bool { return p.rows }

// Observed are the places of the row-major matrix b that the observations are of; nil where b is no
// matrix, or its entries are not observed themselves. They must not be modified.
func (p *Problem) Observed() []int { return p.observed }
