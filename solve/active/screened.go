package active

import (
	"context"
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/restrict"
	"surepipe/space"
)

// screened solves the problems of active sets where a product with A is a pass over a matrix that is
// not in memory ([linops.Passes]), or that has many more columns than matter. It holds a part S of the columns in
// memory, finds the solutions of several weights of a path on S by active sets, and takes one pass for all their
// gradients:
//
//  1. S are the columns nearest to violating their conditions at the last gradient, by |g_j| / w_j.
//  2. A pass puts them into memory.
//  3. Active sets solve on S, from weight to weight, as far as no column outside should matter: with
//     the weights falling from w to w' a gradient grows by at most c (w_j - w'_j). With c = 1 this is
//     the sequential strong rule (Tibshirani et al., Strong rules for discarding predictors in
//     lasso-type problems, 2012), which discards little. c begins smaller and adapts: nothing rests on it.
//  4. A pass computes the gradients of all these solutions, one product of matrices. Those whose
//     conditions hold everywhere are solutions of the whole problem, exactly. At the first weight
//     where some do not, S is chosen again, from the gradient there.
//
// So a path of a hundred weights takes some tens of passes. Screening a batch of weights in one pass
// is that of Zeng and Breheny, The biglasso package, 2021. The next solves of a path find their
// solutions verified: they repeat them on S, where the derivative is computed too.
type screened struct {
	engine.Everywhere
	passes linops.Passes
	least  int // columns of a set, if they fit
	shared *lastSets
}

func (s *screened) Release() {
	s.Everywhere.Release()
	s.shared.release(s.Task.Family)
}

// NewScreened takes the weights of the regularizer when it solves.
func NewScreened(_ context.Context, s engine.Task) (engine.Solver, error) {
	n := &screened{Everywhere: engine.Everywhere{Task: s}, passes: passesOf(s.Problem.A), least: leastColumns,
		shared: kept[lastSets](&s).hold(s.Family)}
	if a := linops.StructureOf(s.Problem.A); a.Passes.Bytes == 0 { // all of it is in memory as it is
		n.Task.Options.Columns, n.least = max(s.Options.Columns, int64(8*a.Entries.Value)), fewestColumns
	}
	return n, nil
}

// leastWideEntries is the number of entries from which a product with a matrix in memory is worth the search for the
// columns that matter. At most d matter: sets of columnsPerActive times as many must be a small part of all.
const leastWideEntries = 1 << 22

// Wide reports that a product with A is a pass over a matrix that is not in memory, or takes much longer than one
// with the columns that matter.
func Wide(a linops.Operator) bool {
	d, p := a.Dims()
	known := linops.StructureOf(a)
	return known.Passes.Bytes > 0 || known.On != nil && known.Entries.Known && d > 0 &&
		known.Entries.Value >= leastWideEntries && p >= 2*columnsPerActive*d
}

// passesOf are those of a matrix in memory, where it has none.
func passesOf(a linops.Operator) linops.Passes {
	known := linops.StructureOf(a)
	if known.Passes.Bytes > 0 {
		return known.Passes
	}
	_, p := a.Dims()
	column := int64(8 * known.Entries.Value / float64(p))
	return linops.Passes{
		ColumnBytes: func(int) int64 { return column },
		Adjoint: func(ctx context.Context, dst, z array.Batch) error {
			a.Adjoint(dst, z)
			return ctx.Err()
		},
		Columns: func(ctx context.Context, dev array.Device, t space.Space) (linops.Restricted, error) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			op, _ := linops.On(dev, a, t)
			return op, nil
		},
	}
}

// separable are the weights of a sum over coordinates, and a number to recognize them by.
type separable struct {
	splitting
	key uint64
}

func separableOf(r prox.Prox, n int) separable {
	s := separable{splittingOf(prox.StructureOf(r), n), 14695981039346656037}
	mix := func(j int, v uint64) {
		s.key = (s.key ^ (v + uint64(j))) * 1099511628211
		s.key = s.key<<31 | s.key>>33
	}
	for _, numbers := range []prox.Numbers{s.w, s.q} {
		mix(0, math.Float64bits(numbers.One))
		for j, v := range numbers.List {
			mix(j, math.Float64bits(v))
		}
	}
	for j, on := range s.positive {
		if on {
			mix(j, 1)
		}
	}
	return s
}

// pulls sets to_j to by how much the gradient g of the loss pulls at b_j = 0, or at the group of j: b_j is 0 where
// that is at most w_j. It is +Inf where w_j is 0, and 0 where that is +Inf.
func (s *separable) pulls(to, g []float64) {
	for j, v := range g {
		to[j] = s.pull(j, v)
	}
	s.spread(to)
	for j := range to {
		switch w := s.w.At(j); {
		case held(w):
			to[j] = 0
		case w == 0:
			to[j] = math.Inf(1)
		}
	}
}

