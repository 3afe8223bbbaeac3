package vjp

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"surepipe/array"
	"surepipe/input"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/lowrank"
	"surepipe/vjp/system"
)

// Solvers lists the names that NewSolver takes.
func Solvers() []string { return solve.Names() }

// NewSolver returns the solver of the given name for the problem. The context bounds the work done
// once for all y: the estimate of the operator's norm, or a factorization.
func NewSolver(ctx context.Context, name string, p Problem, o Options) (Solver, error) {
	e, _ := solve.Lookup(name)
	return newSolver(ctx, p, o, e, func(ctx context.Context, p Problem, so solve.Options) (solve.Solver, error) {
		return solve.New(ctx, name, p, so)
	})
}

// FromMethod returns a solver of the problem by a user's method: it is differentiated, warm-started
// and reweighted like the solvers of NewSolver, and runs on a working set where the entry allows
// it. Its constructor may be called more than once, and the problem that it is given may have its
// columns in other units and its observations whitened.
func FromMethod(ctx context.Context, method solve.Entry, p Problem, o Options) (Solver, error) {
	return newSolver(ctx, p, o, method, func(ctx context.Context, p Problem, so solve.Options) (solve.Solver, error) {
		return solve.NewFrom(ctx, method, p, so)
	})
}

type solver struct {
	inner solve.Solver
	p     Problem
	o     Options
	again again
}

// again makes a solver of another problem.
type again func(ctx context.Context, p Problem) (Solver, error)

// refitSlack is the tolerance of solves without a derivative, in units of that of the first: they are for errors of
// prediction, which are means that are known to a hundredth at best.
const refitSlack = 100

func newAgain(o Options, e solve.Entry, inner maker) again {
	o.Derivative, o.Images = None, false
	o.Tol = min(refitSlack*cmp.Or(o.Tol, DefaultTol), 0.5)
	return func(ctx context.Context, p Problem) (Solver, error) {
		s, err := newSolver(ctx, p, o, e, inner)
		if err != nil && ctx.Err() == nil {
			return NewSolver(ctx, solve.Default(p), p, o)
		}
		return s, err
	}
}

type maker = func(ctx context.Context, p Problem, so solve.Options) (solve.Solver, error)

func newSolver(ctx context.Context, p Problem, o Options, e solve.Entry, inner maker) (Solver, error) {
	switch {
	case p.A == nil:
		return nil, input.Errorf("the operator of the problem is nil, expected one")
	case p.R == nil:
		return nil, input.Errorf("the regularizer of the problem is nil, expected one")
	case p.Device == nil:
		return nil, input.Errorf("the device of the problem is nil, expected one, such as array.NewHost()")
	}
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	if e.Closed && (o.Derivative == Unrolled || o.Derivative == Implicit) {
		return nil, fmt.Errorf("vjp: the derivative of the %s solver is in closed form, not %s; choose another "+
			"solver or derivative", e.Name, o.Derivative)
	}
	if o.Derivative == Unrolled && !loss.Quadratic(p.Loss) {
		return nil, fmt.Errorf("vjp: the unrolled derivative needs a quadratic loss; choose the derivative %q or %q",
			Implicit, Auto)
	}
	plain := func(p Problem) (Solver, error) {
		s, err := inner(ctx, p, o.solving())
		if err != nil {
			return nil, err
		}
		return &solver{s, p, o, newAgain(o, e, inner)}, nil
	}
	if o.Derivative != Unrolled {
		if c := lowrank.ConnectedParts(p); c != nil {
			return newParts(p, o, c, plain)
		}
	}
	return plain(p)
}

func (o Options) solving() solve.Options {
	return solve.Options{
		Tol: o.Tol, MaxIter: o.MaxIter, Sigma2: o.Sigma2,
		Point: o.Derivative != None, Whole: o.Derivative == Unrolled, Compact: o.Compact, Columns: o.Columns,
		Diagonal: o.Images,
	}
}

func (s *solver) Name() string     { return s.inner.Name() }
func (s *solver) Problem() Problem { return s.p }
func (s *solver) Release()         { s.inner.Release() }

func (s *solver) Again(ctx context.Context, p Problem) (Solver, error) { return s.again(ctx, p) }

