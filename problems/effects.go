package problems

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/sublist"
	"surepipe/linops/additive"
	"surepipe/problems/spec"
)

// FittedEffects are the effects of a fit,
//
//	mu_hat_ij = Mean + Rows_i + Columns_j + B_ij.
//
// Rows and Columns are nil where there are no such effects. Where constants can be moved between them
// the sum of the squares of Rows and Columns is the least. They are those of the rows and columns that RowsAt and
// ColumnsAt list in increasing order, nil for all: those with an observed entry. The others have the effect 0.
type FittedEffects struct {
	Mean              float64
	Rows, Columns     []float64
	RowsAt, ColumnsAt []int
}

// At is the part of the effects in the entry of a row and a column.
func (f *FittedEffects) At(row, column int) float64 {
	return f.Mean + sublist.Value(f.Rows, f.RowsAt, row) + sublist.Value(f.Columns, f.ColumnsAt, column)
}

func (b *assembly) checkEffects(data Data, from *spec.Source, cols []int) error {
	line := b.Line("operator")
	switch {
	case from == nil || from.Places == nil || len(cols) != 2 || b.Line("synthesis") > 0:
		return b.Errorf(line, "effects (%s) are asked for, but %s has no observed entries of a matrix: expected "+
			"matrix-completion, or operator: {selection: ...} of a matrix without a synthesis",
			strings.Join(data.Effects.Names(), ","), b.p.Name)
	case !b.p.Loss.Squared():
		return b.Errorf(line, "effects (%s) are asked for, but the loss is %s: they are for the squared loss",
			strings.Join(data.Effects.Names(), ","), b.p.Loss.Name)
	case data.Intercept:
		return b.Errorf(line, "effects (%s) and an intercept are asked for: the effects include a constant, "+
			"expected one of them", strings.Join(data.Effects.Names(), ","))
	}
	return nil
}

func (b *assembly) withoutEffects(data Data, from *spec.Source, cols []int) error {
	if err := b.checkEffects(data, from, cols); err != nil {
		return err
	}
	p := b.p
	if i := slices.IndexFunc(b.roots, func(w float64) bool { return w == 0 }); i >= 0 {
		return fmt.Errorf("array \"weights\" holds 0 at [%d], but with effects of rows and columns every "+
			"entry needs a positive weight: leave the entry out", i)
	}
	weights := slices.Clone(b.roots)
	for i, r := range weights {
		weights[i] = r * r
	}
	shape := array.Shape{Rows: cols[0], Cols: cols[1]}
	e, err := additive.NewEffects(p.dev, shape, from.Places, data.Effects.Rows, data.Effects.Columns, weights)
	if err != nil {
		return trim(err)
	}
	p.parts.Own(e.Release)
	if e.Rank() >= p.D {
		return fmt.Errorf("the effects (%s) alone fit all of the %d entries: with %d degrees of freedom they "+
			"leave nothing to estimate", strings.Join(data.Effects.Names(), ","), p.D, e.Rank())
	}
	p.effects, p.Effects = e, data.Effects
	p.Operator = additive.WithoutEffects(from.Selection, e)
	return nil
}

// EffectsDF are the degrees of freedom of the effects, 0 without them.
func (p *Problem) EffectsDF() int {
	if p.effects == nil {
		return 0
	}
	return p.effects.Rank()
}

// FitEffectsAt are the effects of the fit mu_hat = effects + B at the observed entries, of which muHat is a sample's
// whole estimate, as package pipeline returns it, and seen are the entries of B at the places of [Problem.Observed];
// nil where the problem has no effects.
func (p *Problem) FitEffectsAt(muHat, seen []float64) *FittedEffects {
	if p.effects == nil {
		return nil
	}
	if len(muHat) != p.D || len(seen) != p.D {
		panic(fmt.Sprintf("problems: mu_hat has %d values and B %d at the observed entries, expected %d", len(muHat),
			len(seen), p.D))
	}
	rest := make([]float64, p.D)
	floats.SubTo(rest, muHat, seen)
	f := &FittedEffects{}
	f.Mean, f.Rows, f.Columns = p.effects.Of(rest)
	f.RowsAt, f.ColumnsAt = p.effects.Lines()
	return f
}
