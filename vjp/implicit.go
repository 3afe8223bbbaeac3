package vjp

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/space"
)

// implicit differentiates the fixed point instead of the iterations. At a solution b let T = E R^n
// be the tangent space of the regularizer, and Q its curvature there ([prox.Model]). With H = A*A,
//
//	D mu_hat w = A E (E* (H + Q) E)^+ E* A* w
//
// (Lewis 2002; Vaiter, Deledalle, Peyre, Fadili 2017). D mu_hat is symmetric, so that this product
// is the VJP. A table ([rules]) chooses on which space the system is solved and how: factored
// ([factored]), or by conjugate gradients for all probes together ([cg]).
//
// For a regularizer without a model only J = D prox_{eta r}(v) is known, with b = prox_{eta r}(v)
// and v = b - eta A*(A b - y) for any eta > 0. Then
//
//	D mu_hat w = A J x,   N x = eta A* w,   N = I - (I - eta H) J.
//
// N is self-adjoint and positive semidefinite in the semi-inner product <u, J v>, and conjugate
// gradients in that product solve the system. (In the Euclidean product N is not even symmetric.)
// It is the system above on the range of J, preconditioned by eta J = (Q + I/eta)^{-1}, and it is
// solved by the same code: with K = J^{-1} - I on that range, which is eta Q,
//
//	(K + eta H) u = eta A* w,   D mu_hat w = A u.
//
// The quadratic form w* D mu_hat w = <eta A* w, u>/eta grows step by step, by alpha_k rho_k/eta
// (Hestenes and Stiefel 1952), and so converges with the square of the residual. Its error is
// bounded by a Gauss-Radau rule (see radau), and a probe stops when the bound is small enough.
//
// The components that J maps to zero do not show in that product and are multiplied by 1 - alpha_k
// at every step: unless they are projected away they grow until rounding errors bring them back. On
// a model's space there are no such components.
type implicit struct {
	p          Problem
	eta        float64
	norm       float64 // a bound of ||A||
	orthogonal bool    // A is a multiple of an orthogonal matrix
	optimality float64 // of the solution, see Convergence
	identified bool    // see Point
	tol        float64 // of VJP, on the residual's J-norm
	tighter    float64 // than asked for are Forms

	j     prox.Derivative // of the regularizer, nil where the solver provided a model
	model *prox.Model     // at the solution, nil where nothing is known
	owned *owned          // A and R, where they are the linearization's own; or nil
	// reduced is the system where a part of the coordinates is eliminated; or nil. Then on is its
	// operator.
	reduced solve.Reduced
	// lift maps vectors in b's coordinates to the user's; nil where they are the same.
	lift func([]float64) []float64

	on      linops.Restricted // A on the system's space, nil where that is R^p
	op      linops.Operator   // on, or A
	dim     int               // columns of op
	pre     preconditioner    // J in op's coordinates
	f       *factored         // nil where the system is solved by conjugate gradients
	saddle  *saddle           // where it is a saddle point system
	span    space.Space       // the range of J where the system is on that, else nil
	known   Closed            // without probes
	choices []Choice
	how     string // the system was factored, for choices

	gram   func(set []int) []float64              // the solver's, while the derivative is being made; or nil
	keep   bool                                   // images will be asked for ([Options].Images)
	solved func(set []int) (solve.Factored, bool) // likewise

	// moving are coordinates of mu_hat that move with those of y one for one, and at which the images
	// of op are 0; nil for none. op may refer to them.
	moving *linops.Places

	// Along a path: the system, the solutions at the weight before, nil for none, what takes them to the
	// coordinates here, and those for the next weight, nil where they are not handed on.
	system        movable
	before, after *carried
	move          func(dst, z array.Batch)

	misfit array.Batch // A b - y, zero where no slope is needed

	pilot struct { // shared by all probes, computed by the first that needs it
		sync.Mutex
		nodes map[float64]float64 // below the eigenvalues that matter to forms of an accuracy
	}
	steps  atomic.Int64
	failed atomic.Int64
}

// etaFactor times 1/||A||^2 is the step of the fixed point that is differentiated. It affects only
// the conditioning; on matrix completion 2 to 50 work equally well, and 1 takes a third more steps.
const etaFactor = 4

