package vjp

import (
	"context"
	"math"
	"math/rand/v2"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/space"
)

// A solve of a problem with r(K b) stops when mu_hat is accurate enough. Its derivative depends on more: on which
// entries of K b are 0, which a solution with a small duality gap may not have decided yet. Newton's method on the
// optimality conditions
//
//	A*(A b - y) + K* u = 0,   K b = z,   z = prox_{eta r}(v),   v = z + eta u
//
// with the derivative of the proximal operator at v (semismooth, Qi and Sun 1993) ends at a solution to rounding
// errors, which is proof that its space is right, or shows that it is not near enough.
const (
	mostNewton  = 12
	fewNewton   = 3       // where b has more than smallBehind entries
	finest      = 0x1p-44 // the step, relative to v, at which Newton's method has ended
	coarsest    = 0x1p-26 // the largest at which rounding errors may have ended it
	leastLeft   = 0x1p-33 // what may be left of the gradient, relative to its parts
	afterNewton = 4       // the error of v over the last step
	unsettled   = 0.5     // the largest margin where it has not ended: the error is then a guess
)

// Where Newton's method does not end the solve goes on, if b has at most smallBehind entries: at
// most moreRounds times, by fewestMore iterations and a quarter of those so far. Among more entries
// some are always in doubt: no margin is given then, and the range of traces only where it matters.
const (
	moreRounds  = 4
	fewestMore  = 50
	smallBehind = 1 << 11
)

// The range of traces of many entries is that of derivatives ofBound times the bound of K b's error away: the bound
// is far above most errors. It matters above inDoubt sqrt(2 d): SURE's error bar is about sigma^2 sqrt(2 d), and SURE
// has the trace twice.
const (
	ofBound = 0x1p-5
	inDoubt = 0.05
)

// behind is the implicit derivative at a solution of a problem with r(K b), which is improved until its
// space is settled.
func (s *solver) behind(ctx context.Context, sol *solve.Solution, small float64) (*linearization, error) {
	for round := 0; ; round++ {
		l, settled, err := s.settle(ctx, sol, small)
		if err != nil {
			return nil, err
		}
		if settled || round == moreRounds || !sol.Converged || l.model == nil || sol.At.B.N() > smallBehind {
			return l, nil
		}
		more, err := s.further(ctx, sol, l)
		if err != nil {
			return nil, err
		}
		if !more {
			return l, nil
		}
	}
}

// further goes on with a solve, and releases what it has found so far where there is more to find.
func (s *solver) further(ctx context.Context, sol *solve.Solution, l *linearization) (more bool, err error) {
	undo := cleanup{l.Release}
	defer undo.run()
	if more, err = sol.Continue(ctx, fewestMore+sol.Iterations/4); err == nil && !more {
		undo = nil
	}
	return more, err
}

// found is the implicit derivative where Newton's method finds the solution from where a solve has stopped short of
// it; else nil.
func (s *solver) found(ctx context.Context, sol *solve.Solution, small float64) (*linearization, error) {
	l, settled, err := s.settle(ctx, sol, small)
	switch {
	case err != nil:
		return nil, err
	case !settled || !sol.Converged:
		l.Release()
		return nil, nil
	}
	l.belongs(sol.At)
	return l, nil
}

// settle linearizes at a solution, which Newton's method improves where it ends. It reports whether it did.
func (s *solver) settle(ctx context.Context, sol *solve.Solution, small float64) (_ *linearization, settled bool,
	err error) {
	at := sol.At
	n := newton{at: at, o: s.o, small: small, error: sol.Error / math.Sqrt(float64(at.Y.N()))}
	defer n.release()
	if err := n.begin(ctx); err != nil {
		return nil, false, err
	}
	if settled, err = n.run(ctx); err != nil {
		return nil, false, err
	}
	if settled {
		if settled, err = n.deliver(ctx, sol); err != nil {
			return nil, false, err
		}
	}
	if !settled {
		if err := n.begin(ctx); err != nil {
			return nil, false, err
		}
	}
	if settled || n.off.norm > 0 && at.B.N() <= smallBehind {
		n.l.spaced(n.place.model, n.place.v, n.off.norm)
		if !settled {
			n.l.known.SpaceMargin = math.Min(n.l.known.SpaceMargin, unsettled)
		}
		if err := n.vicinity(settled).widen(ctx, n.l); err != nil {
			return nil, false, err
		}
	}
	if !settled && sol.Converged && at.B.N() > smallBehind {
		if err := n.doubts(ctx, sol); err != nil {
			return nil, false, err
		}
	}
	if s := n.doubtful(); s != nil {
		n.l.known.Low, n.l.known.High = float64(s.p-s.rows), float64(s.p)
	}
	l := n.l
	n.l = nil
	return l, settled, n.at.B.Device().Err()
}

