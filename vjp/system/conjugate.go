package system

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/progress"
)

// maxSteps bounds the conjugate gradient steps of a probe.
const maxSteps = 2000

// implicitTol is the residual of images unless the solver's own tolerance calls for a smaller one, FormShare the
// Form of their [Goal] and the least that pilots allow for. Rounding errors stop the residual at about 1e-10;
// after that it grows again. A probe whose residual has fallen below lost and has grown by regrown since then
// has reached its attainable accuracy.
const (
	implicitTol = 1e-7
	FormShare   = 0.01
	tightest    = 1e-9
	lost        = 1e-6
	regrown     = 1e3
)

// Tolerance is the residual of images after a solve to tol.
func Tolerance(tol float64) float64 { return max(min(implicitTol, tol), tightest) }

// run is a run of conjugate gradients for a batch of probes (see [Iterated]). A probe that has
// converged is frozen: its coefficients are 0, and its bits do not depend on the other probes.
type run struct {
	l    *Iterated
	dev  array.Device
	goal Goal
	from rightSide
	// A pilot is a run without a solution, for its Ritz values.
	pilot bool
	dst   array.Batch   // sum of alpha A u; zero where it is not asked for
	own   []array.Batch // of t, q, ku and kt those that are not in dst
	// r is the residual, u the direction, t a vector to work in, which is J r or (K + eta H) u, and
	// q is A u, or A*A u in the memory of t.
	r, u, t, q array.Batch
	// K u, and K J times the residual; zero where K is 0.
	ku, kt array.Batch
	// The images A u are summed step by step; where A*A is cheaper than A and A* the directions are
	// summed instead, and square applies A*A.
	square func(dst, b array.Batch)
	sum    array.Batch

	probes                               []probe
	active                               int
	curvature, jj, qq, alpha, beta, ones []float64
}

// probe is the state of one right-hand side.
type probe struct {
	radau
	start, rho, best float64 // the residual's squared J-norm: at first, now, and least
	bestAt           int     // the number of steps to the least
	form             float64 // sum of alpha rho
	size             float64 // ||w||^2
	bound, limit     float64 // of the form's error: the least bound so far, and the goal
	// strict says that the node was not a lower bound: the probe uses its own Ritz values, as
	// pilots do.
	strict, done bool
}

// tighten updates the bound after a step. It bounds the error of the quadratic form <w, D mu_hat
// w>, which is at most ||w||^2. The form only grows, so the least bound holds even where the
// residual grows again.
func (p *probe) tighten(eta float64) {
	b := 0.0
	if p.rho > 0 {
		b = p.gamma * p.rho / eta
	}
	if b < p.bound {
		p.bound = b
	}
}

// rightSide is A* w_i for some probes w_i.
type rightSide struct {
	k, d int
	// set sets dst_i = A* w_i and size_i = ||w_i||^2.
	set func(dst array.Batch, size []float64)
}

// of are the right-hand sides of probes that are vectors.
func (l *Iterated) of(w array.Batch) rightSide {
	return rightSide{w.K(), w.N(), func(dst array.Batch, size []float64) {
		l.m.Adjoint(dst, w)
		w.Device().Dot(size, w, w)
	}}
}

// newRun allocates the vectors of a run for right-hand sides. Where A*A is a product of its own the
// run's outcome is sum, the solutions of the systems, and dst has room for what only steps take; else it is dst, their
// images under A.
func (l *Iterated) newRun(dev array.Device, from rightSide, dst array.Batch, goal Goal, node float64) *run {
	k := from.k
	c := &run{l: l, dev: dev, dst: dst, goal: goal, from: from, square: l.square}
	c.r, c.u = dev.Alloc(k, l.n), dev.Alloc(k, l.n)
	var room array.Batch
	if c.square != nil && !dst.IsZero() && dst.Contiguous() {
		room = dst.Reshape(1, k*dst.N())
	}
	steps := []*array.Batch{&c.t}
	if !l.pre.flat() {
		steps = append(steps, &c.ku, &c.kt)
	}
	for _, b := range steps {
		if n := k * l.n; !room.IsZero() && n <= room.N() {
			*b, room = room.Cols(0, n).Reshape(k, l.n), room.Cols(n, room.N())
		} else {
			*b = dev.Alloc(k, l.n)
			c.own = append(c.own, *b)
		}
	}
	if c.q = c.t; c.square == nil {
		c.q = dev.Alloc(k, from.d)
		c.own = append(c.own, c.q)
	}
	c.probes = make([]probe, k)
	numbers := make([]float64, 6*k)
	for _, x := range []*[]float64{&c.curvature, &c.jj, &c.qq, &c.alpha, &c.beta, &c.ones} {
		*x, numbers = numbers[:k:k], numbers[k:]
	}
	for i := range c.ones {
		c.ones[i] = 1
		c.probes[i].radau.start(node)
	}
	return c
}