func (s *solver) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	inner, err := s.inner.Reweight(ctx, r)
	if err != nil {
		return nil, err
	}
	p := s.p
	p.R = r
	return &solver{inner, p, s.o, s.again}, nil
}

func (s *solver) Solve(ctx context.Context, y array.Batch) (*Solution, error) {
	return s.SolveFrom(ctx, y, From{})
}

// SolveFrom solves and linearizes the solution as the options say. If the solve does not converge
// and its iterations are needed after all, it is repeated with the tape running.
func (s *solver) SolveFrom(ctx context.Context, y array.Batch, from From) (*Solution, error) {
	if s.o.Derivative == Unrolled {
		return s.record(ctx, y, s.differentiate(nil).choice)
	}
	rule := s.newEnough(y, &from)
	if rule != nil { // the solution may not be the last one
		from.Solved = nil
	}
	defer rule.release()
	return s.solveFrom(ctx, y, from, rule, 0)
}

// solveFrom is SolveFrom by a rule for solves that need not be certified, nil for none, after some iterations.
func (s *solver) solveFrom(ctx context.Context, y array.Batch, from From, rule *enough, done int) (*Solution, error) {
	sol, err := s.inner.Solve(ctx, y, from)
	if err != nil {
		return nil, err
	}
	from.Tell(sol)
	sol.Iterations += done
	if s.o.Derivative == None {
		return with(sol, nil), nil
	}
	var undo cleanup
	defer undo.run()
	undo.add(sol.Release)
	small := smallEntry
	if from.Effort.Share > 0 && !s.o.Images {
		small = smallCompared
	}
	l, by, err := s.derivative(ctx, sol, small)
	if err != nil {
		return nil, err
	}
	if by.kind == Unrolled {
		undo.run()
		undo = nil
		return s.record(ctx, y, by.choice)
	}
	undo.add(l.Release)
	// Decisions in doubt need a certified solution.
	again := sol.Change > 0 && (l.known.Low < l.known.High || l.sensitive)
	if again {
		from.Effort, rule = Effort{}, nil
	} else if rule != nil {
		if again, err = rule.tooRough(ctx, sol, l, &from); err != nil {
			return nil, err
		}
	}
	if again {
		from.B = y.Device().Alloc(1, sol.B.N())
		defer from.B.Free()
		y.Device().Copy(from.B, sol.B)
		done = sol.Iterations
		undo.run()
		undo = nil
		return s.solveFrom(ctx, y, from, rule, done)
	}
	if s.unpenalized(sol, l) {
		if err := s.leastSquaresError(ctx, sol, l); err != nil {
			return nil, err
		}
	}
	made := append([]Choice{by.choice}, l.choices...)
	undo = nil
	return with(sol, l, made...), nil
}

// derivative is that at a solution, nil where the iterations are to be differentiated. An incomplete factor has the
// tolerance small.
func (s *solver) derivative(ctx context.Context, sol *solve.Solution, small float64) (l *linearization, by derivative,
	err error) {
	if !sol.Converged && s.p.K != nil && sol.At.Problem.K != nil && sol.At.Linear == nil {
		if l, err = s.found(ctx, sol, small); err != nil {
			return nil, by, err
		}
	}
	if by = s.differentiate(sol); by.kind == closedForm {
		hat := system.Hat(sol.At.Y.Device(), sol.At.Linear, sol.At.Y.N())
		return newLinearization("direct", sol.At.Problem.A, hat), by, nil
	}
	if by.kind == Implicit && l == nil {
		if l, err = s.linearize(ctx, sol, small); err != nil {
			return nil, by, err
		}
	}
	if by.kind == Implicit && s.o.Derivative == Auto {
		var undo cleanup
		defer undo.run()
		undo.add(l.Release)
		settles, err := l.Settles(ctx)
		if err != nil {
			return nil, by, err
		}
		if !settles {
			return nil, illConditioned, nil
		}
		undo = nil
	}
	return l, by, nil
}

