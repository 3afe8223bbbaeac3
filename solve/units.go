package solve

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
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

// The lengths of columns are estimated from lengthDraws random vectors, lengthsAtOnce at a time. Those of a
// million columns of one length then differ by a factor of 3 at most.
const lengthDraws, lengthsAtOnce = 32, 8

// estimatedLengths2 are the squared lengths of A's columns up to some 25%, from products with it: for random
// signs z, E (A* z)_j^2 = ||a_j||^2.
func estimatedLengths2(p Problem) []float64 {
	d, dim := p.A.Dims()
	dev := p.Device.Request()
	z, v := dev.Alloc(lengthsAtOnce, d), dev.Alloc(lengthsAtOnce, dim)
	defer z.Free()
	defer v.Free()
	sum := dev.Alloc(1, dim)
	each := dev.Put(slices.Repeat([]float64{1. / lengthDraws}, lengthsAtOnce), 1, lengthsAtOnce)
	defer sum.Free()
	defer each.Free()
	rng := rand.New(rand.NewPCG(0x6c656e, uint64(dim)))
	signs := make([]float64, lengthsAtOnce*d)
	dev.Fill(sum, 0)
	for range lengthDraws / lengthsAtOnce {
		for i := range signs {
			signs[i] = float64(1 - 2*int(rng.Uint64()&1))
		}
		dev.Upload(z, signs)
		p.A.Adjoint(v, z)
		dev.Mul(v, v, v)
		dev.Gemm(false, false, 1, each, v, 1, sum)
	}
	return sum.ToHost()
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

// unequalLengths2 are the squared lengths of A's columns where these differ much; else nil.
func unequalLengths2(p Problem) []float64 {
	if evenColumns(p.A) {
		return nil
	}
	if lengths2 := columnLengths2(p); spread(lengths2, nil) {
		return lengths2
	}
	return nil
}

// unequalColumns are units in which A's columns have about length 1, where they differ much; else nil.
func unequalColumns(p Problem) []float64 {
	if lengths2 := unequalLengths2(p); lengths2 != nil {
		return unitsOf(lengths2)
	}
	return nil
}

// unitsOf are units in which columns of these squared lengths have about length 1.
func unitsOf(lengths2 []float64) []float64 {
	s := make([]float64, len(lengths2))
	for j, v := range lengths2 {
		s[j] = unit(math.Sqrt(v))
	}
	return s
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
	s := unitsOf(lengths2)
	known.Units(s)
	for _, v := range s {
		if v != 1 {
			return s
		}
	}
	return nil
}

// unitsFor are units for the columns of A with a regularizer; nil for the user's. With r(K b) they are for matrices A and K,
// and not where K takes differences of pairs: its products, its normal equations or its null spaces may be cheap in the
// user's units only ([situation.tied]).
func (s *situation) unitsFor(r prox.Prox) []float64 {
	switch {
	case s.p.K == nil:
		return columnUnits(r, s.lengths2)
	case spread(s.lengths2, nil):
		return unitsOf(s.lengths2)
	}
	return nil
}

// estimateUnits takes units by estimated lengths where A has too many columns to compute them, and they differ much.
func (s *situation) estimateUnits() {
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

// tied reports that there are no other units for b.
func (s *situation) tied() bool {
	if s.p.K == nil {
		return false
	}
	a, k := linops.StructureOf(s.p.A), linops.StructureOf(s.p.K)
	return !a.Entries.Known || !k.Entries.Known || k.Pairs != nil && k.Pairs() != nil
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
		e.Solver, err = chooseMethod(ctx, inner)
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
		return chooseUnits(ctx, s)
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
