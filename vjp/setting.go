package vjp

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/lowrank"
	"surepipe/vjp/system"
)

// setting is what is known at a solution, of a problem and of its solve, when a derivative is taken there.
type setting struct {
	p          Problem
	eta        float64        // the step of the fixed point that is differentiated
	norm       float64        // a bound of ||A||
	orthogonal bool           // A is a multiple of an orthogonal matrix
	optimality float64        // of the solution, see Convergence
	identified bool           // see Point
	tol        float64        // of the solver
	keep       bool           // images will be asked for ([Options].Images)
	seen       *linops.Picked // the entries that A picks, where these are most of them; else nil
	gram       func(set []int) []float64
	solved     func(set []int) (solve.Factored, bool)
}

// etaFactor times 1/||A||^2 is the step of the fixed point that is differentiated. It affects only
// the conditioning (docs/benchmarks.md).
const etaFactor = 4

// newImplicit linearizes the fixed point at a solution, which was found with the given
// optimality: b = prox_{eta r}(v) with v = b - eta A*(A b - y), instead of the iterations. A table ([rules])
// chooses on which space the system is solved, and how. It computes how close the choice of the space was.
func newImplicit(ctx context.Context, at *solve.Point, o Options, optimality float64) (*linearization, error) {
	p, b, y := at.Problem, at.B, at.Y
	dev := y.Device()
	d, dim := p.A.Dims()
	s := &setting{p: p, eta: 1, norm: math.Sqrt(at.Norm2), tol: o.Tol, optimality: optimality,
		identified: at.Identified, keep: o.Images, gram: at.Gram, solved: at.Factored}
	if at.Norm2 > 0 {
		s.eta = etaFactor / at.Norm2
	}
	if s.seen = s.most(); s.seen != nil && at.Norm2 > 0 {
		s.eta = 1 / at.Norm2
	}
	if c := linops.StructureOf(p.A).Rows; d == dim && c.Known && c.Value > 0 {
		// A = sqrt(c) times an orthogonal matrix: with eta = 1/c D mu_hat has the eigenvalues of J.
		s.eta, s.orthogonal = 1/c.Value, true
	}
	var undo cleanup
	defer undo.run()
	v, z := dev.Alloc(1, dim), dev.Alloc(1, d)
	defer array.Free(v, z)
	if at.Gradient.IsZero() {
		p.A.Forward(z, b)
		dev.Lin(z, 1, z, -1, y)
		p.A.Adjoint(v, z)
	} else {
		dev.Copy(z, at.Misfit)
		dev.Copy(v, at.Gradient)
	}
	dev.Lin(v, 1-atTheThreshold, b, -s.eta*(1-atTheThreshold), v)
	l, j, err := s.at(ctx, v)
	if err != nil {
		return nil, err
	}
	undo.add(l.Release)
	scale := solve.NewScales(y, at.Norm2, o.solving())
	rounding := solve.Roundings * 0x1p-52 * solve.Norm(y)
	off := away{}.atLeast(s.eta * s.norm * (optimality*scale.Matters(solve.Norm(z)) + rounding))
	if !at.Flat {
		far, err := s.away(at, l, v)
		if err != nil {
			return nil, err
		}
		off = away{math.Max(off.norm, far.norm), math.Max(off.most, far.most)}
	}
	off = off.atLeast(2 * atTheThreshold * solve.Norm(v)) // v was moved
	if off.norm > 0 {
		l.spaced(l.model, v, off.norm)
	}
	if at.Identified {
		l.known.Neighbours = true // there are none
	} else {
		shift := near*off.most + leastNear*v.MaxAbs()
		n := &vicinity{r: p.R, j: j, v: v, eta: s.eta, shift: shift, owner: groupsOf(p.R), complete: true,
			at: func(ctx context.Context, v array.Batch) (*linearization, error) {
				l, _, err := s.at(ctx, v)
				return l, err
			}}
		if err := n.widen(ctx, l); err != nil {
			return nil, err
		}
	}
	if m := l.model; s.seen != nil && !l.known.Known && m != nil && m.Diagonal != nil {
		c := &oneStep{dev: dev, j: j, diagonal: m.Diagonal, seen: s.seen, eta: s.eta, d: d, p: dim}
		l.held.Own(c)
		l.known.Control = c.improve
	}
	if err := dev.Err(); err != nil {
		return nil, err
	}
	undo = nil
	return l, nil
}

