package problems

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/linops"
	"surepipe/risk"
)

// mostDebiased bounds the work of Debiased: d p^2.
const mostDebiased = 2e12

var ErrTooFewRows = errors.New("expected more rows than columns")

// Debiased returns the coefficients in the units of the original columns without the bias of the
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
func (p *Problem) Debiased(y, muHat, b []float64) (debiased, factors []float64, err error) {
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
	left := slices.Clone(p.redundant)
	x := dense()
	for j := range p.P {
		if mat.Norm(x.ColView(j), math.Inf(1)) == 0 {
			left = append(left, j)
		}
	}
	if !p.identified(len(left)) {
		return nil, nil, fmt.Errorf("%w: X has %d columns and %d rows", ErrTooFewRows, p.P-len(left), p.D)
	}
	kept := make([]int, 0, p.P)
	for j := range p.P {
		if !slices.Contains(left, j) {
			kept = append(kept, j)
		}
	}
	residual := floats.SubTo(make([]float64, p.D), y, muHat)
	shift, variance, err := risk.Debias(withoutColumns(x, left), residual)
	if err != nil {
		return nil, nil, err
	}
	for k, j := range kept {
		shift[k], variance[k] = b[j]+shift[k], math.Sqrt(variance[k])
	}
	return p.inUnits(kept, shift), p.inUnits(kept, variance), nil
}

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