// doubtful is the space if rounding errors do not tell K's rows there apart; else nil.
func (n *newton) doubtful() *sequenceSpace {
	if s, ok := n.place.equations.(*sequenceSpace); ok && s.doubtful {
		return s
	}
	return nil
}

// doubts widens the range of traces of a solution of many entries by those of the derivatives about as far from v as
// entries of K b are off. Equal values of y leave entries at their threshold, where the derivative is that of either
// side however near the solution is. A range that is short beside the error bar of SURE is not given.
func (n *newton) doubts(ctx context.Context, sol *solve.Solution) error {
	at, v := n.at, n.vicinity(false)
	if !n.l.known.Known || v.j.Diagonal().IsZero() || !(at.Norm2 > 0) {
		return nil
	}
	d := float64(at.Y.N())
	shift := ofBound * n.sizeK * sol.Error / math.Sqrt(at.Norm2*d)
	if at.Method.Traits().Ended != nil { // near a solution each step of such a method is Newton's
		shift = n.off.most
	}
	seen, err := v.near(ctx, shift, nil)
	low, high := math.Min(n.l.known.Low, seen.low), math.Max(n.l.known.High, seen.high)
	if high-low > inDoubt*math.Sqrt(2*d) {
		n.l.known.Low, n.l.known.High, n.l.known.Margin = low, high, math.Min(n.l.known.Margin, seen.margin)
	}
	return err
}

// deliver makes the place the solution, unless the solver's check refuses it.
func (n *newton) deliver(ctx context.Context, sol *solve.Solution) (taken bool, err error) {
	r, dev := n.place, n.b.Device()
	u := dev.Alloc(1, r.v.N())
	defer u.Free()
	dev.Lin(u, 1/r.eta, r.v, -1/r.eta, r.z)
	return sol.Move(ctx, n.b, r.v, u, r.eta)
}

// newton is a run of Newton's method.
type newton struct {
	at    *solve.Point
	o     Options
	b     array.Batch
	place *place
	l     *linearization // at the place
	off   away           // the error of v, 0 where it is not known
	moved bool           // the place is not the solution's
	small float64        // the tolerance of an incomplete factor
	error float64        // of the entries of the solution's mu_hat
	sizeK float64        // the length of K x over that of x for a random x
	next  newtonStep
}

func (n *newton) release() {
	n.b.Free()
	n.next.free()
	n.leave()
}

func (n *newton) leave() {
	if n.l != nil {
		n.l.Release()
	}
	if n.place != nil {
		n.place.release()
	}
	n.l, n.place = nil, nil
}

func (n *newton) begin(ctx context.Context) error {
	if n.b.IsZero() {
		n.b = n.at.B.Device().Alloc(1, n.at.B.N())
		n.moved = true
	}
	if !n.moved {
		return nil
	}
	n.moved = false
	at, dev := n.at, n.b.Device()
	dev.Copy(n.b, at.B)
	eta := n.balanced()
	v := dev.Alloc(1, at.Argument.N())
	err := at.Problem.R.Eval(v, at.Argument, at.Eta)
	if err != nil {
		v.Free()
		return err
	}
	dev.Lin(v, eta/at.Eta, at.Argument, 1-eta/at.Eta, v)
	return n.linearize(ctx, v, eta)
}

// balanced is an eta at which rounding errors of z and of eta u are of one size.
func (n *newton) balanced() float64 {
	p, dev := n.at.Problem, n.b.Device()
	q, dim := p.K.Dims()
	if n.sizeK == 0 {
		x, kx := dev.Alloc(1, dim), dev.Alloc(1, q)
		defer array.Free(x, kx)
		dev.Upload(x, normals(rand.New(rand.NewPCG(0x4b, uint64(dim))), dim))
		p.K.Forward(kx, x)
		n.sizeK = solve.Norm(kx) / solve.Norm(x)
	}
	b := math.Max(solve.Norm(n.b), n.shortest(solve.Norm(n.at.Y)))
	eta := n.sizeK * n.sizeK * b / math.Sqrt(n.at.Norm2) / solve.Norm(n.at.Y)
	if !(eta > 0) || math.IsInf(eta, 1) {
		return n.at.Eta
	}
	return eta
}

