package pipeline

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/risk/folds"
	"surepipe/solve"
	"surepipe/solve/rewrite"
	"surepipe/stages"
	"surepipe/vjp"
)

// refit is a family on one device with some observations left out.
type refit struct {
	on    *instance // whose y are the observations that are kept; nil for a black box
	kept  *rewrite.Kept
	of    *instance
	split folds.Split
	// joint is the loss where the observations do not stand alone, and rest that of the ones that are kept; else nil.
	joint, rest loss.Joint
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

// refitSlack is the tolerance of fits without some of the observations, in units of that of the fits of all: their
// errors are means that are known to a hundredth at best, and nothing is differentiated.
const refitSlack = 100

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
	r.joint, r.rest = loss.StructureOf(s.f.Problem.Loss).Joint, loss.StructureOf(f.Problem.Loss).Joint
	f.Settings.Derivative, f.Settings.Images = vjp.None, false
	f.Settings.Tol = min(refitSlack*cmp.Or(f.Settings.Tol, vjp.DefaultTol), 0.5)
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
	base, release, err := r.on.solver(ctx, s.weights(0))
	if err != nil && ctx.Err() == nil && f.Method == nil {
		base, release, err = r.otherwise(ctx, s.weights(0))
	}
	if err != nil {
		return nil, err
	}
	r.on.base, r.free = base, release
	return r, nil
}

// fillable reports whether [refit.fillIn] serves.
func (r *refit) fillable() bool {
	whole := r.of.f.Problem
	return whole.A != nil && linops.StructureOf(whole.A).Identity && whole.Loss == nil && whole.Origin == nil
}

// otherwise serves where the solver needs all observations: A*A = c I, for example. Where A = I [refit.fillIn] does.
func (r *refit) otherwise(ctx context.Context, weights []float64) (vjp.Solver, func(), error) {
	if r.fillable() {
		r.fills = true
		return nil, func() {}, nil
	}
	reg, err := r.on.f.Regularizer(weights)
	if err != nil {
		return nil, nil, err
	}
	p := r.on.f.Problem
	p.R = reg
	r.on.f.Solver = solve.Default(p)
	prox.Release(reg)
	return r.on.solver(ctx, weights)
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
	switch {
	case err != nil:
		return nil, held{}, err
	case r.joint != nil:
		kept := lists.Pick(mu, r.split.Keep)
		r.rest.Parts(kept, kept, r.kept.Observations(r.of.y))
		return loss.LeftOut(r.joint, r.split.Out, floats.Sum(kept), mu, r.of.y), b, nil
	case r.parts() != nil:
		r.parts()(mu, mu, r.of.y)
		return lists.Pick(mu, r.split.Out), b, nil
	}
	at := lossOf(r.of.f.Problem)
	for k, i := range r.predicted() {
		mu[k] = at(i, mu[k], r.of.y[i])
	}
	return mu, b, nil
}

// parts are the losses of observations with several entries each, nil for others.
func (r *refit) parts() func(dst, z, y []float64) {
	if known := loss.StructureOf(r.of.f.Problem.Loss); known.Several() {
		return known.Parts
	}
	return nil
}

// predicted are the places of the observations that errors need: what is left out, or all where these are asked for or
// do not stand alone.
func (r *refit) predicted() []int {
	if r.joint == nil && r.parts() == nil && !r.all {
		return r.split.Out
	}
	return lists.Upto(len(r.of.y))
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
	_, picks := linops.Picks(r.of.f.Problem.A)
	if low := sol.Implied; picks && low != nil && low.Factors != nil {
		b.factors = low.Factors()
	} else {
		sol.Expand(view)
		b = writtenOf(sol.B)
	}
	mu = r.kept.Predict(view, bOf(sol), b.factors, r.of.y, r.predicted())
	return mu, b, view.Sync()
}

func bOf(sol *vjp.Solution) array.Batch {
	if sol.Implied != nil {
		return array.Batch{}
	}
	return sol.B
}

// lossOf is the error of predicting one observation: the squared residual, whatever weight the observation has in the
// fit, as in GCV and leave-one-out; or the loss of the linear predictor; nil where that is not known.
func lossOf(p vjp.Problem) func(i int, mu, y float64) float64 {
	if !loss.Quadratic(p.Loss) {
		return loss.StructureOf(p.Loss).At
	}
	return func(_ int, mu, y float64) float64 { return (y - mu) * (y - mu) }
}