func (s *separable) relative(j int, pull float64) float64 {
	if pull == 0 || math.IsInf(pull, 1) {
		return pull
	}
	return pull / s.w.At(j)
}

// Solve goes on where the path has ended, or else starts from b.
func (s *screened) Solve(ctx context.Context, y array.Batch, from engine.From) (*engine.Solution, error) {
	if err := engine.CheckY(s.Task.Problem, y); err != nil {
		return nil, err
	}
	_, dim := s.Task.Problem.A.Dims()
	here := separableOf(s.Task.Problem.R, dim)
	w := resumeScreening(from.Path, s.Task.Family, y)
	if w == nil {
		var err error
		if w, err = s.open(ctx, y, here, from.B); err != nil {
			return nil, err
		}
	}
	sol, err := s.solve(ctx, w, y, here, from)
	if err != nil || from.Path == nil || s.Task.Family.Moves {
		w.Release()
		return sol, err
	}
	from.Path.Kept = w
	return sol, nil
}

// mostRounds bounds the sets of columns that are tried for one weight: each takes the violations of
// the one before.
const mostRounds = 100

func (s *screened) solve(ctx context.Context, w *screening, y array.Batch, here separable,
	from engine.From) (*engine.Solution, error) {
	for range mostRounds {
		v := w.verified(here.key)
		if v == nil {
			if err := s.advance(ctx, w, y, here, from); err != nil {
				return nil, err
			}
			if v = w.verified(here.key); v == nil {
				continue
			}
		}
		return s.repeat(ctx, w, y, here, v)
	}
	return nil, fmt.Errorf("solve: the columns that matter are still not known after %d rounds: give more memory "+
		"for columns", mostRounds)
}

// repeat solves on the columns in memory what has been verified, where the next solve of the path
// starts, and the derivative is computed.
func (s *screened) repeat(ctx context.Context, w *screening, y array.Batch, here separable,
	v *verified) (*engine.Solution, error) {
	r, solver, err := s.on(ctx, w, s.Task.Problem.R, true)
	if err != nil {
		return nil, err
	}
	defer solver.Release()
	if by, ok := solver.(*activeSet); ok {
		by.twin, by.pool = v, w.pool
	}
	dev := y.Device()
	start := dev.Put(v.b, 1, len(v.b))
	defer start.Free()
	sol, err := solver.Solve(ctx, y, engine.From{B: start, Path: &w.path})
	if err != nil {
		prox.Release(r)
		return nil, err
	}
	moved, z := 0.0, make([]float64, len(v.z))
	misfit := dev.Alloc(1, len(z))
	defer misfit.Free()
	dev.Copy(misfit, sol.MuHat)
	engine.Slope(s.Task.Problem, misfit, y)
	dev.Download(z, misfit)
	for i := range z {
		moved = math.Hypot(moved, z[i]-v.z[i])
	}
	s.wide(w, y, sol, r)
	s.judge(ctx, w, y, sol, misfit, here, v, moved)
	if !s.Task.Options.Point {
		sol.At.Release()
		sol.At = nil
	}
	return sol, dev.Sync()
}

// inner is the problem on the columns in memory, whose regularizer is the caller's to release. point says that
// derivatives of its solutions are wanted.
func (s *screened) inner(w *screening, r prox.Prox, point bool) (inner engine.Task, err error) {
	inner = s.Task
	inner.Problem = engine.Problem{A: w.columns, Loss: s.Task.Problem.Loss, Device: w.columns.dev}
	inner.Family, inner.Options.Point, inner.Options.Compact = w.inner, point, false
	inner.Lengths2, inner.Units = lists.Pick(s.Task.Lengths(), w.set), lists.Pick(s.Task.Units, w.set)
	inner.Even = false
	inner.Options.InverseLengths = lists.Pick(s.Task.Options.InverseLengths, w.set)
	inner.Problem.R, err = prox.StructureOf(r).On(inner.Problem.Device, w.columns.set)
	return inner, err
}

func (s *screened) on(ctx context.Context, w *screening, r prox.Prox, point bool) (prox.Prox, engine.Solver, error) {
	inner, err := s.inner(w, r, point)
	if err != nil {
		return nil, nil, err
	}
	build := New
	tall, err := s.tall(ctx, w)
	switch {
	case inner.Problem.Loss != nil:
		build, inner.Bound = NewReweighted, w.bound
	case tall:
		build = w.columns.all.solver
	}
	var solver engine.Solver
	if err == nil {
		solver, err = build(ctx, inner)
	}
	if err != nil {
		prox.Release(inner.Problem.R)
		return nil, nil, err
	}
	switch n := solver.(type) {
	case *reweighted:
		w.bound = n.s.Bound
	case *activeSet:
		n.slope = new([]float64)
	}
	return inner.Problem.R, solver, nil
}

