package verify

import (
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/vjp"
)

const (
	// checkTol is the tolerance of the solves whose differences are taken: what it leaves, over the
	// step of 1e-4, is far below a thousandth.
	checkTol = 1e-11
	// otherTol is that of the other solver.
	otherTol = 1e-10
	// checkIter bounds the iterations of each of these solves.
	checkIter = 10000
	// smallSide is the largest d and p for which another solver solves from 0.
	smallSide = 2000
)

// newSolver is a solver without a derivative.
func (c *check) newSolver(name string, tol float64) (vjp.Solver, error) {
	return vjp.NewSolver(c.ctx, name, c.Problem, vjp.Options{Tol: tol, MaxIter: checkIter, Derivative: vjp.None})
}

// solveAgain solves at y to a far smaller tolerance, starting at b. The direct solver has
// none: it serves as it is.
func (c *check) solveAgain() (err error) {
	if c.Solver.Name() == "direct" {
		c.own = c.Solver
	} else if c.own, err = c.newSolver("fista", checkTol); err != nil {
		return err
	}
	c.v.Solver = c.own.Name()
	sol, err := c.solve(c.Y, c.B)
	if err != nil {
		return err
	}
	c.base, c.baseMu = sol.B, sol.MuHat
	c.v.add(Solution, c.moves(distance(c.baseMu, c.MuHat)), c.sure+c.moves(c.roundingOfMu()))
	return nil
}

// roundingOfMu is what rounding leaves open in a solve's mu_hat.
func (c *check) roundingOfMu() float64 { return 1e-11 * (c.yNorm + math.Sqrt(c.norm2)*c.bNorm) }

// solve is the differences' solver at y, starting at b where it can. Its solution has no
// derivative, or none that is kept.
func (c *check) solve(y, b array.Batch) (*vjp.Solution, error) {
	var sol *vjp.Solution
	var err error
	if starter, ok := c.own.(vjp.Starter); ok {
		sol, err = starter.SolveFrom(c.ctx, y, b)
	} else {
		sol, err = c.own.Solve(c.ctx, y)
	}
	if err == nil && sol.Linearization != nil {
		sol.Linearization.Release()
		sol.Linearization = nil
	}
	return sol, err
}

// other is the name of the solver to compare with.
func (c *check) other() string {
	if _, p := c.Problem.A.Dims(); c.d > smallSide || p > smallSide {
		return ""
	}
	if c.Solver.Name() == "admm" {
		return "fista"
	}
	_, quadratic := c.Problem.R.(prox.Quadratic)
	dense, ok := c.Problem.A.(linops.Densifier)
	if quadratic && ok && dense.Dense() != nil && c.Solver.Name() != "direct" {
		return "direct"
	}
	return "admm"
}

// solveOtherwise compares with another solver, from 0. What has not converged, or has a larger
// objective than the solution under check, says nothing of that.
func (c *check) solveOtherwise() error {
	name := c.other()
	if name == "" {
		return nil
	}
	solver, err := c.newSolver(name, otherTol)
	if err != nil {
		return err
	}
	defer solver.Release()
	sol, err := solver.Solve(c.ctx, c.Y)
	if err != nil {
		return err
	}
	defer sol.Release()
	if !sol.Converged {
		return nil
	}
	c.v.Other = name
	mine, known := c.objective(c.B)
	theirs, _ := c.objective(sol.B)
	delta := distance(sol.MuHat, c.MuHat)
	if known && mine <= theirs && !math.IsInf(theirs, 1) {
		delta = 0
	}
	c.v.add(OtherSolver, c.moves(delta), c.sure+c.moves(c.roundingOfMu()))
	return nil
}

// objective is 1/2 ||A b - y||^2 + r(b), where r is known as a function.
func (c *check) objective(b array.Batch) (value float64, known bool) {
	fit := c.dev.Alloc(1, c.d)
	defer fit.Free()
	c.Problem.A.Forward(fit, b)
	c.dev.Lin(fit, 1, fit, -1, c.Y)
	value = dot(fit, fit) / 2
	switch r := c.Problem.R.(type) {
	case prox.Valuer:
		return value + r.Value(b), true
	case prox.Quadratic:
		return value + r.Curvature()/2*dot(b, b), true
	}
	return value, false
}