func (c *run) free() {
	c.done()
	array.Free(c.r, c.sum)
}

// done frees what only steps take.
func (c *run) done() {
	array.Free(append(c.own, c.u)...)
	c.own = nil
	c.q, c.u, c.t, c.ku, c.kt = array.Batch{}, array.Batch{}, array.Batch{}, array.Batch{}, array.Batch{}
}

func (c *run) iterate(ctx context.Context) error {
	if !c.dst.IsZero() && c.square == nil {
		c.dev.Fill(c.dst, 0)
	}
	if !c.pilot && c.square != nil {
		c.sum = c.dev.Alloc(c.from.k, c.l.n)
		c.dev.Fill(c.sum, 0)
	}
	if err := c.begin(); err != nil {
		return err
	}
	report := progress.From(ctx)
	step := 0
	for c.active > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		step++
		c.advance(step)
		if err := c.judge(step); err != nil {
			return err
		}
		if !c.pilot {
			c.l.note(step)
		}
		report(c.progress(step))
		if !c.ku.IsZero() {
			c.dev.LinEach(c.ku, c.ones, c.kt, c.beta, c.ku)
		}
		c.dev.LinEach(c.u, c.ones, c.t, c.beta, c.u)
		if err := c.dev.Err(); err != nil {
			return err
		}
	}
	return c.dev.Err()
}

func (c *run) image(w array.Batch) {
	if c.square != nil {
		if c.l.first != nil {
			c.dev.Lin(c.sum, 1, c.sum, 1, c.r)
		}
		c.l.m.Forward(c.dst, c.sum)
	}
	c.straighten(w)
}

// straighten moves dst_i along w_i until <w_i, dst_i> = sum_k alpha_k rho_k/eta, an identity in
// exact arithmetic. In floating point the directions are orthogonal only to their neighbours, and
// the sum satisfies the bound where the product does not (Strakos and Tichy, On error estimation in
// the conjugate gradient method and why it works in finite precision computations, ETNA 13, 2002).
func (c *run) straighten(w array.Batch) {
	along := c.alpha
	c.dev.Dot(along, w, c.dst)
	for i := range along {
		if p := &c.probes[i]; p.size > 0 {
			along[i] = (p.form/c.l.eta - along[i]) / p.size
		} else {
			along[i] = 0
		}
	}
	c.dev.LinEach(c.dst, c.ones, c.dst, along, w)
}

func (c *run) begin() error {
	l, dev := c.l, c.dev
	c.from.set(c.r, c.qq)
	for i := range c.probes {
		c.probes[i].size = c.qq[i]
	}
	dev.Lin(c.r, l.eta, c.r, 0, array.Batch{})
	if l.first != nil {
		l.first(c.u, c.r)
		dev.Dot(c.jj, c.u, c.r)
		for i, form := range c.jj {
			c.probes[i].form = form
		}
		c.r, c.u = c.u, c.r
	}
	l.pre.apply(c.u, c.ku, c.r)
	dev.Dot(c.jj, c.r, c.u)
	unit := 1 / math.Sqrt(2*float64(c.from.d))
	for i := range c.probes {
		p := &c.probes[i]
		p.rho, p.start, p.best = c.jj[i], c.jj[i], c.jj[i]
		p.bound, p.limit = p.size, c.goal.Form*unit*p.size
		if math.IsNaN(p.rho) || math.IsInf(p.rho, 0) {
			return c.notFinite("probe %d gives a right-hand side that is not finite", i)
		}
		p.tighten(c.l.eta)
		if p.done = p.rho <= 0; !p.done {
			c.active++
		}
	}
	return nil
}

// notFinite is the error for numbers that are not finite: the device's fault, if that is the cause.
func (c *run) notFinite(format string, args ...any) error {
	if err := c.dev.Err(); err != nil {
		return err
	}
	return fmt.Errorf("vjp: implicit derivative: "+format, args...)
}

// bend sets q to the image of every direction and curvature to <u, (K + eta H) u>.
func (c *run) bend() {
	l, dev := c.l, c.dev
	if c.square != nil {
		c.square(c.q, c.u)
		dev.Dot(c.qq, c.q, c.u)
	} else {
		l.m.Forward(c.q, c.u)
		dev.Dot(c.qq, c.q, c.q)
	}
	clear(c.curvature)
	if !c.ku.IsZero() {
		dev.Dot(c.curvature, c.ku, c.u)
	}
	for i, q := range c.qq {
		c.curvature[i] = math.Max(c.curvature[i], 0) + l.eta*q
	}
}

