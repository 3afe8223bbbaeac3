// Package manifold has Newton steps on the manifold of a partly smooth regularizer, and semismooth Newton steps for
// proximal points, which find it.
package manifold

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/gradient"
	"surepipe/solve/restrict"
)

// semismooth takes Newton steps on the model of a partly smooth regularizer, and gradient steps in
// between. The loss is squared, and H = A*A. There are three kinds of steps:
//
//   - The gradient steps of fista. They go on, whatever the others do, and the others take at most
//     as much work as they, unless they are slow: where Newton steps do not help the solution is
//     fista's, in about twice its time.
//
//   - A Newton step on the manifold. At x = prox_{t r}(v), with s = (v - x)/t in r's subdifferential
//     and the model (E, Q) there, it proposes x - E (E*(H + Q)E)^{-1} E*(A*(A x - y) + s) to the
//     gradient steps, which keep the point if their measure falls by much. Once the manifold is
//     that of the solution it is the solution, where the manifold is flat, or else the steps
//     converge quadratically (Lemaréchal, Oustry, Sagastizábal 2000; Bareilles, Iutzeler, Malick
//     2022).
//
//   - A semismooth Newton step for a proximal point of the objective F: from a center c, the
//     minimum of F(x) + ||x - c||^2/(2 sigma) is that of a convex function of xi, in R^d, with a
//     Lipschitz continuous gradient,
//
//     psi'(xi) = xi + y - A x(xi),   x(xi) = prox_{sigma r}(c - sigma A* xi),
//
//     whose Newton steps need the same system with the ridge I/sigma. Steps of proximal points
//     find the manifold for any units of the columns, and converge for any sigma; a larger sigma
//     makes fewer of them, and a smaller one makes each easier (Rockafellar 1976; Li, Sun, Toh
//     2018; for SLOPE: Luo, Sun, Toh, Xiu 2019).
//
// The subgradient of a point is A*(A x - y) + s for the s of its own proximal step, and so exact
// for all three.
type semismooth struct{ *gradient.ProximalGradient }

// Entry is the entry of Newton steps on a manifold.
var Entry = engine.Entry{
	Name: "newton", About: "gradient steps and Newton steps on the manifold of a partly smooth r",
	New: newSemismooth, Sparse: true, Manifold: true,
}

func newSemismooth(ctx context.Context, p engine.Problem, _ engine.Options) (engine.Method, error) {
	if p.Loss != nil {
		return nil, errNotQuadratic
	}
	g, err := gradient.NewProximalGradient(ctx, "newton", p, true)
	if err != nil {
		return nil, err
	}
	return &semismooth{g}, nil
}

var errNotQuadratic = fmt.Errorf("solve: Newton steps on the model need a quadratic loss; use ista or fista")

// Traits are those of fista, but that it keeps its iterates itself.
func (s *semismooth) Traits() engine.Traits {
	t := s.ProximalGradient.Traits()
	t.Argument = nil
	t.Reweight = func(_ context.Context, r prox.Prox) (engine.Method, error) {
		other := *s.ProximalGradient
		other.P.R = r
		return &semismooth{&other}, nil
	}
	t.Own = &engine.Internals{
		Examine: func(_ context.Context, w *engine.Work, c *engine.Watch, _ float64, last bool) error {
			return of(w).examine(w, c, last)
		},
		Solution: func(w *engine.Work) (b, mu array.Batch) {
			d, p := s.P.A.Dims()
			b, mu = w.Device().Alloc(1, p), w.Device().Alloc(1, d)
			w.Device().Copy(b, w.B)
			s.P.A.Forward(mu, b)
			return b, mu
		},
		Gram: func(w *engine.Work) func(set []int) []float64 { return of(w).system.gram.Known },
	}
	return t
}

func of(w *engine.Work) *semismoothRun { return w.Own.(*semismoothRun) }

