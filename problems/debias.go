package problems

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/lists"
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
	of, err := risk.NewLeastSquares(x, kept, p.ofConstant())
	if err != nil {
		return nil, err
	}
	return &FullModel{p, y, kept, x, of}, nil
}

// ofConstant is the leverage of an intercept, 0 without one.
func (p *Problem) ofConstant() float64 {
	if p.means == nil {
		return 0
	}
	return 1 / float64(p.D)
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
