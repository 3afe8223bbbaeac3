package problems

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"surepipe/internal/lists"
	"surepipe/internal/noise"
	"surepipe/linops"
	"surepipe/risk"
)

// mostDebiased bounds the work of FullModel: d p^2.
const mostDebiased = 2e12

var ErrTooFewRows = errors.New("expected more rows than columns")

// FullModel is least squares with all columns of a regression, and its intercept, at one y, whatever the fit. Columns
// that no other determines have coefficients.
type FullModel struct {
	p       *Problem
	y       []float64
	columns []int
	x       *mat.Dense
	of      *risk.LeastSquares
}

// FullModel is that at y. The error says why there is none: columns that depend on each other, no matrix, weights of
// the observations, too large a problem, or, which is an ErrTooFewRows, too few rows: then see
// [Problem.DebiasedByScores].
func (p *Problem) FullModel(y []float64) (*FullModel, error) {
	kept, x, err := p.identifiedColumns()
	if err != nil {
		return nil, err
	}
	if len(y) != p.D {
		return nil, fmt.Errorf("y has %d values and X %d rows", len(y), p.D)
	}
	constant := 0.0
	if p.means != nil {
		constant = 1 / float64(p.D)
	}
	of, err := risk.NewLeastSquares(x, kept, constant)
	if err != nil {
		return nil, err
	}
	return &FullModel{p, y, kept, x, of}, nil
}

// Debiased are the coefficients in the units of the original columns without the bias of the
// penalty, and the factors by which sigma is multiplied in their standard errors:
//
//	debiased_j = b_j + <z_j, y - mu_hat> / ||z_j||^2,   standard error sigma / ||z_j||
//
// with z_j what the other columns, and the intercept, leave of column j: see [risk.LeastSquares.Debias]. b is
// that of the problem as it is solved. Coefficients that are not identified are NaN: those of
// constant columns, and of the levels of a categorical column that has no reference.
func (m *FullModel) Debiased(muHat, b []float64) Debiased {
	f := m.of.Debias(floats.SubTo(make([]float64, len(m.y)), m.y, muHat))
	for k, j := range m.columns {
		f.Shift[k], f.Variance[k], f.Robust[k] = b[j]+f.Shift[k], math.Sqrt(f.Variance[k]), math.Sqrt(f.Robust[k])
	}
	in := func(values []float64) []float64 { return m.p.inUnits(m.columns, values) }
	return Debiased{in(f.Shift), in(f.Variance), in(f.Robust)}
}

// Debiased are coefficients without the bias of a penalty, the factors of sigma in their standard errors, and standard
// errors where the variance of the noise differs between observations ([risk.LeastSquares.Debias]).
type Debiased struct{ Values, Factors, Robust []float64 }

// counts reports whether a column of the operator's matrix is neither 0 nor depends on others by its coding.
func (p *Problem) counts(j int, column mat.Vector) bool {
	return !slices.Contains(p.redundant, j) && mat.Norm(column, math.Inf(1)) > 0
}

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
	kept = lists.Places(p.P, func(j int) bool { return p.counts(j, x.ColView(j)) })
	if !p.identified(p.P - len(kept)) {
		return nil, nil, fmt.Errorf("%w: X has %d columns and %d rows", ErrTooFewRows, len(kept), p.D)
	}
	return kept, x, nil
}

// Comparable reports whether the full model is so small that nobody has to ask for it.
func (p *Problem) Comparable() bool {
	return float64(p.D)*float64(p.P)*float64(p.P) <= mostCompared
}

// mostCompared bounds the work that nobody has asked for: d p^2.
const mostCompared = 4e8

// residuals are those of the model.
func (m *FullModel) residuals() []float64 {
	mean := 0.0
	if m.p.means != nil {
		mean = stat.Mean(m.y, nil)
	}
	return m.of.Residuals(lists.Make(len(m.y), func(i int) float64 { return m.y[i] - mean }))
}

// Doubts are what the residuals tell of the noise: whether it is uneven, and observations that are far from what the
// others predict.
type Doubts struct {
	Uneven noise.Uneven
	// Column is that by which the noise differs, or -1 for the fitted value.
	Column   int
	Outliers []risk.Outlier
}

// leastResidual is the part of the greatest observation below which residuals are rounding errors.
const leastResidual = 1e-9

// Doubts looks at the residuals.
func (m *FullModel) Doubts() (d Doubts) {
	residual := m.residuals()
	if floats.Norm(residual, math.Inf(1)) > leastResidual*floats.Norm(m.y, math.Inf(1)) {
		d.Outliers = m.of.Outliers(residual)
	}
	d.Uneven, d.Column = m.uneven(residual)
	return d
}

// uneven compares the variances of the residuals between fifths of the observations, by the fitted value and by each
// column ([noise.UnevenBy]). column is that by which they differ most, in whose units LeastAt and GreatestAt are, or -1
// for the fitted value.
func (m *FullModel) uneven(residual []float64) (u noise.Uneven, column int) {
	p := m.p
	fitted := floats.SubTo(make([]float64, p.D), m.y, residual)
	for i, h := range m.of.Leverages {
		residual[i] /= math.Sqrt(max(1-h, leastLeft))
	}
	u = noise.UnevenBy(residual, 1+len(m.columns), func(yield func(noise.Grouping) bool) {
		var g noise.Grouping
		g.Fifths(noise.ByFitted, fitted)
		for k := 0; yield(g) && k < len(m.columns); k++ {
			g.Fifths(strconv.Itoa(m.columns[k]), mat.Col(fitted, m.columns[k], m.x))
		}
	})
	column, err := strconv.Atoi(u.By)
	if err != nil {
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

// leastLeft is the least that counts as left of a leverage.
const leastLeft = 1e-6

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
