package system

import (
	"context"
	"math"
	"sync"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve"
)

// Iterated solves
//
//	(K + eta M*M) u = eta M* w,   D mu_hat w = M u,
//
// with K = eta Q, by conjugate gradients for all probes together, preconditioned by J = (I + K)^{-1}. The
// quadratic form w* D mu_hat w = <eta M* w, u>/eta grows step by step, by alpha_k rho_k/eta (Hestenes and
// Stiefel 1952), and so converges with the square of the residual. Its error is bounded by a Gauss-Radau rule
// (see radau), and a probe stops when the bound is small enough.
//
// Where the regularizer has no model only J = D prox_{eta r}(v) is known, with b = prox_{eta r}(v) and
// v = b - eta A*(A b - y) for any eta > 0. Then
//
//	D mu_hat w = A J x,   N x = eta A* w,   N = I - (I - eta A*A) J.
//
// N is self-adjoint and positive semidefinite in the semi-inner product <u, J v>, and conjugate gradients in
// that product solve the system. (In the Euclidean product N is not even symmetric.) It is the system above on
// the range of J, with K = J^{-1} - I there, and is solved by the same code. The components that J maps to zero
// do not show in that product and are multiplied by 1 - alpha_k at every step: unless they are projected away
// they grow until rounding errors bring them back. On a model's space there are no such components.
type Iterated struct {
	Base
	dev     array.Device
	m       linops.Operator
	n       int // its columns
	eta     float64
	tighter float64 // than asked for are forms
	pre     preconditioner
	// square applies M*M, where that is cheaper than M and M*, or all of a reduced system; else it is nil.
	square func(dst, b array.Batch)
	// first sets dst to the right-hand side of a system for M* w = r, where the image is M (s + r') for its solution s
	// and residual r'; nil where the right-hand side is r, and the image M s.
	first func(dst, r array.Batch)
	// apart adds to dst_i what the system leaves out of the image of w_i: work bytes a probe, and
	// moving coordinates of mu_hat that move with those of y one for one.
	apart  func(dst, w array.Batch)
	work   int64
	moving int
	// summed says that moments follow from sums over panels.
	summed bool

	pilot struct { // shared by all probes, computed by the first that needs it
		sync.Mutex
		nodes  map[float64]float64 // below the eigenvalues that matter to forms of an accuracy
		trace  float64             // about tr D mu_hat
		images array.Batch         // of the first pilots; zero where A*A is a product of its own
	}
	partial bool // the images have a part besides the system's
	counter
}

// newIterated is the system of M with a preconditioner, after a solve to tol.
func newIterated(dev array.Device, m linops.Operator, pre preconditioner, eta, tol float64) *Iterated {
	d, n := m.Dims()
	known := linops.StructureOf(m)
	s := &Iterated{Base: Base{d: d}, dev: dev, m: m, n: n, eta: eta, tighter: min(1, max(tol/solve.DefaultTol, 1e-3)),
		pre: pre, square: known.Normal, apart: func(_, _ array.Batch) {},
		summed: known.Normal != nil && known.Panels.Accumulate != nil}
	if c := known.Columns; s.square == nil && c.Known {
		s.square = func(dst, b array.Batch) { dst.Device().Lin(dst, c.Value, b, 0, array.Batch{}) }
	}
	return s
}

// Iterate is the system of the operator m = A E on a model's space, which it takes over, after a solve to tol.
func Iterate(dev array.Device, m linops.Restricted, model *prox.Model, eta, tol float64) *Iterated {
	var pre preconditioner = flat{}
	if model.Curvature != nil {
		pre = curvatureMap{model.Curvature}
	}
	s := newIterated(dev, m, pre, eta, tol)
	s.Own(m)
	return s
}

// IterateInProduct is the system on R^p in the product of J, the derivative of the proximal operator of eta r.
func IterateInProduct(dev array.Device, a linops.Operator, j prox.Derivative, eta, tol float64) *Iterated {
	return newIterated(dev, a, inProduct{j, j.Model()}, eta, tol)
}

