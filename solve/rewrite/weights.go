package rewrite

import (
	"context"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/solve/engine"
)

// weights is a problem with the weighted squared loss 1/2 sum_i w_i (z_i - y_i)^2 as one with
// the squared loss,
//
//	min_b  1/2 ||W^{1/2} A b - W^{1/2} y||^2 + r(K b),    W = diag(w).
//
// mu_hat = A b stays in the units of y, also where w_i = 0 leaves observation i out. The derivative of a solution is
// taken from the new problem: with the curvature Q of r, on its tangent space,
//
//	S = W^{1/2} A (A* W A + Q)^+ A* W^{1/2}   in place of   D mu_hat = A (A* W A + Q)^+ A* W.
//
// The two matrices are similar where all weights are positive, D mu_hat = W^{-1/2} S W^{1/2}. In
// any case tr S = tr D mu_hat and ||S||_F^2 = tr (D mu_hat)^2, which is what an estimate of risk
// and its error bar need; S is symmetric with eigenvalues in [0, 1], and D mu_hat is not.
type weights struct {
	engine.Unchanged
	problem engine.Problem
	a       linops.Operator
	w       []float64
	root    array.Batch // W^{1/2}
}

// Weights takes the weights w of the observations into A and y.
func Weights(p engine.Problem, w []float64) engine.Rewriting {
	root, _ := loss.Roots(w)
	r := &weights{problem: p, a: p.A, w: w, root: p.Device.Alloc(1, len(w))}
	p.Device.Upload(r.root, root)
	r.problem.A, r.problem.Loss = engine.NewWeightedRows(p.A, r.root, root, nil), nil
	return r
}

// ByWeights solves the problem with the squared loss.
func ByWeights(ctx context.Context, s engine.Task) (engine.Solver, error) {
	return by(ctx, s, Weights(s.Problem, s.Weights), use{next: s.Tables.Units})
}

func (r *weights) Problem() engine.Problem { return r.problem }

func (r *weights) Noise() float64 {
	sum := 0.0
	for _, v := range r.w {
		sum += v
	}
	return sum / float64(len(r.w))
}

func (r *weights) Data(y array.Batch) (array.Batch, bool) {
	if y.N() != len(r.w) {
		_ = engine.CheckY(r.problem, y) // panics
	}
	z := y.Device().Alloc(y.K(), y.N())
	y.Device().Mul(z, y, r.root)
	return z, true
}

func (r *weights) Deliver(b, mu, _ array.Batch) error {
	if !mu.IsZero() {
		r.a.Forward(mu, b)
	}
	return nil
}

func (r *weights) Release() { r.root.Free() }
