// Package rewrite has the rewritings of a problem ([engine.Rewriting]), and the solver that solves the new problem in
// place of the one that was asked for:
//
//	Columns      units of the columns of A: A diag(s), r(s ∘ b)
//	Rows         units of the rows of K: diag(1/s) K, r(s ∘ z)
//	Weights      weights of the observations: sqrt(w) A, sqrt(w) y, and the squared loss
//	Coordinates  K b and some of b as the coordinates, where K's rows are independent
//	Project      unpenalized terms, projected off A and y
//
// The tables of package solve say when each of the first four is used; rewritings of rewritten problems are undone in
// reverse order, as a solver works by another one. The last one is made with the problem, whose
// [engine.Problem].Origin it then is.
package rewrite

import (
	"context"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/solve/engine"
)

// solver solves the problem of a task by that of a rewriting.
type solver struct {
	engine.Solver             // of the new problem
	s             engine.Task // of the problem that was asked for
	w             engine.Rewriting
	use           use
	own           bool      // w belongs to this solver, and not to the one that it was made from
	r             prox.Prox // the new regularizer, where it is this solver's; or nil
}

// use says how a rewriting is used.
type use struct {
	// next builds the solver of the new problem.
	next engine.Builder
	// serves reports that the rewriting is the right one for the regularizer of a task too; nil for always. Where it is
	// not, instead builds a solver of the task.
	serves  func(s *engine.Task) bool
	instead engine.Builder
}

// by solves by a rewriting, which belongs to the solver from now on.
func by(ctx context.Context, s engine.Task, w engine.Rewriting, u use) (engine.Solver, error) {
	x := &solver{s: s, w: w, use: u, own: true}
	return x.solved(func(inner engine.Task) (engine.Solver, error) { return u.next(ctx, inner) })
}

func (x *solver) solved(build func(inner engine.Task) (engine.Solver, error)) (engine.Solver, error) {
	done := false
	defer func() {
		if !done { // also where A panics
			x.Release()
		}
	}()
	inner := x.s
	inner.Problem = x.w.Problem()
	inner.Options.Sigma2 *= x.w.Noise()
	r, own, err := x.w.Regularizer(x.s.Problem.R)
	if err != nil {
		return nil, err
	}
	if inner.Problem.R = r; own {
		x.r = r
	}
	if x.Solver, err = build(inner); err != nil {
		return nil, err
	}
	done = true
	return x, nil
}

func (x *solver) Solve(ctx context.Context, y array.Batch, from engine.From) (*engine.Solution, error) {
	if !from.B.IsZero() {
		b, own := x.w.Start(from.B)
		if from.B = b; own {
			defer b.Free()
		}
	}
	if ahead := from.Ahead; ahead != nil {
		from.Ahead = func(i int) (prox.Prox, error) { return x.ahead(ahead(i)) }
	}
	if solved := from.Solved; solved != nil {
		from.Solved = func(sol *engine.Solution) {
			if sol.B.IsZero() { // its factors are those of every rewriting
				solved(sol)
				return
			}
			dev := y.Device()
			b := dev.Put(x.lift(dev, sol.B.ToHost()), 1, sol.B.N())
			defer b.Free()
			solved(&engine.Solution{B: b})
		}
	}
	return x.deliver(y, func(z array.Batch) (*engine.Solution, error) { return x.Solver.Solve(ctx, z, from) })
}

func (x *solver) ahead(r prox.Prox, err error) (prox.Prox, error) {
	if err != nil || r == nil {
		return nil, err
	}
	inner, own, err := x.w.Regularizer(r)
	if own || err != nil {
		prox.Release(r)
	}
	return inner, err
}

func (x *solver) Record(ctx context.Context, y array.Batch, newTape engine.NewTape) (*engine.Solution, error) {
	return x.deliver(y, func(z array.Batch) (*engine.Solution, error) { return x.Solver.Record(ctx, z, newTape) })
}

// deliver returns the solution of the new problem at y' as that of the other one at y. Its point owns y'.
func (x *solver) deliver(y array.Batch, solve func(z array.Batch) (*engine.Solution, error)) (*engine.Solution,
	error) {
	z, own := x.w.Data(y)
	var sol *engine.Solution
	kept, done := false, false
	defer func() {
		if sol != nil && !done { // also where A panics
			sol.Release()
		}
		if own && !kept {
			z.Free()
		}
	}()
	sol, err := solve(z)
	if err != nil {
		return nil, err
	}
	if at := sol.At; at != nil {
		at.OwnsY, kept = at.OwnsY || own, own
	}
	sol.Then(func(s *engine.Solution) { err = x.w.Deliver(s.B, s.MuHat, y) })
	if err == nil {
		err = y.Device().Sync()
	}
	if err != nil {
		return nil, err
	}
	done = true
	return sol, nil
}

func (x *solver) lift(dev array.Device, b []float64) []float64 {
	v := dev.Alloc(1, len(b))
	defer v.Free()
	dev.Upload(v, b)
	_ = x.w.Deliver(v, array.Batch{}, array.Batch{}) // only what mu' shows is an error
	return v.ToHost()
}

// Reweight shares the rewriting where it serves for the regularizer. Else the table is read again.
func (x *solver) Reweight(ctx context.Context, r prox.Prox) (engine.Solver, error) {
	s := x.s
	s.Problem.R = r
	if serves := x.use.serves; serves != nil && !serves(&s) {
		s.Options.Choices = s.Options.Choices[:len(s.Options.Choices)-1] // without that of this rewriting
		s.Options.InverseLengths = nil
		return x.use.instead(ctx, s)
	}
	other := &solver{s: s, w: x.w, use: x.use}
	return other.solved(func(inner engine.Task) (engine.Solver, error) {
		return x.Solver.Reweight(ctx, inner.Problem.R)
	})
}

func (x *solver) Release() {
	if x.Solver != nil {
		x.Solver.Release()
	}
	if x.r != nil {
		prox.Release(x.r)
	}
	if x.own {
		x.w.Release()
	}
}