// with returns the solution with its derivative and the choices made for it, without the data that
// was only needed to compute it.
func with(sol *solve.Solution, l Linearization, made ...Choice) *Solution {
	if sol.At != nil {
		b, mu, implied := sol.B, sol.MuHat, sol.Implied
		sol.B, sol.MuHat, sol.Implied = array.Batch{}, array.Batch{}, nil
		sol.Release()
		sol.B, sol.MuHat, sol.Implied = b, mu, implied
	}
	return &Solution{B: sol.B, MuHat: sol.MuHat, Implied: sol.Implied, Convergence: sol.Convergence, Linearization: l,
		Choices: append(sol.Choices, made...)}
}

func (s *solver) record(ctx context.Context, y array.Batch, by Choice) (*Solution, error) {
	var undo cleanup
	defer undo.run()
	var t *linearization
	sol, err := s.inner.Record(ctx, y, func(m solve.Method, y array.Batch) solve.Tape {
		tape := system.NewUnrolled(m, y, s.o.Memory)
		t = newLinearization("unrolled", m.Problem().A, tape)
		undo.add(t.Release)
		return tape
	})
	if sol != nil {
		undo.add(sol.Release)
	}
	if err == nil && sol.Converged && by != illConditioned.choice {
		sol.Lag, err = s.lag(ctx, sol, t)
	}
	if err != nil {
		return nil, err
	}
	undo = nil
	return with(sol, t, by), nil
}

// settledTol is the tolerance of a second solve, if the tangent space is in doubt after the first.
const settledTol = 1e-12

// linearize is the implicit derivative at a solution. Where decisions behind it are in doubt, or it
// depends on the remaining error of b, the solution is improved as far as possible.
func (s *solver) linearize(ctx context.Context, sol *solve.Solution, small float64) (l *linearization, err error) {
	at := sol.At
	t := at.Tangent
	if t == nil && sol.Converged {
		if t, err = lowrank.TangentAt(ctx, at); err != nil {
			return nil, err
		}
	}
	if t != nil && t.Model != nil {
		at.Tangent = nil
		if l, err = newConfined(ctx, at.Problem, t, s.o.Tol); err != nil {
			return nil, err
		}
		l.spaced(l.model, array.Batch{}, s.subgradient(sol))
		l.belongs(at)
		return l, nil
	}
	if at.Problem.K != nil {
		l, err = s.behind(ctx, sol, small)
	} else {
		l, err = s.refined(ctx, sol)
	}
	if err != nil {
		return nil, err
	}
	l.belongs(at)
	return l, nil
}

func (s *solver) refined(ctx context.Context, sol *solve.Solution) (*linearization, error) {
	l, err := newImplicit(ctx, sol.At, s.o, sol.Optimality)
	if err != nil {
		return nil, err
	}
	if !(l.known.Low < l.known.High || l.sensitive) || !sol.Converged || s.o.Tol <= settledTol {
		return l, nil
	}
	var undo cleanup
	defer undo.run()
	undo.add(l.Release)
	better, err := sol.Refine(ctx, settledTol, 100+4*sol.Iterations)
	if err != nil {
		return nil, err
	}
	if better {
		return newImplicit(ctx, sol.At, s.o, sol.Optimality)
	}
	undo = nil
	return l, nil
}

// subgradient bounds the norm of the smallest subgradient of the objective at a solution.
func (s *solver) subgradient(sol *solve.Solution) float64 {
	at := sol.At
	scale := solve.NewScales(at.Y, at.Norm2, s.o.solving())
	rest := 0.0
	if at.B.IsZero() {
		rest = residual(at.Y, sol)
	} else { // the solution's own estimate may be in other units
		z := at.Y.Device().Alloc(1, at.Y.N())
		defer z.Free()
		at.Problem.A.Forward(z, at.B)
		at.Y.Device().Lin(z, 1, at.Y, -1, z)
		rest = solve.Norm(z)
	}
	return scale.Norm * (sol.Optimality*scale.Matters(rest) + solve.Roundings*0x1p-52*solve.Norm(at.Y))
}

func residual(y array.Batch, sol *solve.Solution) float64 {
	if sol.Implied != nil {
		return math.Sqrt(sol.Implied.Residual2)
	}
	dev := y.Device()
	z := dev.Alloc(1, y.N())
	defer z.Free()
	dev.Lin(z, 1, y, -1, sol.MuHat)
	return solve.Norm(z)
}

