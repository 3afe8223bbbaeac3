package solve

import (
	"context"
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// equilibrated solves a problem in units in which the columns of A have about length 1: with b = s
// ∘ c it is
//
//	min_c  1/2 ||A diag(s) c - y||^2 + r(s ∘ c),
//
// whose solver depends on neither the units of the columns nor their spread. mu_hat and its
// derivative are the same. The s_j are powers of two, so that nothing is rounded.
type equilibrated struct {
	Solver            // in these units
	s       situation // in the user's
	scale   array.Batch
	inverse array.Batch
	owned   prox.Prox         // the regularizer in these units; nil before it is made
	op      linops.Restricted // nil where the operator and the scales belong to another solver
}

// columnLengths2 are the squared lengths of A's columns; nil where A does not report them and there
// are too many to compute.
func columnLengths2(p Problem) []float64 {
	d, dim := p.A.Dims()
	if known := linops.StructureOf(p.A).ColumnNorms2; known != nil && dim <= math.MaxInt32 {
		return known()
	}
	if dim > maxDense || dim == 0 || d == 0 {
		return nil
	}
	x := linops.ToDense(p.Device, p.A)
	lengths := make([]float64, dim)
	for i := range d {
		for j, v := range x.RawRowView(i) {
			lengths[j] += v * v
		}
	}
	return lengths
}

// lengths are the squared lengths of A's columns, nil where they are not known.
func (s *situation) lengths() []float64 {
	if s.even {
		return columnLengths2(s.p)
	}
	return s.lengths2
}

// evenColumns reports that the lengths of A's columns do not differ much, by what A knows of all of
// them, or where A, or each part of A = [A1 A2 ...], has orthogonal columns of one length: there is no
// need to list them.
func evenColumns(a linops.Operator) bool {
	if span := linops.StructureOf(a).ColumnSpread; span != nil {
		least, most := span()
		return !spread([]float64{least, most}, nil)
	}
	parts := linops.StructureOf(a).Beside
	if len(parts) == 0 {
		parts = []linops.Operator{a}
	}
	lengths2 := make([]float64, len(parts))
	for i, part := range parts {
		c := linops.StructureOf(part).Columns
		if lengths2[i] = c.Value; !c.Known {
			return false
		}
	}
	return !spread(lengths2, nil)
}

// spread reports whether the columns of A, in units s, differ much in length.
func spread(lengths2, s []float64) bool {
	least, most := math.Inf(1), 0.0
	for j, v := range lengths2 {
		if s != nil {
			v *= s[j] * s[j]
		}
		if v > 0 && !math.IsInf(v, 1) {
			least, most = min(least, v), max(most, v)
		}
	}
	return most > widestSpread*widestSpread*least
}

// inverseLengths is 1/||a_j||, 0 for columns of zeros.
func inverseLengths(lengths2 []float64) []float64 {
	out := make([]float64, len(lengths2))
	for j, v := range lengths2 {
		if v > 0 {
			out[j] = 1 / math.Sqrt(v)
		}
	}
	return out
}

// unit is the power of two that brings a length near 1; 1 for lengths that are 0 or out of range.
func unit(length float64) float64 {
	if !(length > 0) || math.IsInf(length, 1) {
		return 1
	}
	f, e := math.Frexp(length)
	if f < math.Sqrt2/2 {
		e--
	}
	return math.Ldexp(1, -e)
}

// columnUnits returns s, nil where the lengths of the columns are similar or r has no other units.
func columnUnits(r prox.Prox, lengths2 []float64) []float64 {
	known := prox.StructureOf(r)
	if known.Rescale == nil || !spread(lengths2, nil) {
		return nil
	}
	s := make([]float64, len(lengths2))
	for j, v := range lengths2 {
		s[j] = unit(math.Sqrt(v))
	}
	known.Units(s)
	for _, v := range s {
		if v != 1 {
			return s
		}
	}
	return nil
}

// newEquilibrated solves in other units.
func newEquilibrated(ctx context.Context, s situation) (Solver, error) {
	dev, n := s.p.Device, len(s.units)
	e := &equilibrated{s: s, op: linops.ScaleColumns(dev, s.p.A, s.units), scale: dev.Alloc(1, n), inverse: dev.Alloc(1, n)}
	dev.Upload(e.scale, s.units)
	inverse := make([]float64, n)
	for j, v := range s.units {
		inverse[j] = 1 / v
	}
	dev.Upload(e.inverse, inverse)
	inner := s
	inner.p.A = e.op
	r, err := e.rescale(s.p.R)
	if err == nil {
		inner.p.R = r
		e.Solver, err = chooseMethod(ctx, inner)
	}
	if err != nil {
		e.Release()
		return nil, err
	}
	return e, nil
}

// rescale returns c -> r(s ∘ c), and remembers to release it.
func (e *equilibrated) rescale(r prox.Prox) (prox.Prox, error) {
	inner, err := prox.StructureOf(r).Rescale(e.s.p.Device, e.s.units)
	if err != nil {
		return nil, fmt.Errorf("solve: the regularizer in other units: %w", err)
	}
	e.owned = inner
	return inner, nil
}

// Problem is the problem in the user's units.
func (e *equilibrated) Problem() Problem { return e.s.p }

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
	if !slices.Equal(columnUnits(r, s.lengths2), s.units) {
		s.o.choices = s.o.choices[:len(s.o.choices)-1]
		s.o.shortness = nil
		return chooseUnits(ctx, s)
	}
	other := &equilibrated{s: s, scale: e.scale, inverse: e.inverse}
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

// Release frees the operator and the regularizer in the other units.
func (e *equilibrated) Release() {
	if e.Solver != nil {
		e.Solver.Release()
	}
	if e.owned != nil {
		prox.Release(e.owned)
	}
	if e.op != nil {
		e.op.Release()
		e.scale.Free()
		e.inverse.Free()
	}
}