// newImplicit linearizes the fixed point at a solution, which was found with the given
// optimality. With margin set it computes how close the choice of the tangent space was.
func newImplicit(ctx context.Context, at *solve.Point, o Options, optimality float64, margin bool) (*implicit, error) {
	p, b, y, norm2 := at.Problem, at.B, at.Y, at.Norm2
	dev := y.Device()
	d, dim := p.A.Dims()
	open := &implicit{p: p, eta: 1, norm: math.Sqrt(norm2), tol: solveTol(o.Tol), tighter: tighter(o.Tol),
		optimality: optimality, identified: at.Identified, gram: at.Gram, solved: at.Factored, keep: o.Images}
	if norm2 > 0 {
		open.eta = etaFactor / norm2
	}
	if c := linops.StructureOf(p.A).Rows; d == dim && c.Known && c.Value > 0 {
		// A = sqrt(c) times an orthogonal matrix: with eta = 1/c D mu_hat has the eigenvalues of J.
		open.eta, open.orthogonal = 1/c.Value, true
	}
	v, z := dev.Alloc(1, dim), dev.Alloc(1, d)
	defer v.Free()
	defer z.Free()
	if at.Gradient.IsZero() {
		p.A.Forward(z, b)
		dev.Lin(z, 1, z, -1, y)
		p.A.Adjoint(v, z)
	} else {
		dev.Copy(z, at.Misfit)
		dev.Copy(v, at.Gradient)
	}
	dev.Lin(v, 1-atTheThreshold, b, -open.eta*(1-atTheThreshold), v)
	l, err := open.at(ctx, v)
	if err != nil {
		return nil, err
	}
	done := false
	defer func() {
		if !done { // also where A or the regularizer panics
			l.Release()
		}
	}()
	if !at.Flat {
		l.misfit = dev.Alloc(1, d)
		dev.Copy(l.misfit, z)
	}
	stick := solve.NewYardstick(y, norm2, o.solving())
	rounding := solve.Roundings * 0x1p-52 * solve.Norm(y)
	off := away{}.atLeast(open.eta * open.norm * (optimality*stick.Matters(solve.Norm(z)) + rounding))
	if !at.Flat {
		far, err := l.away(at, v)
		if err != nil {
			return nil, err
		}
		off = away{math.Max(off.norm, far.norm), math.Max(off.most, far.most)}
	}
	off = off.atLeast(2 * atTheThreshold * solve.Norm(v)) // v was moved
	if margin && off.norm > 0 {
		l.spaced(l.model, v, off.norm)
	}
	if at.Identified {
		l.known.Neighbours = true // there are none
	} else if l.j != nil {
		shift := near*off.most + leastNear*most(v)
		n := &vicinity{r: p.R, j: l.j, v: v, eta: open.eta, shift: shift, complete: true, at: open.at}
		if err := n.widen(ctx, l); err != nil {
			return nil, err
		}
	}
	done = true
	l.gram, l.solved = nil, nil
	return l, nil
}

// spaced computes the margin of the space of the model m at the argument v of the prox, relative to the
// error off of v. On the boundary itself it is the smallest positive number: 0 means not known.
func (l *implicit) spaced(m *prox.Model, v array.Batch, off float64) {
	if m != nil && m.Margin != nil {
		l.known.SpaceMargin = math.Max(m.Margin(v)/math.Max(off, math.SmallestNonzeroFloat64),
			math.SmallestNonzeroFloat64)
	}
}

// away is Newton's step from the argument v of the proximal operator: about the error of v, which is
// larger than that of the gradient where A is ill-conditioned. It is 0 where l solves no systems.
func (l *implicit) away(at *solve.Point, v array.Batch) (far away, err error) {
	if l.f == nil && l.dim > 0 || l.f != nil && l.f.later != nil || l.model == nil && l.span == nil {
		return far, nil
	}
	dev := v.Device()
	b, g, d, misfit := dev.Alloc(1, v.N()), dev.Alloc(1, v.N()), dev.Alloc(1, v.N()), dev.Alloc(1, at.Y.N())
	defer func() {
		for _, x := range []array.Batch{b, g, d, misfit} {
			x.Free()
		}
	}()
	gradient := func() { // A*(y - A b)
		l.p.A.Forward(misfit, b)
		dev.Lin(misfit, 1, at.Y, -1, misfit)
		l.p.A.Adjoint(g, misfit)
	}
	if err := l.p.R.Eval(b, v, l.eta); err != nil {
		return far, err
	}
	gradient()
	dev.Lin(g, 1, g, -1/l.eta, v)
	dev.Lin(g, 1, g, 1/l.eta, b)
	l.descend(d, g)
	dev.Lin(b, 1, b, 1, d)
	gradient()
	dev.Lin(b, 1, b, l.eta, g)
	dev.Lin(b, 1, b, -1, v)
	return distance(b), dev.Err()
}

// Closed returns what follows from the factors, or from the eigenvalues of J.
func (l *implicit) Closed() Closed {
	c := l.known
	switch {
	case l.dim == 0:
		d, p := l.p.A.Dims()
		c.Diagonal = func() ([]float64, error) { return make([]float64, d), nil }
		c.Slope = func() ([]float64, error) { return l.toUser(make([]float64, p)), nil }
	case l.f != nil:
		c.Diagonal = func() ([]float64, error) { return l.f.diagonal(l.p.Device) }
		d, _ := l.p.A.Dims()
		c.DiagonalFlops = l.f.diagonalFlops(d)
		if !l.misfit.IsZero() {
			c.Slope = l.slope
		}
	}
	return c
}

// slope is -E (M*M + Q)^+ M* (y - A b).
func (l *implicit) slope() ([]float64, error) {
	s := l.span
	if s == nil {
		s = l.model.Space
	}
	p, n := s.Dims()
	dev := l.misfit.Device()
	c, b := dev.Alloc(1, n), dev.Alloc(1, p)
	defer c.Free()
	defer b.Free()
	if err := l.f.onto(c, l.misfit); err != nil {
		return nil, err
	}
	s.Embed(b, c)
	return l.toUser(b.ToHost()), dev.Err()
}