// move goes alpha along every direction, after bend.
func (c *run) move() {
	l, dev := c.l, c.dev
	if !c.sum.IsZero() {
		dev.LinEach(c.sum, c.ones, c.sum, c.alpha, c.u)
	}
	image := c.q
	if c.square == nil {
		if !c.dst.IsZero() {
			dev.LinEach(c.dst, c.ones, c.dst, c.alpha, c.q)
		}
		l.m.Adjoint(c.t, c.q)
		image = c.t
	}
	if c.ku.IsZero() {
		dev.Lin(c.t, l.eta, image, 0, array.Batch{})
	} else {
		dev.Lin(c.t, l.eta, image, 1, c.ku)
	}
	for i, a := range c.alpha {
		c.beta[i] = -a
	}
	dev.LinEach(c.r, c.ones, c.r, c.beta, c.t)
}

func (c *run) advance(step int) {
	c.bend()
	for i := range c.probes {
		p := &c.probes[i]
		c.alpha[i] = 0
		if p.done {
			continue
		}
		if !(c.curvature[i] > 0) {
			// The direction is in the null space of Q and of A: the system is solved on the rest.
			c.finish(p, step)
			continue
		}
		c.alpha[i] = p.rho / c.curvature[i]
	}
	c.move()
	c.l.pre.apply(c.t, c.kt, c.r)
	c.dev.Dot(c.jj, c.r, c.t)
}

// judge records the residuals after a step and stops the probes that are done.
func (c *run) judge(step int) error {
	for i := range c.probes {
		p := &c.probes[i]
		c.beta[i] = 0
		if p.done {
			continue
		}
		if math.IsNaN(c.jj[i]) {
			return c.notFinite("probe %d is not finite after %d steps", i, step)
		}
		p.form += c.alpha[i] * p.rho
		next := math.Max(c.jj[i], 0)
		c.beta[i] = next / p.rho
		p.rho = next
		below := p.add(c.alpha[i], c.beta[i])
		if next < p.best {
			p.best, p.bestAt = next, len(p.radau.alpha)
		}
		// Coefficients of a residual at the level of rounding errors carry no information on the
		// spectrum.
		worn := next > 0 && p.best <= lost*lost*p.start && (next >= regrown*regrown*p.best || !below && p.mu > 0)
		if !below && p.mu > 0 && !worn && next > 0 {
			p.strict, p.bound = true, p.size
			p.lower()
		}
		if !worn {
			p.tighten(c.l.eta)
		}
		if worn || step >= maxSteps || c.enough(p) {
			c.finish(p, step)
		}
	}
	return nil
}

func (c *run) bounds(left []float64) {
	for i := range left {
		left[i] = c.probes[i].bound
	}
}

// progress is the state after a step: the largest relative residual, in the norm of [goal], of the
// probes that are not done, and what it has to come down to. The bound of a form falls with the
// residual's square.
func (c *run) progress(step int) progress.Report {
	r := progress.Report{Stage: progress.ConjugateGradients, Step: step, Active: c.active}
	if c.pilot {
		r.Stage = progress.Pilot
	}
	worst := 0.0
	for i := range c.probes {
		p := &c.probes[i]
		if p.done || !(p.start > 0) {
			continue
		}
		residual := math.Sqrt(p.rho / p.start)
		goal := c.goal.Residual
		if c.pilot {
			goal = math.Max(goal, residual*math.Sqrt(pilotShare*p.limit/c.left(p)))
		} else {
			goal = math.Min(goal, residual*math.Sqrt(p.limit/p.bound))
		}
		if excess := residual / goal; excess > worst && goal > 0 && !math.IsInf(excess, 1) {
			worst, r.Measure, r.Goal = excess, residual, goal
		}
	}
	return r
}

// enough reports whether a probe has reached its goal. A pilot goes on until its form is far more
// accurate than forms need to be, or its residual is small.
func (c *run) enough(p *probe) bool {
	if !c.pilot {
		return c.small(p) && c.left(p) <= p.limit
	}
	left := c.left(p)
	return left <= pilotShare*p.limit || c.small(p) && left <= p.limit
}

func (c *run) small(p *probe) bool {
	residual := c.goal.Residual
	if p.strict {
		residual = math.Min(residual, implicitTol)
	}
	return p.rho <= residual*residual*p.start
}

// left returns the bound of the error of a probe's form. For a pilot that is its least residual
// over its Ritz value.
func (c *run) left(p *probe) float64 {
	if c.pilot && p.best > 0 {
		return p.best / (nodeShare * p.smallest(p.bestAt) * c.l.eta)
	}
	return p.bound
}

// excused is the factor by which the bound of a probe that rounding errors have stopped may exceed
// its limit. The bound is included in the printed error in any case, and is a small part of it.
const excused = 10

// finish stops a probe. It counts the probe as failed where the error of its form is far beyond the
// limit, or where the steps are used up before the residual is small. A pilot, on whose bound all
// other probes rely, has also failed if it misses its limit.
func (c *run) finish(p *probe, step int) {
	if left := c.left(p); left > excused*p.limit || c.pilot && left > p.limit || step >= maxSteps && !c.small(p) {
		c.l.short.Add(1)
		c.l.note(step)
	}
	p.done = true
	c.active--
}
