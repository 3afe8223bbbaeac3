package manifold

import (
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/numerics/steps"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/space"
)

// proximalPoint computes the proximal point of the objective from a center c by semismooth Newton
// steps (see [semismooth]).
type proximalPoint struct {
	r     *semismoothRun
	y     array.Batch
	ready bool
	sigma float64

	c       array.Batch // the center
	xi, a   array.Batch // xi and A* xi
	x, z, g array.Batch // prox_{sigma r}(c - sigma a), A x - y, and A* of that
	v       array.Batch // c - sigma a
	e       array.Batch // the subgradient g + (c - x)/sigma - a
	j       prox.Derivative

	origin   float64 // the measure of the gradient step that it started from
	measured float64 // ||e||
	inner    float64 // ||z - xi||, of the last step
	least    float64 // and the least since the center
	steps    int     // Newton steps since the center
	stuck    bool    // there is no descent
	last     strata  // the manifold at the last center

	d, da    array.Batch // a step in xi, and A* of it
	try, dif array.Batch
}

const (
	// firstSigma is the first sigma, in units of 1/||A||^2.
	firstSigma = 100
	// innerShare of the distance to the center, over sigma, is the subgradient at which a proximal
	// point is close enough.
	innerShare = 0.2
	// mostInner are the steps after which a proximal point is given up for one with a smaller sigma.
	mostInner = 100
	// A line search takes a step at which the slope has fallen to flatter of the first.
	flatter = 0.3
	// A full step at which the gradient of psi has fallen by gradientFall is taken.
	gradientFall = 0.5
)

func (n *proximalPoint) init(r *semismoothRun, y array.Batch) {
	d, p := r.m.P.A.Dims()
	n.r, n.y, n.measured = r, y, math.Inf(1)
	for _, b := range []*array.Batch{&n.c, &n.a, &n.x, &n.g, &n.v, &n.e, &n.da, &n.try, &n.dif} {
		*b = r.dev.Alloc(1, p)
	}
	n.xi, n.z, n.d = r.dev.Alloc(1, d), r.dev.Alloc(1, d), r.dev.Alloc(1, d)
}

func (n *proximalPoint) Release() {
	array.Free(n.c, n.a, n.x, n.g, n.v, n.e, n.da, n.try, n.dif, n.xi, n.z, n.d)
	n.forget()
}

func (n *proximalPoint) forget() {
	if n.j != nil {
		n.j.Release()
		n.j = nil
	}
}

func (n *proximalPoint) best() float64 {
	if !n.ready {
		return math.Inf(1)
	}
	return n.measured
}

func (n *proximalPoint) begin(c array.Batch) error {
	r := n.r
	r.dev.Copy(n.c, c)
	r.residual(n.xi, n.a, n.c, n.y)
	r.newtons += 2 * r.product()
	n.least, n.steps, n.stuck = math.Inf(1), 0, false
	return n.evaluate()
}

func (n *proximalPoint) evaluate() (err error) {
	r := n.r
	n.forget()
	r.dev.Lin(n.v, 1, n.c, -n.sigma, n.a)
	if n.j, err = r.m.P.R.Linearize(n.x, n.v, n.sigma); err != nil {
		return err
	}
	r.residual(n.z, n.g, n.x, n.y)
	r.newtons += 2 * r.product()
	r.dev.Lin(n.e, 1, n.v, -1, n.x)
	r.dev.Lin(n.e, 1/n.sigma, n.e, 1, n.g)
	n.measured = engine.Norm(n.e)
	r.dev.Lin(r.fit, 1, n.z, -1, n.xi)
	n.inner = engine.Norm(r.fit)
	n.ready = true
	return r.dev.Err()
}

// done reports that the proximal point is close enough, or has failed.
func (n *proximalPoint) done() bool {
	r := n.r
	if n.failed() {
		return true
	}
	r.dev.Lin(r.u, 1, n.g, -1, n.a)
	r.dev.Lin(r.ad, 1, n.c, -1, n.x)
	return engine.Norm(r.u) <= innerShare*engine.Norm(r.ad)/n.sigma
}

func (n *proximalPoint) failed() bool { return n.stuck || n.steps >= mostInner }