// IterateReduced is the system of a solver in which a part of the coordinates is eliminated: what that part
// contributes by itself is added to the images.
func IterateReduced(dev array.Device, r solve.Reduced, tol float64) *Iterated {
	s := newIterated(dev, r, reduced{r}, 1, tol)
	s.Own(r)
	s.square, s.partial, s.apart, s.work, s.summed = r.Square, true, r.Apart, r.Work(), false
	return s
}

// Add adds the images of coordinates of mu_hat that move with those of y one for one, and at which the images of
// the system's operator are 0. They are taken over.
func (s *Iterated) Add(moving *linops.Places) {
	apart := s.apart
	s.partial, s.apart = true, func(dst, w array.Batch) {
		moving.Add(dst, 1, w)
		apart(dst, w)
	}
	s.moving, s.work = moving.Len(), s.work+8*int64(s.d)
	s.Hold(moving)
}

func (s *Iterated) Apply(ctx context.Context, dst, w array.Batch, goal Goal, left []float64) error {
	goal.Form *= s.tighter
	c, err := s.solve(ctx, w.Device(), s.of(w), dst, goal)
	if err != nil {
		return err
	}
	defer c.free()
	c.done()
	c.image(w)
	s.apart(dst, w)
	c.bounds(left)
	return w.Device().Err()
}

// solve runs conjugate gradients with a node for the goal; the caller frees the run. dst is zero where the
// images are not asked for.
func (s *Iterated) solve(ctx context.Context, dev array.Device, from rightSide, dst array.Batch, goal Goal) (*run,
	error) {
	node := 0.0
	if !math.IsInf(goal.Form, 1) {
		var err error
		if node, err = s.node(ctx, goal.Form); err != nil {
			return nil, err
		}
	}
	c := s.newRun(dev, from, dst, goal, node)
	done := false
	defer func() {
		if !done { // also where A panics
			c.free()
		}
	}()
	err := c.iterate(ctx)
	done = err == nil
	return c, err
}

// ProbeBytes counts the vectors of conjugate gradients, and two of length d.
func (s *Iterated) ProbeBytes() int64 { return 8*int64(s.vectors()*s.n+2*s.d) + s.work }

// vectors is the number of those of conjugate gradients for a probe: one more where M*M is a product
// of its own, and two more where there is curvature.
func (s *Iterated) vectors() int {
	n := 3
	if s.square != nil {
		n++
	}
	if !s.pre.flat() {
		n += 2
	}
	return n
}

// pilotSeed is the seed of the pilots: any constant.
const pilotSeed = 0x70696c6f74

// pilots is the number of probes that estimate the smallest eigenvalue. The estimate is nodeShare
// times their smallest Ritz value, which approaches the eigenvalue from above. They stop when the
// bound of their own form's error is pilotShare of what forms may lack.
const (
	pilots     = 1
	nodeShare  = 0.5
	pilotShare = 0.01
)

