package verify

import (
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/vjp"
)

const (
	// checkTol is the tolerance of the solves whose differences are taken: the remaining error,
	// divided by the step of 1e-4, is far below a thousandth.
	checkTol = 1e-11
	// gapTol is the same where a tolerance is one of the duality gap: of a few more digits than that,
	// rounding errors leave nothing.
	gapTol   = 1e-14
	otherTol = 1e-10
	// checkIter bounds the iterations of each of these solves. The sum over all solves whose
	// differences are taken is bounded by leastBudget plus budgetFactor times the iterations of the
	// solve under check.
	checkIter    = 10000
	leastBudget  = 100000
	budgetFactor = 20
	// smallSide is the largest d and p for which another solver solves from 0.
	smallSide = 2000
)

func (c *check) newSolver(name string, tol float64) (vjp.Solver, error) {
	return vjp.NewSolver(c.ctx, name, c.Problem, vjp.Options{Tol: tol, MaxIter: checkIter, Sigma2: c.Sigma2,
		Derivative: vjp.None})
}

// witness is a solver at y and its neighbours, and its solution at y.
type witness struct {
	solver vjp.Solver
	owned  bool
	base   array.Batch
	mu     array.Batch
}

func (w *witness) release() {
	array.Free(w.base, w.mu)
	if w.owned {
		w.solver.Release()
	}
}

func (c *check) begin(w *witness) error {
	sol, err := c.solve(w, c.Y, c.B)
	if err == nil {
		w.base, w.mu = sol.B, sol.MuHat
	}
	return err
}

// again is the solver that solves to a far smaller tolerance, and that tolerance. Those of r(K b) stop at
// a duality gap, whose root is the error of mu_hat.
func (c *check) again() (name string, tol float64) {
	if c.Problem.K == nil {
		return solve.AnyProx, checkTol
	}
	return solve.Default(c.Problem), gapTol
}

// solveAgain solves at y to a far smaller tolerance, starting at b. The direct solver has no
// tolerance and is used as it is.
func (c *check) solveAgain() (err error) {
	if c.Convergence.Closed {
		c.first.solver = c.Solver
	} else if c.first.solver, err = c.newSolver(c.again()); err != nil {
		return err
	} else {
		c.first.owned = true
	}
	c.v.Solver = c.first.solver.Name()
	if err := c.begin(&c.first); err != nil {
		return err
	}
	c.v.add(Solution, c.moves(distance(c.first.mu, c.MuHat)), c.sure+c.moves(c.roundingOfMu()))
	return nil
}

// openSecond makes the second witness: another solver where the problem is small, else
// the first with a smaller tolerance.
func (c *check) openSecond() (err error) {
	if c.second.solver != nil {
		return nil
	}
	name, tol := c.again()
	if other := solve.Witness(name, c.Problem); c.small() && other != name {
		name = other
	} else {
		tol /= 100
	}
	if c.second.solver, err = c.newSolver(name, tol); err != nil {
		return err
	}
	c.second.owned = true
	// Its iterations are in addition to those that the first has used.
	c.budget += c.iterations
	return c.begin(&c.second)
}

func (c *check) roundingOfMu() float64 { return 1e-11 * (c.yNorm + math.Sqrt(c.norm2)*c.bNorm) }

// solve is a witness at y, starting at b where it can. Its solution has no
// derivative, or none that is kept.
func (c *check) solve(w *witness, y, b array.Batch) (*vjp.Solution, error) {
	sol, err := w.solver.SolveFrom(c.ctx, y, vjp.From{B: b})
	if err != nil {
		return nil, err
	}
	c.iterations += sol.Iterations
	if sol.Linearization != nil {
		sol.Linearization.Release()
		sol.Linearization = nil
	}
	return sol, nil
}

// small reports whether another solver is affordable: its products must not read A from a disk.
func (c *check) small() bool {
	return c.d <= smallSide && c.B.N() <= smallSide && linops.StructureOf(c.Problem.A).Passes.Bytes == 0
}

// serious is err where it is the context's or a fault of the device, and nil elsewhere: the failure
// of another solver is no evidence against the one under check.
func (c *check) serious(err error) error {
	if c.ctx.Err() != nil || c.dev.Err() != nil {
		return err
	}
	return nil
}

func (c *check) other() string {
	if !c.small() {
		return ""
	}
	name := c.Solver.Name()
	quadratic := c.Problem.K == nil && prox.StructureOf(c.Problem.R).Quadratic.Known
	e, _ := solve.Lookup(name)
	if quadratic && linops.StructureOf(c.Problem.A).Dense != nil && !e.Closed && !e.Normal {
		return solve.ClosedForm
	}
	if other := solve.Witness(name, c.Problem); other != name {
		return other
	}
	return ""
}

// solveOtherwise compares with another solver, started at 0. A solution that has not converged, or
// has a larger objective than the one under check, is no evidence against it.
func (c *check) solveOtherwise() error {
	name := c.other()
	if name == "" {
		return nil
	}
	solver, err := c.newSolver(name, otherTol)
	if err != nil {
		return c.serious(err)
	}
	defer solver.Release()
	sol, err := solver.Solve(c.ctx, c.Y)
	if err != nil {
		return c.serious(err)
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

func (c *check) objective(b array.Batch) (value float64, known bool) {
	fit := c.dev.Alloc(1, c.d)
	defer fit.Free()
	c.Problem.A.Forward(fit, b)
	if c.Problem.Loss != nil {
		value = c.Problem.Loss.Value(fit, c.Y)
	} else {
		c.dev.Lin(fit, 1, fit, -1, c.Y)
		value = fit.Dot(fit) / 2
	}
	if k := c.Problem.K; k != nil {
		q, _ := k.Dims()
		kb := c.dev.Alloc(1, q)
		defer kb.Free()
		k.Forward(kb, b)
		b = kb
	}
	switch r := prox.StructureOf(c.Problem.R); {
	case r.Value != nil:
		return value + r.Value(b), true
	case r.Quadratic.Known:
		return value + r.Quadratic.Value/2*b.Dot(b), true
	}
	return value, false
}
