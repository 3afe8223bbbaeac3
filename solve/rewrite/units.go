package rewrite

import (
	"context"
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
)

// columns is a problem in units in which the columns of A have about length 1: with b = s ∘ c it is
//
//	min_c  l(A diag(s) c; y) + r(s ∘ c),
//
// whose solver depends on neither the units of the columns nor their spread. mu_hat and its
// derivative are the same. The s_j are powers of two, so that nothing is rounded. Of r(K b) it is K that takes
// the units, K diag(s), and r stays as it is.
type columns struct {
	engine.Unchanged
	problem        engine.Problem
	units          []float64
	scale, inverse array.Batch
	a, k           linops.Restricted // k is nil without K
}

// Columns takes the units s for the columns of A, powers of two.
func Columns(p engine.Problem, units []float64) engine.Rewriting {
	dev, n := p.Device, len(units)
	c := &columns{problem: p, units: units, a: linops.ScaleColumns(dev, p.A, units), scale: dev.Alloc(1, n),
		inverse: dev.Alloc(1, n)}
	dev.Upload(c.scale, units)
	dev.Upload(c.inverse, reciprocals(units))
	c.problem.A = c.a
	if p.K != nil {
		c.k = linops.ScaleColumns(dev, p.K, units)
		c.problem.K = c.k
	}
	return c
}

func reciprocals(s []float64) []float64 {
	return lists.Map(s, func(v float64) float64 { return 1 / v })
}

// ByColumns solves in the units of the task.
func ByColumns(ctx context.Context, s engine.Task) (engine.Solver, error) {
	return by(ctx, s, Columns(s.Problem, s.Units), use{
		next:    s.Tables.Method,
		serves:  func(t *engine.Task) bool { return slices.Equal(t.UnitsFor(t.Problem.R), t.Units) },
		instead: s.Tables.Units,
	})
}

func (c *columns) Problem() engine.Problem { return c.problem }

func (c *columns) Regularizer(r prox.Prox) (prox.Prox, bool, error) {
	if c.k != nil {
		return r, false, nil
	}
	return rescaled(c.problem, r, c.units)
}

func rescaled(p engine.Problem, r prox.Prox, s []float64) (prox.Prox, bool, error) {
	inner, err := prox.StructureOf(r).Rescale(p.Device, s)
	if err != nil {
		return nil, false, fmt.Errorf("solve: the regularizer in other units: %w", err)
	}
	return inner, true, nil
}

func (c *columns) Start(b array.Batch) (array.Batch, bool) {
	to := b.Device().Alloc(b.K(), b.N())
	b.Device().Mul(to, b, c.inverse)
	return to, true
}

func (c *columns) Deliver(b, _, _ array.Batch) error {
	b.Device().Mul(b, b, c.scale)
	return nil
}

func (c *columns) Release() {
	if c.k != nil {
		c.k.Release()
	}
	c.a.Release()
	array.Free(c.scale, c.inverse)
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
		s.Lengths2, s.Uneven = lengths2, true
	}
}

// rows is a problem with r(K b) in units in which the rows of K have about length 1: with
// powers of two s_i, so that nothing is rounded, it is
//
//	min_b  l(A b; y) + r(s ∘ z),    z = diag(1/s) K b.
//
// Methods with a dual variable for K b have one step size for all rows, which must suit the longest: the
// multipliers of the others hardly move. b, mu_hat, the duality gap and the derivative are the same, and so is the
// method's measure of optimality.
type rows struct {
	engine.Unchanged
	problem engine.Problem
	units   []float64
	k       linops.Restricted
}

// Rows takes the units s for the rows of K, powers of two.
func Rows(p engine.Problem, units []float64) engine.Rewriting {
	r := &rows{problem: p, units: units, k: linops.ScaleRows(p.Device, p.K, reciprocals(units))}
	r.problem.K = r.k
	return r
}

// ByRows solves in the units of the task.
func ByRows(ctx context.Context, s engine.Task) (engine.Solver, error) {
	return by(ctx, s, Rows(s.Problem, s.RowUnits), use{
		next:    s.Tables.Loss,
		serves:  func(t *engine.Task) bool { return slices.Equal(RowUnits(t.Problem.R, t.RowLengths2), t.RowUnits) },
		instead: s.Tables.Rows,
	})
}

func (r *rows) Problem() engine.Problem { return r.problem }

func (r *rows) Regularizer(of prox.Prox) (prox.Prox, bool, error) {
	return rescaled(r.problem, of, r.units)
}

func (r *rows) Release() { r.k.Release() }

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
	s := lists.Map(lengths2, func(v float64) float64 { return 1 / numerics.Unit(math.Sqrt(v)) })
	known.Units(s)
	if slices.Min(s) == slices.Max(s) {
		return nil
	}
	return s
}