// most are the entries that A picks where these are so many that A*A is nearly a multiple of I; else nil.
func (s *setting) most() *linops.Picked {
	picked, shape := linops.StructureOf(s.p.A).Picked, prox.StructureOf(s.p.R).Shape
	if s.p.K != nil || picked == nil {
		return nil
	}
	seen := picked(shape)
	if seen == nil || !lowrank.MostSeen(len(seen.Places), shape) {
		return nil
	}
	return seen
}

// away is Newton's step from the argument v of the proximal operator: about the error of v, which is
// larger than that of the gradient where A is ill-conditioned. It is 0 where l solves no systems.
func (s *setting) away(at *solve.Point, l *linearization, v array.Batch) (far away, err error) {
	inverse := l.Inverse()
	if inverse == nil {
		return far, nil
	}
	dev := v.Device()
	b, g, d, misfit := dev.Alloc(1, v.N()), dev.Alloc(1, v.N()), dev.Alloc(1, v.N()), dev.Alloc(1, at.Y.N())
	defer array.Free(b, g, d, misfit)
	gradient := func() { // A*(y - A b)
		s.p.A.Forward(misfit, b)
		dev.Lin(misfit, 1, at.Y, -1, misfit)
		s.p.A.Adjoint(g, misfit)
	}
	if err := s.p.R.Eval(b, v, s.eta); err != nil {
		return far, err
	}
	gradient()
	dev.Lin(g, 1, g, -1/s.eta, v)
	dev.Lin(g, 1, g, 1/s.eta, b)
	inverse(d, g)
	dev.Lin(b, 1, b, 1, d)
	gradient()
	dev.Lin(b, 1, b, s.eta, g)
	dev.Lin(b, 1, b, -1, v)
	return distance(b), dev.Err()
}

// at linearizes the prox at v, with the derivative j, and chooses how to solve with it.
func (s *setting) at(ctx context.Context, v array.Batch) (l *linearization, j prox.Derivative, err error) {
	dst := v.Device().Alloc(1, v.N())
	defer dst.Free()
	if j, err = s.p.R.Linearize(dst, v, s.eta); err != nil {
		return nil, nil, err
	}
	var undo cleanup
	defer undo.run()
	undo.add(j.Release)
	if l, err = s.choose(ctx, j, j.Model()); err != nil {
		return nil, nil, err
	}
	undo = nil
	l.held.Own(j)
	return l, j, nil
}

// newConfined linearizes at a solution whose tangent space the solver provides, and takes that over. A nil operator
// stands for the solution 0, near which it does not depend on y.
func newConfined(ctx context.Context, p Problem, t *solve.Tangent, tol float64) (*linearization, error) {
	var s system.System
	by := Choice{Part: "system", Chosen: "preconditioned conjugate gradients",
		Reason: "the solver provides products with the curvature"}
	var on *system.Iterated
	switch {
	case t.Arrow != nil:
		var err error
		picked := linops.StructureOf(p.A).Picked(prox.StructureOf(p.R).Shape)
		if s, err = system.Arrow(ctx, p.Device, t.Arrow, *picked); err != nil {
			t.Release()
			return nil, err
		}
		by.Chosen, by.Reason = "factored, with its diagonal", "one Schur complement on the shorter side of the matrix "+
			"eliminates the longer one"
	case t.A == nil:
		s = system.Zero(p.A, system.Exactly(0, 0))
	case t.Reduced != nil:
		on = system.IterateReduced(p.Device, t.Reduced, tol)
	default:
		on = system.Iterate(p.Device, t.A, t.Model, 1, tol)
	}
	if s == nil {
		if s = on; t.Moving != nil {
			on.Add(t.Moving)
		}
	}
	l := implicit(p.A, s, t.Model, tol)
	l.held.Own(t.Model.Space)
	if t.Model.Curvature != nil {
		l.held.Own(t.Model.Curvature)
	}
	l.held.Hold(t.Bases[0], t.Bases[1])
	where := Choice{Part: "space", Chosen: describe(p.A, t.Model), Reason: "the solver's iterates were in it"}
	l.choices = []Choice{where, by}
	return l, p.Device.Err()
}