// unpenalized reports whether r = 0, the loss is quadratic, and D mu_hat, a projection, is accurate.
func (s *solver) unpenalized(sol *solve.Solution, l *linearization) bool {
	if !loss.Quadratic(s.p.Loss) {
		return false
	}
	q := prox.StructureOf(sol.At.Problem.R).Quadratic
	return q.Known && q.Value == 0 && l.known.Known
}

// leastSquaresError is the error of mu_hat where r = 0: the projection D mu_hat of the residual.
func (s *solver) leastSquaresError(ctx context.Context, sol *solve.Solution, l *linearization) error {
	at, dev := sol.At, sol.B.Device()
	z, miss := dev.Alloc(1, at.Y.N()), dev.Alloc(1, at.Y.N())
	defer array.Free(z, miss)
	at.Problem.A.Forward(z, at.B)
	dev.Lin(z, 1, at.Y, -1, z)
	if err := l.VJP(ctx, miss, z); err != nil {
		return err
	}
	sol.Error = solve.Norm(miss)
	allowed := solve.NewScales(at.Y, at.Norm2, s.o.solving()).Allowed(solve.Norm(z))
	sol.Converged = sol.Converged && !(sol.Error > allowed)
	return dev.Err()
}

// lagProbes is the number of probes that compare two derivatives; with up to lagUnits observations
// all unit vectors are used. lagResidual is the residual of the implicit derivative's conjugate
// gradients.
const (
	lagProbes   = 1
	lagUnits    = 32
	lagResidual = 1e-4
)

// lag estimates the size of the difference between the traces of the unrolled derivative t and of
// the implicit one, from a probe or from all unit vectors. It is at least the range of the implicit
// derivative's trace.
func (s *solver) lag(ctx context.Context, sol *solve.Solution, t *linearization) (float64, error) {
	at := sol.At
	var l *linearization
	var err error
	settled := true
	if at.Problem.K != nil {
		l, settled, err = s.settle(ctx, sol, smallEntry)
		settled = settled || l != nil && l.known.SpaceMargin == 0
	} else {
		l, err = newImplicit(ctx, at, s.o, sol.Optimality)
		settled = err != nil || l.known.Neighbours || l.known.SpaceMargin == 0 || l.known.SpaceMargin >= 1
	}
	if err != nil {
		return 0, err
	}
	defer l.Release()
	dev, d := at.Y.Device(), at.Y.N()
	k := lagProbes
	if d <= lagUnits {
		k = max(d, 2)
	}
	probes, one, other := dev.Alloc(k, d), dev.Alloc(k, d), dev.Alloc(k, d)
	defer array.Free(probes, one, other)
	rng := rand.New(rand.NewPCG(0x6c6167, uint64(d)))
	signs := make([]float64, k*d)
	for i := range signs {
		switch {
		case d > lagUnits:
			signs[i] = float64(1 - 2*int(rng.Uint64()&1))
		case i%d == i/d:
			signs[i] = 1
		}
	}
	dev.Upload(probes, signs)
	if err := t.VJP(ctx, one, probes); err != nil {
		return 0, err
	}
	if err := l.solve(ctx, other, probes, system.Goal{Residual: lagResidual, Form: math.Inf(1)}, nil); err != nil {
		return 0, err
	}
	forms, squares := make([]float64, k), make([]float64, k)
	dev.Dot(forms, one, one)
	dev.Dot(squares, other, other)
	square := 0.0 // how far ||D mu_hat||_F^2 is off: near a projection as far as twice the trace
	for i, f := range forms {
		square += f - squares[i]
	}
	if d > lagUnits {
		square /= float64(k)
	}
	dev.Lin(one, 1, one, -1, other)
	dev.Dot(forms, probes, one)
	sum, most := 0.0, math.Max(l.known.High-l.known.Low, math.Abs(square)/2)
	if !settled {
		most = math.Max(most, 1) // for all that is known
	}
	for _, f := range forms {
		if sum += f; d > lagUnits {
			most = max(most, math.Abs(f))
		}
	}
	if d <= lagUnits {
		most = max(most, math.Abs(sum))
	}
	return most, dev.Err()
}
