package pipeline

import (
	"context"
	"math"
	"slices"

	"surepipe/array"
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
	// failed is how many of its fits have not converged.
	failed int
	free   func()
}

// without is the family without what a split leaves out. Its problem has no derivative.
func (s *instance) without(ctx context.Context, split folds.Split) (_ *refit, err error) {
	defer recovered(&err)
	r := &refit{of: s, split: split}
	if s.f.BlackBox != nil {
		return r, nil
	}
	if r.kept, err = rewrite.Keep(s.f.Problem, split.Keep); err != nil {
		return nil, err
	}
	f := s.f
	f.Problem = r.kept.Problem(nil)
	f.Settings.Derivative, f.Settings.Images = vjp.None, false
	f.Regularizer = func(w []float64) (prox.Prox, error) {
		whole, err := s.f.Regularizer(w)
		if err != nil {
			return nil, err
		}
		return r.kept.Regularizer(whole), nil
	}
	sub := &sweep{y: r.kept.Observations(s.y), grid: s.grid, o: s.o, total: s.total, chained: s.chained}
	r.on = &instance{sweep: sub, f: f}
	base, release, err := r.on.solver(ctx, s.weights(0))
	asked := s.o.Audit == AlwaysAudit || s.o.Criterion.Rule().Refits
	if err != nil && asked && ctx.Err() == nil && f.Method == nil { // it may be much slower
		base, release, err = r.byDefault(ctx, s.weights(0))
	}
	if err != nil {
		r.kept.Release()
		return nil, err
	}
	r.on.base, r.free = base, func() { release(); r.kept.Release() }
	return r, nil
}

// byDefault is the default solver of the kept problem, for one whose own needs all observations: A*A = c I, for
// example.
func (r *refit) byDefault(ctx context.Context, weights []float64) (vjp.Solver, func(), error) {
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

// release frees what it holds.
func (r *refit) release() {
	if r.free != nil {
		r.free()
	}
}

// at is the estimate of all observations at the weights, and the solution, from which a next solve may start.
func (r *refit) at(ctx context.Context, weights []float64, from start) (mu []float64, b held, err error) {
	defer recovered(&err)
	if box := r.of.f.BlackBox; box != nil {
		y := slices.Clone(r.of.y)
		for _, i := range r.split.Out {
			y[i] = math.NaN()
		}
		e := &evaluations{box: box, weights: weights, y: y, calls: r.of.calls}
		mu, err = e.at(ctx, y)
		return mu, held{}, err
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
		b.b = sol.B.ToHost()
	}
	mu = r.kept.Predict(view, bOf(sol), b.factors, r.of.y)
	return mu, b, view.Sync()
}

// bOf is the solution on the device, the zero Batch where it is not written down.
func bOf(sol *vjp.Solution) array.Batch {
	if sol.Implied != nil {
		return array.Batch{}
	}
	return sol.B
}

// lossOf is the error of predicting one observation: the squared residual, times the weight of the observation where
// it has one, or the loss of the linear predictor; nil where that is not known.
func lossOf(p vjp.Problem) func(i int, mu, y float64) float64 {
	if !loss.Quadratic(p.Loss) {
		return loss.StructureOf(p.Loss).At
	}
	w := loss.Weighing(p.Loss)
	return func(i int, mu, y float64) float64 {
		if w != nil {
			return w[i] * (y - mu) * (y - mu)
		}
		return (y - mu) * (y - mu)
	}
}
