package engine

import (
	"math"

	"surepipe/array"
	"surepipe/prox"
)

// Effort says how far a solve goes. The zero value asks for a solution that is certified: [Acceptance].
type Effort struct {
	// Share, if positive, ends the solve of a problem with r(K b) as soon as what is still to come changes SURE by an
	// estimated Share of the difference to that of the estimate b_0 where the solve starts, or of the difference's
	// error,
	//
	//	2 sigma sqrt(||A (b - b_0)||^2 + sigma2 ||D - D_0||_F^2)
	//
	// with the Jacobians D ([risk.Comparison]), but of no more than SURE's own error, about sigma2 sqrt(2 d): package
	// vjp sets Error by it.
	Share float64
	// Error, if positive, ends the solve of a problem with r(K b) as soon as the error of mu_hat is about as small, by
	// the duality gap. [Convergence].Change is then that error: what is still to change in SURE is not estimated.
	Error float64
}

// shortOf is what the value at one x is short of a supremum, about.
const shortOf = 2

func (c *Watch) endBehind(p Problem, w *Work, u array.Batch) error {
	allowed := c.Options.Effort.Error
	if c.Convergence.Converged || c.traits.Steps > 0 || !(allowed > 0) && c.traits.Inside == nil {
		return nil
	}
	c.near = c.Convergence.Error
	if !(c.near <= allowed) {
		if err := c.nearBehind(p, w, u); err != nil {
			return err
		}
	}
	if allowed > 0 && c.near <= allowed {
		c.Convergence.Converged, c.Convergence.Change = true, math.Max(c.near, math.SmallestNonzeroFloat64)
	}
	return nil
}

// nearBehind sets near to about the error of mu_hat. With u moved to where r's conjugate is finite, entry by entry, and
// e = A*(A b - y) + K* u, the gap bounds it by
//
//	sqrt(2 gap) + q,    q^2 = sup <e, x>^2/||A x||^2,
//
// while the bound of the error moves all of u by the factor that its worst entry asks for, and so counts that entry as
// often as there are others. shortOf times the value at x = e stands for q. Where a method has such a u of its own, its
// estimate is the one that goes with it: the gap with q^2/2 is no less than half of the squared errors of A b and of A
// b' for the b' that solves A*(A b' - y) + K* u = 0, so that A b is within
//
//	q/2 + sqrt(gap + q^2/4).
func (c *Watch) nearBehind(p Problem, w *Work, u array.Batch) error {
	r := prox.StructureOf(p.R)
	if r.FenchelGap == nil || r.Support != nil || !(w.Stepped > 0) {
		return nil
	}
	dev, v, ae := u.Device(), u.Device().Alloc(1, u.N()), u.Device().Alloc(1, w.Y.N())
	defer array.Free(v, ae)
	inside := c.traits.Inside
	if inside != nil {
		inside(w, v)
	} else {
		dev.Lin(v, 1, c.kb, w.Stepped, u)
		if err := p.R.Eval(v, v, w.Stepped); err != nil {
			return err
		}
		dev.Lin(v, 1, c.kb, -1, v)
		dev.Lin(v, 1/w.Stepped, v, 1, u)
	}
	p.K.Adjoint(c.e, v)
	dev.Lin(c.e, 1, c.e, 1, c.g)
	p.A.Forward(ae, c.e)
	e, image := Norm(c.e), Norm(ae)
	gap := r.FenchelGap(c.kb, v, 1, math.Inf(1))
	if !(gap >= 0 && image > 0) {
		return dev.Err()
	}
	q := shortOf * e * e / image
	near := math.Sqrt(2*gap) + q
	if inside != nil {
		near = q/2 + math.Sqrt(gap+q*q/4)
	}
	c.near = math.Min(c.near, near)
	return dev.Err()
}

func (c *Watch) goalBehind() float64 {
	if e := c.Options.Effort.Error; e > 0 && c.near > 0 {
		share := e / c.near
		return max(c.Tol, share*share*c.Convergence.Optimality)
	}
	return c.Tol
}
