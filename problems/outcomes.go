package problems

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/linops"
	"surepipe/prox"
)

func (p *Problem) each() int { return max(p.outcomes, 1) }

// Several is the number of columns of y where it has several, and 0 elsewhere. The coefficients are then as many for
// each column of X, one after the other.
func (p *Problem) Several() int { return p.outcomes }

// Classes says that the columns of y are those of classes.
func (p *Problem) Classes() bool { return p.classes }

// Observations is the number of observations: rows of y where it has several columns.
func (p *Problem) Observations() int { return p.D / p.each() }

// Variables is the number of columns of X, or of another operator.
func (p *Problem) Variables() int { return p.P / p.each() }

// withOutcomes makes the operator X that of a y with K columns, X (x) I: row (i, k) has x_ij at the place (j, k). An
// intercept is a column of ones for each outcome, of classes for all but the last: a constant in all of them changes
// nothing.
func (a *assembly) withOutcomes() error {
	p, k := a.p, a.p.outcomes
	switch {
	case k == 0:
		return nil
	case !a.Regression() || a.Line("synthesis") > 0 || a.parts.Behind != nil || a.data.Effects.Some():
		return a.Errorf(a.Line("operator"), "the %s loss is for regressions on a matrix, without a synthesis, "+
			"terms or effects", p.Loss.Name)
	case a.parts.Source != nil && a.parts.Source.Stored != nil:
		return fmt.Errorf("the %s loss needs X in memory: expected --storage memory", p.Loss.Name)
	}
	p.D, p.P, p.constant = p.D*k, p.P*k, p.constant*k
	op := linops.Kronecker(p.dev, p.Operator, k, p.P+p.extra())
	p.parts.Own(op.Release)
	p.Operator = op
	return nil
}

// shiftOutcomes makes the coefficients of each column unique by glmnet's convention, where neither the loss nor the
// penalty depends on a constant in them: with sum |b_jk| their median is 0, with an even number of outcomes the mean of
// the two in the middle, and without a penalty their mean. A sum of squares leaves nothing open.
func (p *Problem) shiftOutcomes(b []float64) {
	known := prox.StructureOf(p.Regularizer).Sparse
	if !p.classes || known == nil {
		return
	}
	w, q, positive := known(p.P + p.extra())
	for j := 0; j < len(b); j += p.outcomes {
		column := b[j : j+p.outcomes]
		switch {
		case q.At(j) > 0 || positive != nil && positive[j]:
		case w.At(j) > 0:
			sorted := slices.Sorted(slices.Values(column))
			floats.AddConst(-(sorted[(p.outcomes-1)/2]+sorted[p.outcomes/2])/2, column)
		default:
			centeredOutcomes(column)
		}
	}
}

func centeredOutcomes(v []float64) { floats.AddConst(-floats.Sum(v)/float64(len(v)), v) }

func outcomesOf(l Loss, data Data) int {
	if l.Row().Columns {
		return data.YShape[1]
	}
	return 0
}

func checkOutcomes(l Loss, data Data) error {
	k, err := l.Kind()
	switch {
	case err != nil:
		return err
	case k.Columns && (len(data.YShape) != 2 || data.YShape[1] < 2):
		return fmt.Errorf("array \"y\" has shape %v, expected (d, K) for the %s loss: a column for each class or "+
			"response", data.YShape, l.Name)
	}
	return nil
}