// node returns a lower bound of the eigenvalues that matter to forms that may lack form ||w||^2/sqrt(2d).
// It is computed once for all probes: the system is solved for random probes, always the same ones,
// and half of their smallest Ritz value is the bound. A probe whose own Ritz values are not above it goes on to
// a small residual ([probe]).
//
// Why they find it: an eigenvector v of N, of length 1 in J's product, with the eigenvalue theta
// has the part eta^2 <A J v, w>^2 = eta theta' <v', w>^2 in the square of the first residual, where
// v' is the unit vector along A J v and theta' = eta ||A J v||^2 <= theta, and the part
// theta'/theta <v', w>^2 in the form. As long as no Ritz value is near theta the residual keeps that part.
// With the node mu, the pilots stop at a squared residual rho for which rho/(eta mu) is pilotShare of the
// limit, and then such a direction has at most rho/(eta theta) of the form, pilotShare mu/theta of the
// limit: a form lacks more than its bound by as much as the limit only where an eigenvalue below
// pilotShare mu was overlooked.
func (s *Iterated) node(ctx context.Context, form float64) (float64, error) {
	form = math.Min(form, FormShare*s.tighter)
	s.pilot.Lock()
	defer s.pilot.Unlock()
	if node, known := s.pilot.nodes[form]; known {
		return node, nil
	}
	if s.pilot.nodes == nil {
		s.pilot.nodes = map[float64]float64{}
	}
	signs := hutch.Signs{K: pilots, Dim: s.d, Draw: func(dst array.Batch, from int) {
		hutch.RademacherPart(dst, pilotSeed, 0, 0, from)
	}}
	from, free := s.signs(s.dev, signs)
	defer free()
	c := s.newRun(s.dev, from, array.Batch{}, Goal{Residual: implicitTol, Form: form}, 0)
	defer c.free()
	c.pilot = true
	if s.square == nil && s.pilot.images.IsZero() {
		s.pilot.images = s.dev.Alloc(pilots, s.d)
		s.Hold(s.pilot.images)
		c.dst = s.pilot.images
	}
	if err := c.iterate(ctx); err != nil {
		return 0, err
	}
	node := math.Inf(1)
	s.pilot.trace = 0
	for i := range c.probes {
		s.pilot.trace += c.probes[i].form / s.eta / pilots
		if ritz := c.probes[i].smallest(c.probes[i].bestAt); ritz > 0 {
			node = math.Min(node, nodeShare*ritz)
		}
	}
	if math.IsInf(node, 1) {
		node = 1 // D mu_hat is 0 as far as the pilots show
	}
	s.pilot.nodes[form] = node
	return node, nil
}

// Rough is the form of the pilots.
func (s *Iterated) Rough(ctx context.Context) (float64, array.Batch, error) {
	if s.partial {
		return s.Base.Rough(ctx)
	}
	_, err := s.node(ctx, FormShare)
	return s.pilot.trace, s.pilot.images, err
}

// A preconditioner is J in the coordinates of the system's space, and K = J^{-1} - I.
type preconditioner interface {
	// apply sets jr = J r, or an approximation of it by a positive definite operator, and kr = K
	// jr; kr is zero where flat. r is first projected on the range of J, as far as that is known: what is outside
	// is multiplied by 1 - alpha_k at every step, in size more than 1 where alpha_k is above 2.
	apply(jr, kr, r array.Batch)
	// flat reports whether K is 0: J is the identity, or preconditions a system that is all in its
	// square.
	flat() bool
}

// flat is J = I: the regularizer has no curvature on the space.
type flat struct{}

func (flat) flat() bool                 { return true }
func (flat) apply(jr, _, r array.Batch) { r.Device().Copy(jr, r) }

// curvatureMap is the J of a curvature. Components that E maps to 0 never enter its images.
type curvatureMap struct{ q prox.Curvature }

func (curvatureMap) flat() bool                    { return false }
func (c curvatureMap) apply(jr, kr, r array.Batch) { c.q.Precondition(jr, kr, r) }

// inProduct is J itself, on R^p, where K = J^{-1} - I is taken on J's range.
type inProduct struct {
	j     prox.Derivative
	model *prox.Model // nil where the range is not known
}

func (inProduct) flat() bool { return false }

func (p inProduct) apply(jr, kr, r array.Batch) {
	dev := r.Device()
	if p.model != nil && p.model.Curvature != nil {
		p.model.Space.Project(r, r)
	}
	p.j.Apply(jr, r)
	if p.model != nil && p.model.Curvature == nil {
		// J itself is the projection, to the last bit.
		dev.Copy(r, jr)
	}
	dev.Lin(kr, 1, r, -1, jr)
}

// reduced is the preconditioner of a reduced system as J. All of the system is in its square.
type reduced struct{ r solve.Reduced }

func (reduced) flat() bool                   { return true }
func (p reduced) apply(jr, _, r array.Batch) { p.r.Precondition(jr, r) }
