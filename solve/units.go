package solve

import (
	"context"
	"fmt"
	"slices"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
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
	Solver           // in these units
	s      situation // in the user's
	owned  prox.Prox // the regularizer in these units; nil before it is made, and where it is the user's
}

// rescale returns b -> r(s ∘ b), and remembers to release it.
func (u *inUnits) rescale(r prox.Prox, units []float64) (prox.Prox, error) {
	inner, err := prox.StructureOf(r).Rescale(u.s.p.Device, units)
	if err != nil {
		return nil, fmt.Errorf("solve: the regularizer in other units: %w", err)
	}
	u.owned = inner
	return inner, nil
}

// Problem is the problem in the user's units.
func (u *inUnits) Problem() Problem { return u.s.p }

// Release frees the solver and the regularizer in the other units.
func (u *inUnits) Release() {
	if u.Solver != nil {
		u.Solver.Release()
	}
	if u.owned != nil {
		prox.Release(u.owned)
	}
}

// estimateUnits takes units by estimated lengths where A has too many columns to compute them, and they differ much.
func estimateUnits(s *situation) {
	d, dim := s.p.A.Dims()
	if s.lengths2 != nil || s.p.K != nil || d == 0 || max(d, dim) > limits.Written/lengthsAtOnce ||
		prox.StructureOf(s.p.R).Rescale == nil {
		return
	}
	lengths2 := estimatedLengths2(s.p)
	if s.units = columnUnits(s.p.R, lengths2); s.units != nil {
		s.lengths2 = lengths2
	}
}

// newEquilibrated solves in other units.
func newEquilibrated(ctx context.Context, s situation) (Solver, error) {
	dev, n := s.p.Device, len(s.units)
	e := &equilibrated{inUnits: inUnits{s: s}, op: linops.ScaleColumns(dev, s.p.A, s.units), scale: dev.Alloc(1, n), inverse: dev.Alloc(1, n)}
	dev.Upload(e.scale, s.units)
	inverse := make([]float64, n)
	for j, v := range s.units {
		inverse[j] = 1 / v
	}
	dev.Upload(e.inverse, inverse)
	inner := s
	inner.p.A = e.op
	if s.p.K != nil {
		e.k = linops.ScaleColumns(dev, s.p.K, s.units)
		inner.p.K = e.k
	}
	r, err := e.within(s.p.R)
	if err == nil {
		inner.p.R = r
		e.Solver, err = inner.tables.Method(ctx, inner)
	}
	if err != nil {
		e.Release()
		return nil, err
	}
	return e, nil
}

// within is r in the other units.
func (e *equilibrated) within(r prox.Prox) (prox.Prox, error) {
	if e.s.p.K != nil {
		return r, nil
	}
	return e.rescale(r, e.s.units)
}

// Solve solves in the other units and returns b in the user's.
func (e *equilibrated) Solve(ctx context.Context, y array.Batch, from From) (*Solution, error) {
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
			return prox.StructureOf(r).Rescale(e.s.p.Device, e.s.units)
		}
	}
	return e.deliver(e.Solver.Solve(ctx, y, from))
}

// Record records in the other units.
func (e *equilibrated) Record(ctx context.Context, y array.Batch, newTape func(Method, array.Batch) Tape) (*Solution, error) {
	return e.deliver(e.Solver.Record(ctx, y, newTape))
}

// deliver returns a solution in the user's units.
func (e *equilibrated) deliver(sol *Solution, err error) (*Solution, error) {
	if err != nil {
		return nil, err
	}
	if sol.At != nil {
		sol.At.units = e.s.units
	}
	sol.then(func(s *Solution) { s.B.Device().Mul(s.B, s.B, e.scale) })
	if err := sol.B.Device().Sync(); err != nil {
		sol.Release()
		return nil, err
	}
	return sol, nil
}

// Reweight shares the units, the operator and its norm where the regularizer calls for the same
// units.
func (e *equilibrated) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	s := e.s
	s.p.R = r
	if !slices.Equal(s.unitsFor(r), s.units) {
		s.o.choices = s.o.choices[:len(s.o.choices)-1]
		s.o.shortness = nil
		return s.tables.Units(ctx, s)
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