func normals(rng *rand.Rand, n int) []float64 {
	return lists.Make(n, func(int) float64 { return rng.NormFloat64() })
}

// size is that of the numbers from which v is computed.
func (n *newton) size() float64 {
	return math.Max(n.place.v.MaxAbs(), n.sizeK*math.Max(n.b.MaxAbs(), n.shortest(n.at.Y.MaxAbs())))
}

// shortest is the length of a b with A b of the size y at least. Rounding errors of y change b by some of that length,
// however small b is.
func (n *newton) shortest(y float64) float64 {
	if !(n.at.Norm2 > 0) {
		return 0
	}
	return y / math.Sqrt(n.at.Norm2)
}

// linearize makes v, which it takes over, the place.
func (n *newton) linearize(ctx context.Context, v array.Batch, eta float64) error {
	place, err := newPlace(n.at.Problem.R, v, eta)
	if err != nil {
		return err
	}
	n.leave()
	place.small, place.error = n.small, n.error
	n.place = place
	n.l, err = newBehind(ctx, n.at, n.o, place)
	return err
}

// run takes steps until they are rounding errors. Where they do not become that, the error of the solution's v is
// about as large as the first step.
func (n *newton) run(ctx context.Context) (settled bool, err error) {
	var first away
	before := math.Inf(1)
	steps := mostNewton
	if n.b.N() > smallBehind {
		steps = fewNewton
	}
	for range steps {
		if n.doubtful() != nil {
			break // steps on it lead astray
		}
		n.next.free()
		var ok bool
		if n.next, ok = n.step(); !ok {
			break
		}
		far, size, same := n.next.far, n.size(), n.place.model.Margin(n.place.v) > n.next.far.norm
		n.b, n.next.b, n.moved = n.next.b, n.b, true
		if first.norm == 0 {
			first = far.atLeast(math.SmallestNonzeroFloat64)
		}
		if same && n.place.model.Curvature == nil {
			n.place.v, n.next.v = n.next.v, n.place.v
			err = n.at.Problem.R.Eval(n.place.z, n.place.v, n.place.eta)
		} else {
			v := n.next.v
			n.next.v = array.Batch{}
			err = n.linearize(ctx, v, n.place.eta)
		}
		if err != nil {
			return false, err
		}
		if n.next.left && (far.most <= finest*size || same && far.most > before/2 && far.most <= coarsest*size) {
			n.off = away{afterNewton * far.norm, afterNewton * far.most}.atLeast(solve.Roundings * 0x1p-52 * size)
			return true, n.b.Device().Err()
		}
		before = far.most
	}
	n.off = first
	return false, n.b.Device().Err()
}

// away is how far an argument of a proximal operator is from another one.
type away struct{ norm, most float64 } // of the difference, and its largest entry

func distance(x array.Batch) away { return away{solve.Norm(x), x.MaxAbs()} }

func (a away) atLeast(x float64) away { return away{math.Max(a.norm, x), math.Max(a.most, x)} }

type newtonStep struct {
	b, v array.Batch
	far  away // from v
	left bool // nothing is left of the gradient but rounding errors
}

func (s newtonStep) free() {
	array.Free(s.b, s.v)
}