type semismoothRun struct {
	m   *semismooth
	dev array.Device

	path     gradient.GradientRun // the gradient steps
	next     engine.Coefficients
	measured float64 // of the last step
	descent  float64 // of the last gradient step
	// spent is the work of gradient steps and of Newton steps, in units of multiplications that
	// wait for memory.
	gradients, newtons float64
	share              float64 // of the work of gradient steps that Newton steps may take
	steps              int     // gradient steps so far
	mark               float64 // their measure when share was last set
	markAt             int     // after so many of them

	system   manifoldSystem
	near     proximalPoint
	useless  bool        // there are no models with systems that are factorized
	last     finish      // the step beyond the tolerance
	proximal bool        // w.B is that of near
	z, g, e  array.Batch // A b - y, A* of that, and the subgradient
	keep     [2]array.Batch
	u, ad    array.Batch // of length p
	fit      array.Batch // of length d
}

func (s *semismooth) Init(w *engine.Work, b0 array.Batch) error {
	d, p := s.P.A.Dims()
	dev := w.Device()
	w.B = dev.Alloc(1, p)
	dev.Fill(w.B, 0)
	if err := s.ProximalGradient.Init(w, b0); err != nil {
		return err
	}
	r := &semismoothRun{m: s, dev: dev, path: *gradient.RunOf(w), next: w.C, descent: math.Inf(1),
		measured: math.Inf(1), mark: math.Inf(1), share: 1}
	w.Own, w.Free = r, r.Release
	r.system = manifoldSystem{dev: dev, a: s.P.A, gram: restrict.NewGram(dev, s.P.A)}
	for _, b := range []*array.Batch{&r.g, &r.e, &r.keep[0], &r.keep[1], &r.u, &r.ad} {
		*b = dev.Alloc(1, p)
	}
	r.z, r.fit = dev.Alloc(1, d), dev.Alloc(1, d)
	r.near.init(r, w.Y)
	return nil
}

func (r *semismoothRun) Release() {
	array.Free(r.z, r.g, r.e, r.keep[0], r.keep[1], r.u, r.ad, r.fit)
	r.near.Release()
	r.system.gram.Release()
}

// Step takes a gradient step or a Newton step, and gradient steps alone where it is recorded.
func (s *semismooth) Step(ctx context.Context, w *engine.Work, record bool) (prox.Derivative, error) {
	r := of(w)
	switch {
	case record:
	case r.last == asked:
		r.last = taken
		if kept, err := r.fromGradient(ctx, w); kept || err != nil {
			return nil, err
		}
	case r.due():
		return nil, r.newton(ctx, w)
	}
	return r.gradient(ctx, w, record)
}

func (s *semismooth) Measure(w *engine.Work) (float64, engine.Coefficients) {
	return of(w).measured, of(w).next
}

const (
	// leastGradients are the gradient steps before the first Newton step.
	leastGradients = 4
	// arithmetic is the number of multiplications of a matrix product in the time of one that waits
	// for memory, and overhead those in the time of a call.
	arithmetic = 24
	// Where slow gradient steps have not reduced their measure by gain, the share of Newton steps
	// doubles, up to mostShare. Where a proposal was of no use it is halved, down to leastShare.
	slow       = 64
	mostShare  = 16
	leastShare = 1. / 8
	overhead   = 1 << 13
)

func (r *semismoothRun) product() float64 {
	d, p := r.m.P.A.Dims()
	entries := float64(d * p)
	if known := linops.StructureOf(r.m.P.A).Entries; known.Known {
		entries = known.Value
	}
	return entries + overhead
}

// due reports whether the next step is a Newton step: the first one waits for as much work by
// gradient steps.
func (r *semismoothRun) due() bool {
	ahead := 0.0
	if r.newtons == 0 {
		d, p := r.m.P.A.Dims()
		n := float64(min(d, p))
		ahead = r.cost(min(d, p)) + n*n*float64(d)/2/arithmetic
	}
	return !r.useless && r.steps >= leastGradients && r.newtons+ahead <= r.share*r.gradients
}

func (r *semismoothRun) cost(n int) float64 {
	side := float64(n)
	return 4*r.product() + side*side*side/6/arithmetic + 2*side*side
}

func (r *semismoothRun) charge(m *prox.Model) {
	p, n := m.Space.Dims()
	r.newtons += r.cost(n)
	if set, ok := columnsIn(m.Space.Form(), p); ok {
		missing := r.system.gram.Missing(set)
		d, _ := r.m.P.A.Dims()
		r.newtons += float64(len(missing)) * float64(len(set)) * float64(d) / 2 / arithmetic
	}
}

