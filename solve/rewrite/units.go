// Package rewrite has the solvers that solve a problem in another form and return the solution in the user's: units of
// the columns of A and of the rows of K, weights of the observations, coordinates K b, and the squared loss that
// another loss is at its solution.
package rewrite

import (
	"context"
	"fmt"
	"slices"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
)

// equilibrated solves a problem in units in which the columns of A have about length 1: with b = s
// ∘ c it is
//
//	min_c  1/2 ||A diag(s) c - y||^2 + r(s ∘ c),
//
// whose solver depends on neither the units of the columns nor their spread. mu_hat and its
// derivative are the same. The s_j are powers of two, so that nothing is rounded. Of r(K b) it is K that takes
// the units, K diag(s), and r stays as it is.
type equilibrated struct {
	inUnits
	scale, inverse array.Batch
	op             linops.Restricted // nil where the operators and the scales belong to another solver
	k              linops.Restricted // likewise, and without K
}

// inUnits solves a problem in other units than the user's.
type inUnits struct {
	engine.Solver             // in these units
	s             engine.Task // in the user's
	owned         prox.Prox   // the regularizer in these units; nil before it is made, and where it is the user's
}

// rescale returns b -> r(s ∘ b), and remembers to release it.
func (u *inUnits) rescale(r prox.Prox, units []float64) (prox.Prox, error) {
	inner, err := prox.StructureOf(r).Rescale(u.s.Problem.Device, units)
	if err != nil {
		return nil, fmt.Errorf("solve: the regularizer in other units: %w", err)
	}
	u.owned = inner
	return inner, nil
}

// Problem is the problem in the user's units.
func (u *inUnits) Problem() engine.Problem { return u.s.Problem }

// Release frees the solver and the regularizer in the other units.
func (u *inUnits) Release() {
	if u.Solver != nil {
		u.Solver.Release()
	}
	if u.owned != nil {
		prox.Release(u.owned)
	}
}

// EstimateUnits takes units by estimated lengths where A has too many columns to compute them, and they differ much.
func EstimateUnits(s *engine.Task) {
	d, dim := s.Problem.A.Dims()
	if s.Lengths2 != nil || s.Problem.K != nil || d == 0 || max(d, dim) > limits.Written/engine.LengthsAtOnce ||
		prox.StructureOf(s.Problem.R).Rescale == nil {
		return
	}
	lengths2 := engine.EstimatedLengths2(s.Problem)
	if s.Units = engine.ColumnUnits(s.Problem.R, lengths2); s.Units != nil {
		s.Lengths2 = lengths2
	}
}

// NewEquilibrated solves in other units.
func NewEquilibrated(ctx context.Context, s engine.Task) (engine.Solver, error) {
	dev, n := s.Problem.Device, len(s.Units)
	e := &equilibrated{inUnits: inUnits{s: s}, op: linops.ScaleColumns(dev, s.Problem.A, s.Units),
		scale: dev.Alloc(1, n), inverse: dev.Alloc(1, n)}
	dev.Upload(e.scale, s.Units)
	inverse := make([]float64, n)
	for j, v := range s.Units {
		inverse[j] = 1 / v
	}
	dev.Upload(e.inverse, inverse)
	inner := s
	inner.Problem.A = e.op
	if s.Problem.K != nil {
		e.k = linops.ScaleColumns(dev, s.Problem.K, s.Units)
		inner.Problem.K = e.k
	}
	r, err := e.within(s.Problem.R)
	if err == nil {
		inner.Problem.R = r
		e.Solver, err = inner.Tables.Method(ctx, inner)
	}
	if err != nil {
		e.Release()
		return nil, err
	}
	return e, nil
}

// within is r in the other units.
func (e *equilibrated) within(r prox.Prox) (prox.Prox, error) {
	if e.s.Problem.K != nil {
		return r, nil
	}
	return e.rescale(r, e.s.Units)
}

// Solve solves in the other units and returns b in the user's.
func (e *equilibrated) Solve(ctx context.Context, y array.Batch, from engine.From) (*engine.Solution, error) {
	if b := from.B; !b.IsZero() {
		from.B = y.Device().Alloc(1, b.N())
		defer from.B.Free()
		y.Device().Mul(from.B, b, e.inverse)
	}
	if ahead := from.Ahead; ahead != nil {
		from.Ahead = func(i int) (prox.Prox, error) {
			r, err := ahead(i)
			if err != nil || r == nil {
				return nil, err
			}
			defer prox.Release(r)
			return prox.StructureOf(r).Rescale(e.s.Problem.Device, e.s.Units)
		}
	}
	return e.deliver(e.Solver.Solve(ctx, y, from))
}

// Record records in the other units.
func (e *equilibrated) Record(ctx context.Context, y array.Batch, newTape engine.NewTape) (*engine.Solution, error) {
	return e.deliver(e.Solver.Record(ctx, y, newTape))
}

// deliver returns a solution in the user's units.
func (e *equilibrated) deliver(sol *engine.Solution, err error) (*engine.Solution, error) {
	if err != nil {
		return nil, err
	}
	if sol.At != nil {
		sol.At.Units = e.s.Units
	}
	sol.Then(func(s *engine.Solution) { s.B.Device().Mul(s.B, s.B, e.scale) })
	if err := sol.B.Device().Sync(); err != nil {
		sol.Release()
		return nil, err
	}
	return sol, nil
}

// Reweight shares the units, the operator and its norm where the regularizer calls for the same
// units.
func (e *equilibrated) Reweight(ctx context.Context, r prox.Prox) (engine.Solver, error) {
	s := e.s
	s.Problem.R = r
	if !slices.Equal(s.UnitsFor(r), s.Units) {
		s.Options.Choices = s.Options.Choices[:len(s.Options.Choices)-1]
		s.Options.Shortness = nil
		return s.Tables.Units(ctx, s)
	}
	other := &equilibrated{inUnits: inUnits{s: s}, scale: e.scale, inverse: e.inverse}
	inner, err := other.within(r)
	if err != nil {
		return nil, err
	}
	if other.Solver, err = e.Solver.Reweight(ctx, inner); err != nil {
		other.Release()
		return nil, err
	}
	return other, nil
}

// Release frees the operators too.
func (e *equilibrated) Release() {
	e.inUnits.Release()
	if e.k != nil {
		e.k.Release()
	}
	if e.op != nil {
		e.op.Release()
		e.scale.Free()
		e.inverse.Free()
	}
}
