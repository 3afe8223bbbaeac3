package rewrite

import (
	"context"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/solve/engine"
)

// curved solves a problem whose loss is not quadratic, and leaves at its solutions the problem with
// the squared loss that it is there, for the derivative. With W = diag(w), w_i = l”_i(z_i; y_i) at z
// = A b, the derivative by y of a solution on its manifold is
//
//	D z = A E (E* (A* W A + Q) E)^+ E* A* C,   C = diag(-d^2 l / dz dy),
//
// with C = I for the logistic and the Poisson loss, and C = W for losses of z - y. What is
// differentiated is the whitened problem (see whitened),
//
//	S = W^{1/2} A E (E* (A* W A + Q) E)^+ E* A* W^{1/2},
//
// symmetric with eigenvalues in [0, 1]. tr S, the degrees of freedom, is the trace of the derivative
// of the fitted means l' + y by y for the first two, and that of D z for the latter. Observations
// without curvature have rows and columns of next to zeros ([loss.Structure.Whiten]).
type curved struct {
	engine.Solver
	s engine.Task
}

// NewCurved solves as the table of units says.
func NewCurved(ctx context.Context, s engine.Task) (engine.Solver, error) {
	s.Options.Sigma2 = 0 // the likelihood has no noise but its own
	inner, err := s.Tables.Units(ctx, s)
	if err != nil {
		return nil, err
	}
	return &curved{inner, s}, nil
}

// Reweight shares what the solver shares.
func (c *curved) Reweight(ctx context.Context, r prox.Prox) (engine.Solver, error) {
	inner, err := c.Solver.Reweight(ctx, r)
	if err != nil {
		return nil, err
	}
	return &curved{inner, c.s}, nil
}

// Solve solves, and makes the point's problem that of the squared loss.
func (c *curved) Solve(ctx context.Context, y array.Batch, from engine.From) (*engine.Solution, error) {
	sol, err := c.Solver.Solve(ctx, y, from)
	if err != nil || sol.At == nil {
		return sol, err
	}
	done := false
	defer func() {
		if !done { // also where A panics
			sol.Release()
		}
	}()
	sol.At.Whiten(sol.MuHat)
	if err := y.Device().Sync(); err != nil {
		return nil, err
	}
	done = true
	return sol, nil
}
