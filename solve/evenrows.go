package solve

import (
	"context"
	"fmt"
	"math"
	"slices"

	"surepipe/linops"
	"surepipe/prox"
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
	Solver                   // in these units
	s      situation         // in the user's
	k      linops.Restricted // diag(1/s) K; nil where it belongs to another solver
	owned  prox.Prox         // the regularizer in these units; nil before it is made
}

// rowLengths2 are the squared lengths of K's rows; nil where they are not known. Where the columns of A differ in
// length, K's columns are measured in the same units: what a row of K asks of b is large or small beside what A sees of it.
func rowLengths2(p Problem) []float64 {
	var short []float64
	if !evenColumns(p.A) {
		if lengths2 := columnLengths2(p); spread(lengths2, nil) {
			short = inverseLengths(lengths2) // 0 for columns that A does not see
		}
	}
	return linops.RowNorms2(p.K, short)
}

// rowUnits returns s, nil where r has no other units.
func rowUnits(r prox.Prox, lengths2 []float64) []float64 {
	known := prox.StructureOf(r)
	if known.Rescale == nil || lengths2 == nil {
		return nil
	}
	s := make([]float64, len(lengths2))
	for i, v := range lengths2 {
		s[i] = 1 / unit(math.Sqrt(v))
	}
	known.Units(s)
	if slices.Min(s) == slices.Max(s) {
		return nil
	}
	return s
}

// newEvenRows solves in other units.
func newEvenRows(ctx context.Context, s situation) (Solver, error) {
	inverse := make([]float64, len(s.rowUnits))
	for i, v := range s.rowUnits {
		inverse[i] = 1 / v
	}
	e := &evenRows{s: s, k: linops.ScaleRows(s.p.Device, s.p.K, inverse)}
	inner := s
	inner.p.K = e.k
	r, err := e.rescale(s.p.R)
	if err == nil {
		inner.p.R = r
		e.Solver, err = chooseLoss(ctx, inner)
	}
	if err != nil {
		e.Release()
		return nil, err
	}
	return e, nil
}

// rescale returns z -> r(s ∘ z), and remembers to release it.
func (e *evenRows) rescale(r prox.Prox) (prox.Prox, error) {
	inner, err := prox.StructureOf(r).Rescale(e.s.p.Device, e.s.rowUnits)
	if err != nil {
		return nil, fmt.Errorf("solve: the regularizer with K's rows in other units: %w", err)
	}
	e.owned = inner
	return inner, nil
}

// Problem is the problem in the user's units.
func (e *evenRows) Problem() Problem { return e.s.p }

// Reweight shares the units and K where the regularizer calls for the same units.
func (e *evenRows) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	s := e.s
	s.p.R = r
	if !slices.Equal(rowUnits(r, s.rowLengths2), s.rowUnits) {
		s.o.choices = s.o.before("rows")
		return chooseRows(ctx, s)
	}
	other := &evenRows{s: s}
	inner, err := other.rescale(r)
	if err != nil {
		return nil, err
	}
	if other.Solver, err = e.Solver.Reweight(ctx, inner); err != nil {
		other.Release()
		return nil, err
	}
	return other, nil
}

// Release frees K and the regularizer in the other units.
func (e *evenRows) Release() {
	if e.Solver != nil {
		e.Solver.Release()
	}
	if e.owned != nil {
		prox.Release(e.owned)
	}
	if e.k != nil {
		e.k.Release()
	}
}