// toUser maps a vector in the problem's coordinates to the user's.
func (l *implicit) toUser(b []float64) []float64 {
	if l.lift == nil {
		return b
	}
	return l.lift(b)
}

// at linearizes the prox at v and chooses how to solve with it.
func (l *implicit) at(ctx context.Context, v array.Batch) (_ *implicit, err error) {
	m := &implicit{p: l.p, eta: l.eta, orthogonal: l.orthogonal, norm: l.norm, tol: l.tol, tighter: l.tighter,
		optimality: l.optimality, identified: l.identified, gram: l.gram, solved: l.solved, keep: l.keep}
	_, m.dim = m.p.A.Dims()
	m.op = m.p.A
	dev := v.Device()
	dst := dev.Alloc(1, m.dim)
	defer dst.Free()
	done := false
	defer func() {
		if !done { // also where A or the regularizer panics
			m.Release()
		}
	}()
	if m.j, err = m.p.R.Linearize(dst, v, m.eta); err != nil {
		return nil, err
	}
	m.model = m.j.Model()
	err = m.choose(ctx)
	if fault := dev.Err(); fault != nil {
		err = fault // the cause
	}
	if err != nil {
		return nil, err
	}
	done = true
	return m, nil
}

// newConfined linearizes at a solution whose model the solver provides: op is A on the model's
// space. The linearization takes over both. A nil op stands for the solution 0, near which it does not
// depend on y.
func newConfined(p Problem, op linops.Restricted, m *prox.Model, tol float64) *implicit {
	l := &implicit{p: p, eta: 1, op: p.A, model: m, tol: solveTol(tol), tighter: tighter(tol)}
	if op != nil {
		l.confine(op, m)
	} else {
		l.known = exactly(0, 0)
	}
	return l
}

// Kind is "implicit".
func (l *implicit) Kind() string { return "implicit" }

// Bytes counts the prox derivative, A on the system's space and the factors.
func (l *implicit) Bytes() int64 {
	bytes := l.misfit.Bytes()
	switch {
	case l.j != nil:
		bytes += l.j.Bytes()
	case l.model != nil:
		bytes += l.model.Space.Bytes()
		if l.model.Curvature != nil {
			bytes += l.model.Curvature.Bytes()
		}
	}
	if l.span != nil {
		bytes += l.span.Bytes()
	}
	if l.on != nil {
		bytes += l.on.Bytes()
	}
	if l.f != nil {
		bytes += l.f.bytes.Load()
	}
	if l.owned != nil {
		bytes += l.owned.a.Bytes()
	}
	if l.saddle != nil {
		bytes += l.saddle.weights.Bytes()
	}
	if l.moving != nil {
		bytes += l.moving.Bytes()
	}
	return bytes
}

// ProbeBytes counts the vectors of conjugate gradients, and two of length d, or three where
// coordinates move with y.
func (l *implicit) ProbeBytes() int64 {
	d, _ := l.p.A.Dims()
	images := 2
	if l.moving != nil {
		images++
	}
	bytes := 8 * int64(l.vectors()*l.dim+images*d)
	if l.saddle != nil {
		q, _ := l.p.K.Dims()
		bytes = 8 * int64(10*(l.dim+q)+3*q+3*d) // minimal residuals take nine vectors, and their preconditioner one
	}
	if l.reduced != nil {
		bytes += l.reduced.Work()
	}
	return bytes
}

// vectors is the number of those of conjugate gradients for a probe: two more where A*A is a product
// of its own, two more where there is curvature, one where the solution is handed on, and one where it starts
// at an old one.
func (l *implicit) vectors() int {
	n := 3
	if l.square() != nil {
		n += 2
	}
	if l.pre != nil && !l.pre.flat() {
		n += 2
	}
	if l.after != nil && l.square() == nil {
		n++
	}
	if l.before != nil {
		n++
	}
	return n
}

// owned is the operator of a restricted problem, and the function that releases it and its
// regularizer.
type owned struct {
	a       linops.Restricted
	release func()
}

// own hands the problem's operator a, and with it the regularizer, over to the linearization: A on
// the model's space may refer to both.
func (l *implicit) own(a linops.Restricted, release func()) {
	l.owned = &owned{a, release}
}

// Release frees all that the linearization holds.
func (l *implicit) Release() {
	if l.f != nil {
		l.f.release()
	}
	if l.saddle != nil {
		l.saddle.release()
	}
	if l.on != nil {
		l.on.Release()
	}
	switch {
	case l.j != nil:
		l.j.Release()
	case l.model != nil:
		l.model.Space.Release()
		if l.model.Curvature != nil {
			l.model.Curvature.Release()
		}
	}
	if l.span != nil {
		l.span.Release()
	}
	l.misfit.Free()
	if l.moving != nil {
		l.moving.Free()
	}
	if l.owned != nil {
		l.owned.release()
	}
}
