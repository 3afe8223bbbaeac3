package rewrite

import (
	"context"
	"math"
	"slices"

	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/internal/spd"
)

// evenRows solves a problem with r(K b) in units in which the rows of K have about length 1: with
// powers of two s_i, so that nothing is rounded, it is
//
//	min_b  l(A b; y) + r(s ∘ z),    z = diag(1/s) K b.
//
// Methods with a dual variable for K b have one step size for all rows, which must suit the longest: the
// multipliers of the others hardly move. b, mu_hat, the duality gap and the derivative are the same, and so is the
// method's measure of optimality.
type evenRows struct {
	inUnits
	k linops.Restricted // diag(1/s) K; nil where it belongs to another solver
}

// RowLengths2 are the squared lengths of K's rows; nil where they are not known. Where the columns of A differ in
// length, K's columns are measured in the same units: what a row of K asks of b is large or small beside what A
// sees of it.
func RowLengths2(p engine.Problem) []float64 {
	var short []float64
	if lengths2 := engine.UnequalLengths2(p); lengths2 != nil {
		short = engine.InverseLengths(lengths2) // 0 for columns that A does not see
	}
	return linops.RowNorms2(p.K, short)
}

// RowUnits returns s, nil where r has no other units.
func RowUnits(r prox.Prox, lengths2 []float64) []float64 {
	known := prox.StructureOf(r)
	if known.Rescale == nil || lengths2 == nil {
		return nil
	}
	s := make([]float64, len(lengths2))
	for i, v := range lengths2 {
		s[i] = 1 / spd.Unit(math.Sqrt(v))
	}
	known.Units(s)
	if slices.Min(s) == slices.Max(s) {
		return nil
	}
	return s
}

// NewEvenRows solves in other units.
func NewEvenRows(ctx context.Context, s engine.Task) (engine.Solver, error) {
	inverse := make([]float64, len(s.RowUnits))
	for i, v := range s.RowUnits {
		inverse[i] = 1 / v
	}
	e := &evenRows{inUnits: inUnits{s: s}, k: linops.ScaleRows(s.Problem.Device, s.Problem.K, inverse)}
	inner := s
	inner.Problem.K = e.k
	r, err := e.rescale(s.Problem.R, s.RowUnits)
	if err == nil {
		inner.Problem.R = r
		e.Solver, err = inner.Tables.Loss(ctx, inner)
	}
	if err != nil {
		e.Release()
		return nil, err
	}
	return e, nil
}

// Reweight shares the units and K where the regularizer calls for the same units.
func (e *evenRows) Reweight(ctx context.Context, r prox.Prox) (engine.Solver, error) {
	s := e.s
	s.Problem.R = r
	if !slices.Equal(RowUnits(r, s.RowLengths2), s.RowUnits) {
		s.Options.Choices = s.Options.Before("rows")
		return s.Tables.Rows(ctx, s)
	}
	other := &evenRows{inUnits: inUnits{s: s}}
	inner, err := other.rescale(r, s.RowUnits)
	if err != nil {
		return nil, err
	}
	if other.Solver, err = e.Solver.Reweight(ctx, inner); err != nil {
		other.Release()
		return nil, err
	}
	return other, nil
}

// Release frees K too.
func (e *evenRows) Release() {
	e.inUnits.Release()
	if e.k != nil {
		e.k.Release()
	}
}