func (r *semismoothRun) gradient(ctx context.Context, w *engine.Work, record bool) (prox.Derivative, error) {
	if r.near.ready && r.near.measured < r.descent {
		r.dev.Copy(w.State[0], r.near.x)
		r.dev.Copy(w.State[1], r.near.x)
		r.path.Since, w.C.Own[gradient.Momentum] = 0, 0
	}
	r.gradients += 2 * r.product()
	r.steps++
	j, err := r.descend(ctx, w, record)
	switch {
	case r.descent <= gain*r.mark:
		r.mark, r.markAt, r.share = r.descent, r.steps, min(r.share, max(r.share/2, 1))
	case r.steps-r.markAt >= slow:
		r.markAt, r.share = r.steps, min(2*r.share, mostShare)
	}
	return j, err
}

func (r *semismoothRun) descend(ctx context.Context, w *engine.Work, record bool) (prox.Derivative, error) {
	r.proximal = false
	r.path.Extrapolate(w.C.Own[gradient.Momentum])
	j, err := r.path.Descend(ctx, w, record)
	if err != nil {
		return nil, err
	}
	r.path.Since++
	if r.path.Uphill() > 0 {
		r.path.Since = 0
	}
	r.next = w.C
	r.next.Own[gradient.Momentum] = float64(r.path.Since) / float64(r.path.Since+3)
	r.descent = r.path.Moved() / w.C.Eta
	r.measured = r.descent
	return j, nil
}

// newton takes a Newton step for the proximal point, or from its center, if the gradient steps have
// not gone beyond it.
func (r *semismoothRun) newton(ctx context.Context, w *engine.Work) error {
	n := &r.near
	switch {
	case !n.ready || r.descent <= gain*n.origin && r.descent < n.measured:
		n.origin = r.descent
		r.next = w.C
		if kept, err := r.fromGradient(ctx, w); kept || err != nil || r.useless {
			return err
		}
		r.share = max(r.share/2, leastShare)
		n.sigma = max(n.sigma, firstSigma*w.C.Eta)
		if err := n.begin(w.State[0]); err != nil {
			return err
		}
	case n.done():
		if kept, err := r.fromProximal(ctx, w); kept || err != nil {
			return err
		}
		if err := n.recenter(); err != nil {
			return err
		}
	default:
		if err := n.advance(); err != nil {
			return err
		}
	}
	r.dev.Copy(w.B, n.x)
	r.measured, r.next, r.proximal = n.measured, w.C, true
	return r.dev.Err()
}

// fromGradient proposes a Newton step on the manifold of a proximal gradient step from b_k.
func (r *semismoothRun) fromGradient(ctx context.Context, w *engine.Work) (bool, error) {
	p, eta := r.m.P, w.C.Eta
	r.residual(r.z, r.g, w.State[0], w.Y)
	r.dev.Lin(r.u, 1, w.State[0], -eta, r.g)
	j, err := p.R.Linearize(w.B, r.u, eta)
	if err != nil {
		return false, err
	}
	defer j.Release()
	m := j.Model()
	if m != nil && m.Space.Dim() == 0 {
		return false, nil
	}
	if r.useless = !solvable(m); r.useless {
		r.dev.Copy(w.B, w.State[0])
		r.measured = r.descent
		return false, nil
	}
	r.charge(m)
	r.dev.Lin(r.u, 1, r.u, -1, w.B)
	r.residual(r.z, r.g, w.B, w.Y)
	r.dev.Lin(r.e, 1, r.g, 1/eta, r.u)
	return r.propose(ctx, w, w.B, m)
}

// fromProximal proposes a Newton step on the manifold of the proximal point, if that is the
// manifold of the one before.
func (r *semismoothRun) fromProximal(ctx context.Context, w *engine.Work) (bool, error) {
	n := &r.near
	if !n.settled() {
		return false, nil
	}
	m := n.j.Model()
	r.charge(m)
	r.dev.Copy(r.e, n.e)
	return r.propose(ctx, w, n.x, m)
}

// gain is the factor by which a proposal must reduce the measure.
const gain = 0.1

