package pipeline

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/risk/folds"
	"surepipe/solve/rewrite"
	"surepipe/stages"
)

// refit is a family on one device with some observations left out.
type refit struct {
	on    *instance // whose y are the observations that are kept; nil for a black box
	kept  *rewrite.Kept
	of    *instance
	split folds.Split
	// all says that errors are those of all observations, not of what is left out alone.
	all    bool
	failed int
	// fills says that A = I and the fit is by [refit.fillIn], which goes on from the multiplier of the fit before; norm
	// is that of K, squared, 0 where it is not yet known.
	fills      bool
	multiplier []float64
	norm       float64
	free       func()
}

// worthSharing are the entries of A in all fits from which on another processor is woken for them.
const worthSharing = 1 << 16

// without calls fit for the family without what each split leaves out, as many at once as workers; one after the other
// where all are little work.
func (s *instance) without(ctx context.Context, splits []folds.Split, workers int,
	fit func(ctx context.Context, k int, r *refit) error) error {
	if a := s.f.Problem.A; a != nil {
		if d, n := a.Dims(); float64(d)*float64(n)*float64(len(splits)) < worthSharing {
			workers = 1
		}
	}
	return inParallel(ctx, len(splits), workers, func(ctx context.Context, k int) error {
		if s.f.BlackBox != nil {
			return fit(ctx, k, &refit{of: s, split: splits[k]})
		}
		kept, err := s.keep(splits[k])
		if err != nil {
			return err
		}
		defer kept.Release()
		r, err := s.refit(ctx, splits[k], kept)
		if err != nil {
			return err
		}
		defer r.release()
		return fit(ctx, k, r)
	})
}

func (s *instance) keep(split folds.Split) (_ *rewrite.Kept, err error) {
	defer recovered(&err)
	return rewrite.Keep(s.f.Problem, split.Keep)
}

func inParallel(ctx context.Context, n, workers int, do func(ctx context.Context, k int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var next atomic.Int64
	var failed sync.Once
	var first error
	work := func() {
		for k := next.Add(1) - 1; k < int64(n); k = next.Add(1) - 1 {
			if err := do(ctx, int(k)); err != nil {
				failed.Do(func() {
					first = err
					cancel()
				})
			}
		}
	}
	var others sync.WaitGroup
	for range min(workers, n) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	return first
}

// refit is the family with the observations that are kept. Its problem has no derivative.
func (s *instance) refit(ctx context.Context, split folds.Split, kept *rewrite.Kept) (_ *refit, err error) {
	defer recovered(&err)
	r := &refit{of: s, split: split, kept: kept}
	f := s.f
	f.Problem = kept.Problem()
	f.Regularizer = func(w []float64) (prox.Prox, error) {
		whole, err := s.f.Regularizer(w)
		if err != nil {
			return nil, err
		}
		return kept.Regularizer(whole), nil
	}
	sub := &sweep{y: kept.Observations(s.y), grid: s.grid, o: s.o, total: s.total, chained: s.chained}
	r.on = &instance{sweep: sub, f: f}
	if k := s.f.Problem.K; k != nil && linops.StructureOf(k).Cosines.Shape.Len() > 0 && r.fillable() {
		r.fills = true // pixels of an image, sooner than a solver of their own takes their places
		return r, nil
	}
	reg, err := f.Regularizer(s.weights(0))
	if err != nil {
		return nil, err
	}
	p := f.Problem
	p.R = reg
	base, err := s.base.Again(ctx, p)
	if err != nil {
		prox.Release(reg)
		if r.fills = ctx.Err() == nil && r.fillable(); r.fills {
			return r, nil
		}
		return nil, err
	}
	r.on.base, r.free = base, func() { base.Release(); prox.Release(reg) }
	return r, nil
}

// fillable reports whether [refit.fillIn] serves.
func (r *refit) fillable() bool {
	whole := r.of.f.Problem
	return whole.A != nil && linops.StructureOf(whole.A).Identity && whole.Loss == nil && whole.Origin == nil
}

func (r *refit) release() {
	if r.free != nil {
		r.free()
	}
}

// errors are those of predicting what is left out, or all observations, at the weights, with the solution, from which a
// next solve may start.
func (r *refit) errors(ctx context.Context, weights []float64, from start) (errs []float64, b held, err error) {
	mu, b, err := r.at(ctx, weights, from)
	if err == nil {
		errs = r.errs().Of(mu)
	}
	return errs, b, err
}

func (r *refit) errs() stages.Without {
	w := stages.Without{Problem: r.of.f.Problem, Kept: r.kept, Y: r.of.y, Out: r.split.Out}
	if r.all {
		w.Out = lists.Upto(len(r.of.y))
	}
	return w
}

func (r *refit) at(ctx context.Context, weights []float64, from start) (mu []float64, b held, err error) {
	defer recovered(&err)
	if box := r.of.f.BlackBox; box != nil {
		y := slices.Clone(r.of.y)
		for _, i := range r.split.Out {
			y[i] = math.NaN()
		}
		e := &evaluations{box: box, weights: weights, y: y, calls: r.of.calls}
		all, err := e.at(ctx, y)
		if err == nil {
			mu = lists.Pick(all, r.split.Out)
		}
		return mu, held{}, err
	}
	if r.fills {
		return r.fillIn(ctx, weights, from)
	}
	solver, release, err := r.on.at(ctx, weights, from)
	if err != nil {
		return nil, held{}, err
	}
	defer release()
	view := r.on.f.Problem.Device.Request()
	y := stages.Observations(view, r.on.f.Problem, r.on.y)
	defer y.Free() // after the solution
	sol, err := solver.Solve(ctx, y)
	if err != nil {
		return nil, held{}, err
	}
	defer sol.Release()
	if !sol.Converged {
		r.failed++
	}
	mu, factors := r.errs().Predict(view, sol)
	if b.factors = factors; factors == nil {
		b = writtenOf(sol.B)
	}
	return mu, b, view.Sync()
}