// step is Newton's: with the projections P on T and N = I - P, b moves by d b with
//
//	N K d b = N (z - K b),   E* (A*A + K* Q K) d b = E* (A*(y - A b) - K* u)
//
// where E spans {u : K u in T}, and u by Q P K d b and by the s = N s that makes the gradient 0. ok is
// false where the linearization does not solve such systems.
func (n *newton) step() (next newtonStep, ok bool) {
	at, r := n.at, n.place
	if r.model == nil || r.model.Margin == nil || r.equations == nil || n.l.Inverse() == nil {
		return next, false
	}
	curvature, ok := curvatureAt(r.model)
	if !ok {
		return next, false
	}
	dev := n.b.Device()
	u, kb, multiplier, g := dev.Alloc(1, r.v.N()), dev.Alloc(1, r.v.N()), dev.Alloc(1, r.v.N()), dev.Alloc(1, n.b.N())
	defer array.Free(u, kb, multiplier, g)
	next = newtonStep{b: dev.Alloc(1, n.b.N()), v: dev.Alloc(1, r.v.N())}
	defer func() {
		if !ok { // also where an operator or the regularizer panics
			next.free()
			next = newtonStep{}
		}
	}()
	ok = false
	dev.Lin(u, 1/r.eta, r.v, -1/r.eta, r.z)
	// gradient sets next.v = P (K b - z), multiplier = u + Q next.v and g = A*(y - A b) - K* multiplier.
	gradient := func() (size float64) {
		at.Problem.K.Forward(next.v, next.b)
		dev.Lin(next.v, 1, next.v, -1, r.z)
		r.model.Space.Project(next.v, next.v)
		if dev.Copy(multiplier, u); curvature != nil {
			curve(multiplier, r.model.Space, curvature, next.v)
		}
		return n.gradient(g, next.b, multiplier)
	}
	at.Problem.K.Forward(kb, n.b)
	dev.Lin(kb, 1, r.z, -1, kb)
	r.model.Space.Project(next.v, kb)
	dev.Lin(kb, 1, kb, -1, next.v)
	dev.Upload(next.b, r.equations.along(kb.ToHost()))
	dev.Lin(next.b, 1, next.b, 1, n.b)
	gradient()
	d := dev.Alloc(1, n.b.N())
	defer d.Free()
	n.l.Inverse()(d, g)
	dev.Lin(next.b, 1, next.b, 1, d)
	size := gradient()
	dev.Upload(kb, r.equations.multiplier(g.ToHost()))
	r.model.Space.Project(u, kb)
	dev.Lin(kb, 1, kb, -1, u)
	dev.Lin(multiplier, 1, multiplier, 1, kb)
	next.left = n.gradient(g, next.b, multiplier) <= 0 || solve.Norm(g) <= leastLeft*size
	dev.Lin(next.v, 1, next.v, 1, r.z)
	dev.Lin(next.v, 1, next.v, r.eta, multiplier)
	dev.Lin(kb, 1, next.v, -1, r.v)
	next.far = distance(kb)
	ok = !math.IsNaN(next.far.norm) && !math.IsInf(next.far.norm, 0)
	return next, ok
}

// gradient sets g to A*(y - A b) - K* u, and returns the size of its parts.
func (n *newton) gradient(g, b, u array.Batch) float64 {
	p, dev := n.at.Problem, b.Device()
	misfit, ku := dev.Alloc(1, n.at.Y.N()), dev.Alloc(1, b.N())
	defer array.Free(misfit, ku)
	p.A.Forward(misfit, b)
	dev.Lin(misfit, 1, n.at.Y, -1, misfit)
	p.A.Adjoint(g, misfit)
	p.K.Adjoint(ku, u)
	size := math.Max(solve.Norm(g), math.Sqrt(n.at.Norm2)*solve.Norm(n.at.Y))
	dev.Lin(g, 1, g, -1, ku)
	return size
}

// curvatureAt returns the products with the curvature of a model, nil where that is 0; ok is false where they are not
// known.
func curvatureAt(m *prox.Model) (times func(x []float64) []float64, ok bool) {
	if m.Curvature == nil {
		return nil, true
	}
	if !m.Space.Form().Orthonormal {
		return nil, false
	}
	return products(m)
}

// curve adds Q k to dst, with the products with Q in the coordinates of the space.
func curve(dst array.Batch, t space.Space, times func(x []float64) []float64, k array.Batch) {
	dev := dst.Device()
	_, n := t.Dims()
	c, e := dev.Alloc(1, n), dev.Alloc(1, k.N())
	defer array.Free(c, e)
	t.Coordinates(c, k)
	dev.Upload(c, times(c.ToHost()))
	t.Embed(e, c)
	dev.Lin(dst, 1, dst, 1, e)
}

func (n *newton) vicinity(settled bool) *vicinity {
	return &vicinity{
		r: n.at.Problem.R, j: n.place.j, v: n.place.v, eta: n.place.eta,
		shift: near * n.off.most, off: n.off.most, complete: settled,
		at: func(ctx context.Context, v array.Batch) (*linearization, error) {
			other := newton{at: n.at, o: n.o, small: n.small, error: n.error}
			defer func() {
				other.l = nil
				other.release()
			}()
			own := v.Device().Alloc(1, v.N())
			own.Device().Copy(own, v)
			err := other.linearize(ctx, own, n.place.eta)
			return other.l, err
		},
	}
}