// propose lets a gradient step judge x minus the Newton step of r.e on a manifold.
func (r *semismoothRun) propose(ctx context.Context, w *engine.Work, x array.Batch, m *prox.Model) (bool, error) {
	if !r.system.step(r.u, r.e, m, 0) {
		return false, r.dev.Err()
	}
	best, eta, since := min(r.descent, r.near.best()), w.C.Own[gradient.Momentum], r.path.Since
	descent := r.descent
	for i, s := range w.State {
		r.dev.Copy(r.keep[i], s)
	}
	r.dev.Lin(w.State[0], 1, x, 1, r.u)
	r.dev.Copy(w.State[1], w.State[0])
	r.path.Since, w.C.Own[gradient.Momentum] = 0, 0
	if _, err := r.descend(ctx, w, false); err != nil {
		return false, err
	}
	if r.descent <= gain*best {
		return true, nil
	}
	for i, s := range w.State {
		r.dev.Copy(s, r.keep[i])
	}
	r.path.Since, w.C.Own[gradient.Momentum], r.descent = since, eta, descent
	r.next = w.C
	return false, nil
}

func (r *semismoothRun) residual(z, g, x, y array.Batch) {
	r.m.P.A.Forward(z, x)
	r.dev.Lin(z, 1, z, -1, y)
	r.m.P.A.Adjoint(g, z)
}

// examine judges w.B by the subgradient there.
func (r *semismoothRun) examine(w *engine.Work, c *engine.Watch, last bool) error {
	p := r.m.P
	if r.proximal {
		r.dev.Copy(r.z, r.near.z)
		r.dev.Copy(r.g, r.near.g)
		r.dev.Copy(r.e, r.near.e)
	} else {
		// x_k - b and A x_k - y are in the scratch: the subgradient is A*(A b - A x_k) + (x_k - b)/eta.
		r.residual(r.z, r.g, w.B, w.Y)
		p.A.Adjoint(r.e, w.Scratch[2])
		r.dev.Lin(r.e, 1, r.g, -1, r.e)
		r.dev.Lin(r.e, 1, r.e, 1/w.C.Eta, w.Scratch[0])
	}
	zNorm, bNorm, measured := engine.Norm(r.z), engine.Norm(w.B), engine.Norm(r.e)
	c.Scale = c.Scales.Scale(zNorm, bNorm)
	optimality, byColumn := engine.Relative(measured, c.Scale), 0.0
	if c.Options.InverseLengths != nil {
		for j, v := range r.e.ToHost() {
			byColumn = math.Hypot(byColumn, v*c.Options.InverseLengths[j])
		}
	}
	bound := math.NaN()
	if !c.Part {
		bound = engine.ErrorBound(context.Background(), p, w.B, r.z, r.g, c.Scales, zNorm, bNorm, measured)
	}
	if bound > c.Scales.Allowed(zNorm) && optimality <= c.Good {
		for _, sigma := range []float64{r.near.sigma, firstSigma * w.C.Eta} {
			off, ok, err := r.offManifold(w, sigma)
			if err != nil {
				return err
			}
			if ok {
				bound = min(bound, max(off, engine.Roundings*engine.Epsilon*(c.Scales.Y+c.Scales.Norm*bNorm)))
				break
			}
		}
	}
	c.Accept(max(optimality, engine.Relative(byColumn, c.Scales.ByColumn(zNorm))), optimality, bound, zNorm)
	if c.Convergence.Converged && r.last == open && !last && (c.Options.Point || c.Options.Fine) &&
		c.Tol <= engine.DefaultTol && optimality > leastOptimality && !r.useless {
		r.last, c.Convergence.Converged = asked, false
		return r.dev.Err()
	}
	if !c.Convergence.Converged {
		c.Wait = c.Convergence.Iterations / engine.LookAgain
	}
	return r.dev.Err()
}

// finish says whether a Newton step on the manifold has been taken at a point within the tolerance.
// Where a derivative is wanted, whose curvature magnifies the error of b, one more step costs less
// than to solve anew.
type finish int

const (
	open finish = iota
	asked
	taken
)

// leastOptimality is the optimality at which that step is not needed.
const leastOptimality = 1e-12
