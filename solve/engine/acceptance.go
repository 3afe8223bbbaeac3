package engine

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
)

// Acceptance is the stopping rule of a solve: the optimality is within the tolerance, and the error
// of mu_hat, where a duality gap bounds it, is within the allowed error.
type Acceptance struct {
	Scales      Scales      // of errors that matter
	Good        float64     // the optimality of a converged solve
	Tol         float64     // the optimality required now: Good, or less where the error requires it
	Convergence Convergence // so far
}

// NewAcceptance is the rule for some scales.
func NewAcceptance(scales Scales) Acceptance {
	return Acceptance{Scales: scales, Good: scales.Tol, Tol: scales.Tol}
}

// Where the error of mu_hat is too large at a point within the tolerance, the tolerance is
// multiplied by tighten, down to TightestTol.
const (
	tighten     = 0.1
	TightestTol = 1e-15
)

// Accept records an iterate: its optimality, the bound of its error (NaN if there is none), and the
// norm of its residual. step is the part of the optimality that the iteration itself can reduce.
func (a *Acceptance) Accept(optimality, step, bound, residual float64) {
	within := !(bound > a.Scales.Allowed(residual))
	if math.IsInf(bound, 1) {
		bound = math.NaN() // not within, and of no use to anybody
	}
	a.Convergence.Optimality, a.Convergence.Error = optimality, bound
	a.Convergence.Converged = within && optimality <= a.Good
	if !within && optimality <= a.Tol || within && optimality > a.Good && step <= a.Tol {
		a.Tol = max(tighten*a.Tol, TightestTol)
	}
}

// Watch decides whether an iterate is a solution: by a gradient at the iterate itself, and by a
// duality gap where there is one. A step's own measure only determines when to check.
type Watch struct {
	Acceptance
	m       Method
	traits  Traits
	Options Options // of the solve
	Part    bool    // there is no duality gap
	Scale   float64 // the scale of subgradients, from the last check
	Wait    int     // iterations before the next check
	over    bool    // more iterations change nothing, or would gain nothing
	z, g, e array.Batch
	fit     *Fit                       // where the loss is not quadratic; else nil
	kb      array.Batch                // K b, for r(K b)
	bound   array.Batch                // 0 at the rows of K on which r does not depend, else 1; empty where all are 1
	u       array.Batch                // the multiplier there
	near    float64                    // the error of mu_hat where the effort allows for one, from the last check
	doubt   struct{ at, near float64 } // iterations and near, of a look before
	norm2K  float64                    // a bound of ||K||^2, where it has been needed
	looked  bool                       // short is known
	// short and long are one over the lengths of A's columns, and these, where they differ much; else empty.
	short, long, scaled array.Batch
}

func newWatch(m Method, traits Traits, y array.Batch, o Options, part bool) *Watch {
	a := NewAcceptance(ScalesOf(m.Problem(), y, traits.Norm2, o))
	a.Scales.free = new(freeColumns)
	return &Watch{Acceptance: a, m: m, traits: traits, Options: o, Part: part, Scale: a.Scales.First()}
}

func (c *Watch) Release() {
	array.Free(c.z, c.g, c.e, c.kb, c.bound, c.u, c.short, c.long, c.scaled)
	if c.fit != nil {
		c.fit.Release()
	}
}

// A check costs products with A and perhaps a proximal operator. After one without convergence the
// next follows after one in LookAgain of the iterations so far.
const LookAgain = 16

// after takes the measure of the step just done, and whether it is the last one allowed.
func (c *Watch) after(ctx context.Context, w *Work, measured float64, last bool) error {
	c.Convergence.Iterations++
	if c.traits.Dual != nil {
		return c.behind(ctx, w, last)
	}
	own := c.traits.Own
	if own != nil && own.Residual != nil {
		c.Scale = c.Scales.Scale(own.Residual(w), 0)
	}
	c.Convergence.Optimality = Relative(measured, c.Scale)
	if c.Wait > 0 {
		c.Wait--
	}
	if !last && (measured > c.Tol*c.Scale || c.Wait > 0) {
		return nil
	}
	if own != nil {
		return own.Examine(ctx, w, c, measured, last)
	}
	if w.follower != nil {
		slack, err := w.certify(ctx, c.traits, c.Tol*c.Scale-measured)
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

func (c *Watch) look(ctx context.Context, w *Work, measured float64, last bool) error {
	p, dev := c.m.Problem(), w.Device()
	if c.z.IsZero() {
		d, dim := p.A.Dims()
		c.z, c.g = dev.Alloc(1, d), dev.Alloc(1, dim)
	}
	p.A.Forward(c.z, w.B)
	dev.Lin(c.z, 1, c.z, -1, w.Y)
	zNorm, bNorm := Norm(c.z), Norm(w.B)
	c.Scale = c.Scales.Scale(zNorm, bNorm)
	c.Convergence.Optimality = Relative(measured, c.Scale)
	if !last && measured > c.Tol*c.Scale {
		return nil
	}
	if !c.Part || !c.traits.Exact || c.Options.InverseLengths != nil {
		p.A.Adjoint(c.g, c.z)
	}
	optimality := c.Convergence.Optimality
	if !c.traits.Exact || c.Options.InverseLengths != nil {
		residual, byColumn, err := proximalResidual(p, w.B, c.g, StepFor(p, c.traits.Norm2), c.Options.InverseLengths)
		if err != nil {
			return err
		}
		if !c.traits.Exact {
			measured = residual
		}
		optimality = max(Relative(measured, c.Scale), Relative(byColumn, c.Scales.ByColumn(zNorm)))
	}
	bound := math.NaN()
	if !c.Part {
		bound = ErrorBound(ctx, p, w.B, c.z, c.g, c.Scales, zNorm, bNorm, measured)
	}
	c.Accept(optimality, Relative(measured, c.Scale), bound, zNorm)
	if !c.Convergence.Converged {
		c.Wait = c.Convergence.Iterations / LookAgain
	}
	return dev.Err()
}

func (c *Watch) lookAtLoss(ctx context.Context, w *Work, measured float64, last bool) error {
	p, dev := c.m.Problem(), w.Device()
	if c.fit == nil {
		d, dim := p.A.Dims()
		c.fit = NewFit(dev, d, dim)
	}
	f := c.fit
	dev.Copy(f.B, w.B)
	p.A.Forward(f.Z, f.B)
	f.At(p.Loss, w.Y)
	zNorm, bNorm := Norm(f.Slope), Norm(f.B)
	c.Scale = c.Scales.Scale(zNorm, bNorm)
	c.Convergence.Optimality = Relative(measured, c.Scale)
	if !last && measured > c.Tol*c.Scale {
		return nil
	}
	p.A.Adjoint(f.G, f.Slope)
	optimality, bound, size, err := f.Judge(ctx, p, w.Y, c.Scales, c.traits.Norm2, c.Options.InverseLengths,
		math.Inf(1), c.Part)
	if err != nil {
		return err
	}
	c.Accept(optimality, Relative(measured, c.Scale), bound, size)
	if !c.Convergence.Converged {
		c.Wait = c.Convergence.Iterations / LookAgain
	}
	return dev.Err()
}

// Slope turns z = A b into the gradient of the loss there, A b - y for the squared loss.
func Slope(p Problem, z, y array.Batch) {
	if p.Loss == nil {
		z.Device().Lin(z, 1, z, -1, y)
		return
	}
	p.Loss.Gradient(z, z, y)
}

// Relative is measured / scale, and 0 where measured is 0.
func Relative(measured, scale float64) float64 {
	if measured > 0 {
		return measured / scale
	}
	return 0
}
