package vjp

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
)

// check decides whether an iterate is a solution: from a gradient at the iterate itself, and
// by a duality gap where there is one. A step's own measure only says when to look.
type check struct {
	m     method
	o     Options
	stick yardstick
	tol   float64 // asked for now: o.Tol, less where the gap asks for more
	scale float64 // of the last look
	wait  int     // iterations before the next look
	z, g  array.Batch
	conv  Convergence

	confined bool // there is no gap to ask for
}

func newCheck(m method, y array.Batch, o Options) *check {
	stick := newYardstick(y, m.norm2(), o)
	return &check{m: m, o: o, stick: stick, tol: o.Tol, scale: stick.first()}
}

func (c *check) free() {
	c.z.Free()
	c.g.Free()
}

// After a look that ends without convergence one in lookAgain of the iterations so far follow
// without another: looks cost products with A and perhaps a proximal operator. Where the gap asks for more
// the tolerance is multiplied by tighten, down to tightestTol.
const (
	lookAgain   = 16
	tighten     = 0.1
	tightestTol = 1e-15
)

// tightened is the tolerance to ask for after one that was not enough.
func tightened(tol float64) float64 { return max(tighten*tol, tightestTol) }

// after is told the measure of the step just done, and whether it is the last one allowed.
func (c *check) after(ctx context.Context, w *work, measured float64, last bool) error {
	c.conv.Iterations++
	c.conv.Optimality = relative(measured, c.scale)
	if c.wait > 0 {
		c.wait--
	}
	if !last && (measured > c.tol*c.scale || c.wait > 0) {
		return nil
	}
	if w.follower != nil {
		slack, err := w.certify(ctx, c.m, c.tol*c.scale-measured)
		if err != nil {
			return fmt.Errorf("%s iteration %d: %w", c.m.name(), w.iteration+1, err)
		}
		measured += slack
	}
	return c.look(w, measured)
}

// look computes the residual, the gradient and the gap at w.b.
func (c *check) look(w *work, measured float64) error {
	p := c.m.problem()
	if c.z.IsZero() {
		d, dim := p.A.Dims()
		c.z, c.g = p.Device.Alloc(1, d), p.Device.Alloc(1, dim)
	}
	p.A.Forward(c.z, w.b)
	p.Device.Lin(c.z, 1, c.z, -1, w.y)
	zNorm, bNorm := norm(c.z), norm(w.b)
	c.scale = c.stick.scale(zNorm, bNorm)
	c.conv.Optimality = relative(measured, c.scale)
	last := c.conv.Iterations >= c.o.MaxIter
	if !last && measured > c.tol*c.scale {
		return nil
	}
	if !c.confined || !c.m.measures() || c.o.shortness != nil {
		p.A.Adjoint(c.g, c.z)
	}
	if !c.m.measures() || c.o.shortness != nil {
		residual, byColumn, err := proximalResidual(p, w.b, c.g, c.m.norm2(), c.o.shortness)
		if err != nil {
			return err
		}
		if !c.m.measures() {
			measured = residual
		}
		c.conv.Optimality = max(relative(measured, c.scale), relative(byColumn, max(c.stick.matters(zNorm), roundings*0x1p-52*c.stick.y/c.stick.tol)))
	}
	c.conv.Error = math.NaN()
	if !c.confined {
		c.conv.Error = errorBound(p, w.b, c.z, c.g, c.stick, zNorm, bNorm, measured)
	}
	within := !(c.conv.Error > c.stick.allowed(zNorm))
	c.conv.Converged = within && c.conv.Optimality <= c.o.Tol
	if !within && c.conv.Optimality <= c.tol || within && c.conv.Optimality > c.o.Tol && measured <= c.tol*c.scale {
		c.tol = tightened(c.tol)
	}
	if !c.conv.Converged {
		c.wait = c.conv.Iterations / lookAgain
	}
	return p.Device.Err()
}

// relative is measured / scale, 0 where measured is.
func relative(measured, scale float64) float64 {
	if measured > 0 {
		return measured / scale
	}
	return 0
}
