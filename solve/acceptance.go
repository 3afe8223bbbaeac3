package solve

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
)

// acceptance is the stopping rule of a solve: the optimality is within the tolerance, and the error
// of mu_hat, where a duality gap bounds it, is within the allowed error.
type acceptance struct {
	stick Yardstick
	good  float64 // the optimality of a converged solve
	tol   float64 // the optimality required now: good, or less where the error requires it
	conv  Convergence
}

func newAcceptance(stick Yardstick) acceptance {
	return acceptance{stick: stick, good: stick.Tol, tol: stick.Tol}
}

// Where the error of mu_hat is too large at a point within the tolerance, the tolerance is
// multiplied by tighten, down to tightestTol.
const (
	tighten     = 0.1
	tightestTol = 1e-15
)

// accept records an iterate: its optimality, the bound of its error (NaN if there is none), and the
// norm of its residual. step is the part of the optimality that the iteration itself can reduce.
func (a *acceptance) accept(optimality, step, bound, residual float64) {
	within := !(bound > a.stick.Allowed(residual))
	if math.IsInf(bound, 1) {
		bound = math.NaN() // not within, and of no use to anybody
	}
	a.conv.Optimality, a.conv.Error = optimality, bound
	a.conv.Converged = within && optimality <= a.good
	if !within && optimality <= a.tol || within && optimality > a.good && step <= a.tol {
		a.tol = max(tighten*a.tol, tightestTol)
	}
}

// watch decides whether an iterate is a solution: by a gradient at the iterate itself, and by a
// duality gap where there is one. A step's own measure only determines when to check.
type watch struct {
	acceptance
	m      Method
	traits Traits
	o      Options
	part   bool    // there is no duality gap
	scale  float64 // the scale of subgradients, from the last check
	wait   int     // iterations before the next check
	over   bool    // more iterations change nothing, or would gain nothing
	z, g   array.Batch
	fit    *fit        // where the loss is not quadratic; else nil
	kb     array.Batch // K b, for r(K b)
	norm2K float64     // a bound of ||K||^2, where it has been needed
	looked bool        // short is known
	short  []float64   // one over the lengths of A's columns where these differ much, 0 for columns of 0; else nil
}

func newWatch(m Method, traits Traits, y array.Batch, o Options, part bool) *watch {
	a := newAcceptance(yardstick(m.Problem(), y, traits.Norm2, o))
	return &watch{acceptance: a, m: m, traits: traits, o: o, part: part, scale: a.stick.first()}
}

func (c *watch) release() {
	c.z.Free()
	c.g.Free()
	c.kb.Free()
	if c.fit != nil {
		c.fit.release()
	}
}

// A check costs products with A and perhaps a proximal operator. After one without convergence the
// next follows after one in lookAgain of the iterations so far.
const lookAgain = 16

// after takes the measure of the step just done, and whether it is the last one allowed.
func (c *watch) after(ctx context.Context, w *Work, measured float64, last bool) error {
	c.conv.Iterations++
	if c.traits.Dual != nil {
		return c.behind(ctx, w, last)
	}
	own := c.traits.own
	if own != nil && own.residual != nil {
		c.scale = c.stick.Scale(own.residual(w), 0)
	}
	c.conv.Optimality = relative(measured, c.scale)
	if c.wait > 0 {
		c.wait--
	}
	if !last && (measured > c.tol*c.scale || c.wait > 0) {
		return nil
	}
	if own != nil {
		return own.examine(ctx, w, c, measured, last)
	}
	if w.follower != nil {
		slack, err := w.certify(ctx, c.traits, c.tol*c.scale-measured)
		if err != nil {
			return fmt.Errorf("%s iteration %d: %w", c.m.Name(), w.K+1, err)
		}
		measured += slack
	}
	if c.m.Problem().Loss != nil {
		return c.lookAtLoss(ctx, w, measured, last)
	}
	return c.look(ctx, w, measured, last)
}

// look computes the residual, the gradient and the gap at w.B.
func (c *watch) look(ctx context.Context, w *Work, measured float64, last bool) error {
	p, dev := c.m.Problem(), w.Device()
	if c.z.IsZero() {
		d, dim := p.A.Dims()
		c.z, c.g = dev.Alloc(1, d), dev.Alloc(1, dim)
	}
	p.A.Forward(c.z, w.B)
	dev.Lin(c.z, 1, c.z, -1, w.Y)
	zNorm, bNorm := Norm(c.z), Norm(w.B)
	c.scale = c.stick.Scale(zNorm, bNorm)
	c.conv.Optimality = relative(measured, c.scale)
	if !last && measured > c.tol*c.scale {
		return nil
	}
	if !c.part || !c.traits.Exact || c.o.shortness != nil {
		p.A.Adjoint(c.g, c.z)
	}
	optimality := c.conv.Optimality
	if !c.traits.Exact || c.o.shortness != nil {
		residual, byColumn, err := proximalResidual(p, w.B, c.g, stepFor(p, c.traits.Norm2), c.o.shortness)
		if err != nil {
			return err
		}
		if !c.traits.Exact {
			measured = residual
		}
		optimality = max(relative(measured, c.scale), relative(byColumn, c.stick.byColumn(zNorm)))
	}
	bound := math.NaN()
	if !c.part {
		bound = errorBound(ctx, p, w.B, c.z, c.g, c.stick, zNorm, bNorm, measured)
	}
	c.accept(optimality, relative(measured, c.scale), bound, zNorm)
	if !c.conv.Converged {
		c.wait = c.conv.Iterations / lookAgain
	}
	return dev.Err()
}

// lookAtLoss is look where the loss is not quadratic.
func (c *watch) lookAtLoss(ctx context.Context, w *Work, measured float64, last bool) error {
	p, dev := c.m.Problem(), w.Device()
	if c.fit == nil {
		d, dim := p.A.Dims()
		c.fit = newFit(dev, d, dim)
	}
	f := c.fit
	dev.Copy(f.b, w.B)
	p.A.Forward(f.z, f.b)
	f.at(p.Loss, w.Y)
	zNorm, bNorm := Norm(f.slope), Norm(f.b)
	c.scale = c.stick.Scale(zNorm, bNorm)
	c.conv.Optimality = relative(measured, c.scale)
	if !last && measured > c.tol*c.scale {
		return nil
	}
	p.A.Adjoint(f.g, f.slope)
	optimality, bound, size, err := f.judge(ctx, p, w.Y, c.stick, c.traits.Norm2, c.o.shortness, c.part)
	if err != nil {
		return err
	}
	c.accept(optimality, relative(measured, c.scale), bound, size)
	if !c.conv.Converged {
		c.wait = c.conv.Iterations / lookAgain
	}
	return dev.Err()
}

// slope turns z = A b into the gradient of the loss there, A b - y for the squared loss.
func slope(p Problem, z, y array.Batch) {
	if p.Loss == nil {
		z.Device().Lin(z, 1, z, -1, y)
		return
	}
	p.Loss.Gradient(z, z, y)
}

// relative is measured / scale, and 0 where measured is 0.
func relative(measured, scale float64) float64 {
	if measured > 0 {
		return measured / scale
	}
	return 0
}