// recenter makes x the center, with a sigma that follows from the steps that x took.
func (n *proximalPoint) recenter() error {
	switch k := n.steps; {
	case n.failed():
		n.sigma /= 4
	case k <= 2:
		n.sigma *= 10
	case k <= 5:
		n.sigma *= 5
	case k <= 20:
		n.sigma *= 2
	case k > 40:
		n.sigma /= 2
	}
	n.sigma = min(max(n.sigma, n.r.m.Eta), mostSigma*n.r.m.Eta)
	n.last = n.manifold()
	return n.begin(n.x)
}

// mostSigma is the largest sigma, in units of 1/||A||^2.
const mostSigma = 1e14

// strata tell one manifold from another: its coordinates, and where its clusters of them begin.
type strata struct{ set, cut []int }

func (n *proximalPoint) manifold() strata {
	m := n.j.Model()
	if m == nil {
		return strata{}
	}
	switch f := m.Space.Form(); f.Kind {
	case space.Subset:
		return strata{set: slices.Clone(f.Set)}
	case space.Cluster:
		rows := f.Average()
		return strata{rows.Indices, slices.Clone(rows.Indptr)}
	}
	_, dim := m.Space.Dims()
	return strata{set: []int{-1, dim}}
}

// settled reports that the manifold is that of the last center, and has a system.
func (n *proximalPoint) settled() bool {
	now := n.manifold()
	return solvable(n.j.Model()) && slices.Equal(now.set, n.last.set) && slices.Equal(now.cut, n.last.cut)
}

// advance takes a Newton step on psi, with a line search on its slope.
func (n *proximalPoint) advance() error {
	r, dev := n.r, n.r.dev
	n.steps++
	m := n.j.Model()
	if m == nil {
		r.useless = true
		return nil
	}
	dev.Lin(n.d, 1, n.z, -1, n.xi)
	dev.Lin(n.da, 1, n.g, -1, n.a)
	if m.Space.Dim() > 0 {
		if !solvable(m) {
			r.useless = true
			return nil
		}
		r.charge(m)
		if !r.system.step(r.u, n.da, m, 1/n.sigma) {
			n.stuck = true
			return dev.Err()
		}
		r.m.P.A.Forward(r.fit, r.u)
		dev.Lin(n.d, 1, n.d, 1, r.fit)
		r.m.P.A.Adjoint(r.ad, r.fit)
		dev.Lin(n.da, 1, n.da, 1, r.ad)
	}
	n.least = min(n.least, n.inner)
	// psi'(xi) = xi - z.
	dev.Lin(r.fit, 1, n.xi, -1, n.z)
	t, err := n.search(engine.Inner(r.fit, n.d))
	if err != nil {
		return err
	}
	if n.stuck = !(t > 0); n.stuck {
		return dev.Err()
	}
	dev.Lin(n.xi, 1, n.xi, t, n.d)
	dev.Lin(n.a, 1, n.a, t, n.da)
	return n.evaluate()
}

// search finds a step along d, where psi has the slope first. psi is convex: up to a point with a
// slope that is not positive it falls.
func (n *proximalPoint) search(first float64) (float64, error) {
	r, dev := n.r, n.r.dev
	d2 := engine.Inner(n.d, n.d)
	return steps.Flatten(first, flatter, func(t float64) (float64, error) {
		dev.Lin(n.try, 1, n.v, -t*n.sigma, n.da)
		if err := r.m.P.R.Eval(n.try, n.try, n.sigma); err != nil {
			return 0, err
		}
		dev.Lin(n.dif, 1, n.try, -1, n.x)
		slope := first + t*d2 - engine.Inner(n.dif, n.da)
		if t == 1 && slope > 0 && n.falls() {
			slope = 0 // the step is taken as it is
		}
		return slope, dev.Err()
	})
}

// falls reports whether psi' at the full step, whose x is in try, is much smaller than at any step
// since the center.
func (n *proximalPoint) falls() bool {
	r, dev := n.r, n.r.dev
	r.m.P.A.Forward(r.fit, n.try)
	dev.Lin(r.fit, 1, r.fit, -1, n.y)
	dev.Lin(r.fit, 1, r.fit, -1, n.xi)
	dev.Lin(r.fit, 1, r.fit, -1, n.d)
	return engine.Norm(r.fit) <= gradientFall*n.least
}