// wide turns a solution on the columns in memory into one of the whole problem. The point keeps the
// columns and the regularizer r.
func (s *screened) wide(w *screening, y array.Batch, sol *engine.Solution, r prox.Prox) {
	dev := y.Device()
	_, dim := s.Task.Problem.A.Dims()
	at, columns := sol.At, w.columns
	b := dev.Alloc(1, dim)
	columns.set.Embed(b, sol.B)
	if at.Shared {
		at.B, at.Shared = sol.B, false
	} else {
		sol.B.Free()
	}
	sol.B = b
	release := at.Free
	at.Embedded(w.set, dim)
	columns.use()
	at.Free = func() {
		if release != nil {
			release()
		}
		prox.Release(r)
		columns.Release()
	}
	if at.Op == nil {
		at.Op = columns
	}
}

// judge applies the rule of acceptance to a solution on the columns in memory: outside of them the
// gradient is g, up to a change of the residual by moved.
func (s *screened) judge(ctx context.Context, w *screening, y array.Batch, sol *engine.Solution, misfit array.Batch,
	here separable, at *verified, moved float64) {
	o, dev, p := s.Task.Options, y.Device(), s.Task.Problem
	zNorm, bNorm := engine.Norm(misfit), engine.Norm(sol.B)
	a := engine.NewAcceptance(engine.ScalesOf(p, y, 0, o))
	a.Scales.Norm = max(w.norm, math.Sqrt(sol.At.Norm2))
	scale := a.Scales.Scale(zNorm, bNorm)
	all, byColumn, g := 0.0, 0.0, at.g
	proven := p.Loss == nil && moved+2*sol.Error <= at.margin
	if g == nil && !(proven && moved <= at.margin) {
		g = s.between(w, here, at, dev)
	}
	if !(moved <= at.margin) {
		all, byColumn = s.beyond(w, here, g, moved, a.Scales.Norm)
	}
	optimality := math.Hypot(sol.Optimality, engine.Relative(all, scale))
	optimality = max(optimality, engine.Relative(byColumn, a.Scales.ByColumn(zNorm)))
	bound, size := sol.Error, zNorm
	// Unless the columns outside are farther from violating their conditions than the error moves them.
	if !proven {
		gradient := dev.Put(g, 1, len(g))
		defer gradient.Free()
		bound, size = engine.BoundAt(ctx, p, y, &engine.Fit{B: sol.B, Z: sol.MuHat, Slope: misfit, G: gradient},
			a.Scales, optimality*scale)
	}
	a.Accept(optimality, optimality, bound, size)
	a.Convergence.Iterations = sol.Iterations
	sol.Convergence = a.Convergence
	sol.Choices = append(slices.Clone(sol.Choices), engine.Choice{
		Part: "storage", Chosen: fmt.Sprintf("%d of %d columns in memory", len(w.set), len(w.in)),
		Reason: "the conditions of all others were verified in a pass over A",
	})
}

// beyond is by how much columns outside of the set violate their conditions at most, where the residual has moved from
// that of the gradient: the norm, and that with every entry over the length of its column. bound stands for lengths
// that are not known.
func (s *screened) beyond(w *screening, here separable, g []float64, moved, bound float64) (all, byColumn float64) {
	pulls, lengths := make([]float64, len(g)), make([]float64, len(g))
	lengths2 := s.Task.Lengths()
	for j := range lengths {
		lengths[j] = s.length(lengths2, bound, j)
	}
	here.spread(lengths)
	here.pulls(pulls, g)
	for j, pull := range pulls {
		if w.in[j] || held(here.w.At(j)) {
			continue
		}
		if e := pull + moved*lengths[j] - here.w.At(j); e > 0 {
			all = math.Hypot(all, e)
			if of := s.Task.Options.InverseLengths; of != nil {
				byColumn = math.Hypot(byColumn, e*of[j])
			}
		}
	}
	return all, byColumn
}

func (s *screened) length(lengths2 []float64, bound float64, j int) float64 {
	if lengths2 == nil {
		return bound
	}
	length := math.Sqrt(lengths2[j])
	if s.Task.Units != nil {
		length *= s.Task.Units[j]
	}
	return length
}

// predict sets z = A b where A is in memory, else z = 0.
func (s *screened) predict(ctx context.Context, z, b array.Batch) error {
	dev := z.Device()
	dev.Fill(z, 0)
	support := restrict.Support(b)
	if len(support) == 0 || s.passes.Bytes > 0 {
		return nil
	}
	at := space.Coordinates(dev, b.N(), support)
	defer at.Release()
	op, err := s.passes.Columns(ctx, dev, at)
	if err != nil {
		return err
	}
	defer op.Release()
	some := dev.Alloc(1, len(support))
	defer some.Free()
	at.Coordinates(some, b)
	op.Forward(z, some)
	return nil
}
