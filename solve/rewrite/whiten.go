package rewrite

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/solve/engine"
)

// whitened solves a problem with the weighted squared loss 1/2 sum_i w_i (z_i - y_i)^2 as one with
// the squared loss,
//
//	min_b  1/2 ||W^{1/2} A b - W^{1/2} y||^2 + r(b),    W = diag(w).
//
// mu_hat = A b stays in the user's units, also where w_i = 0 leaves observation i out. What is
// differentiated is the whitened problem: with the curvature Q of r, on its tangent space,
//
//	S = W^{1/2} A (A* W A + Q)^+ A* W^{1/2}   in place of   D mu_hat = A (A* W A + Q)^+ A* W.
//
// The two matrices are similar where all weights are positive, S = W^{1/2} D mu_hat W^{-1/2}. In
// any case tr S = tr D mu_hat and ||S||_F^2 = tr (D mu_hat)^2, which is what an estimate of risk
// and its error bar need; S is symmetric with eigenvalues in [0, 1], and D mu_hat is not.
type whitened struct {
	engine.Solver                // of the whitened problem
	p             engine.Problem // the user's
	s             engine.Task    // the user's
	root          array.Batch
	op            *engine.WeightedRows // nil where the operator and the weights belong to another solver
}

// NewWhitened solves a whitened problem.
func NewWhitened(ctx context.Context, s engine.Task) (engine.Solver, error) {
	dev := s.Problem.Device
	root, sum := make([]float64, len(s.Weights)), 0.0
	for i, v := range s.Weights {
		root[i] = math.Sqrt(v)
		sum += v
	}
	w := &whitened{p: s.Problem, s: s, root: dev.Alloc(1, len(root))}
	w.p.Loss = s.Loss
	dev.Upload(w.root, root)
	w.op = engine.NewWeightedRows(s.Problem.A, w.root, root, nil)
	inner := s
	inner.Problem.A = w.op
	// The noise in W^{1/2} y has norm sigma sqrt(sum_i w_i).
	inner.Options.Sigma2 *= sum / float64(len(root))
	var err error
	if w.Solver, err = inner.Tables.Units(ctx, inner); err != nil {
		w.Release()
		return nil, err
	}
	return w, nil
}

// Problem is the user's problem.
func (w *whitened) Problem() engine.Problem { return w.p }

// Solve solves the whitened problem.
func (w *whitened) Solve(ctx context.Context, y array.Batch, from engine.From) (*engine.Solution, error) {
	return w.deliver(y, func(z array.Batch) (*engine.Solution, error) { return w.Solver.Solve(ctx, z, from) })
}

// Record records the whitened problem.
func (w *whitened) Record(ctx context.Context, y array.Batch, newTape engine.NewTape) (*engine.Solution, error) {
	return w.deliver(y, func(z array.Batch) (*engine.Solution, error) { return w.Solver.Record(ctx, z, newTape) })
}

// whiten is W^{1/2} y.
func (w *whitened) whiten(y array.Batch) array.Batch {
	if y.N() != w.root.N() {
		engine.CheckY(w.p, y) // panics
	}
	z := y.Device().Alloc(1, y.N())
	y.Device().Mul(z, y, w.root)
	return z
}

// deliver returns the solution at z = W^{1/2} y with mu_hat in the user's units; its point owns z.
func (w *whitened) deliver(y array.Batch, solve func(z array.Batch) (*engine.Solution, error)) (*engine.Solution,
	error) {
	z := w.whiten(y)
	var sol *engine.Solution
	var err error
	owned, done := false, false
	defer func() {
		if sol != nil && !done { // also where A panics
			sol.Release()
		}
		if !owned {
			z.Free()
		}
	}()
	if sol, err = solve(z); err != nil {
		return nil, err
	}
	if sol.At != nil {
		sol.At.OwnsY, owned = true, true
	}
	sol.Then(func(s *engine.Solution) { w.p.A.Forward(s.MuHat, s.B) })
	if err := z.Device().Sync(); err != nil {
		return nil, err
	}
	done = true
	return sol, nil
}

// Reweight shares the weights and what the solver of the whitened problem shares.
func (w *whitened) Reweight(ctx context.Context, r prox.Prox) (engine.Solver, error) {
	inner, err := w.Solver.Reweight(ctx, r)
	if err != nil {
		return nil, err
	}
	other := &whitened{Solver: inner, p: w.p, s: w.s, root: w.root}
	other.p.R, other.s.Problem.R = r, r
	return other, nil
}

// Release frees the weights and the solver of the whitened problem.
func (w *whitened) Release() {
	if w.Solver != nil {
		w.Solver.Release()
	}
	if w.op != nil {
		w.root.Free()
	}
}
