package engine

import (
	"math"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/space"
)

// Effort says how far a solve goes. The zero value asks for a solution that is certified: [Acceptance].
type Effort struct {
	// Share, if positive, ends the solve as soon as what is still to come changes SURE by an estimated Share of the
	// difference to that of the estimate b_0 where the solve starts, or of the difference's error,
	//
	//	2 sigma sqrt(||A (b - b_0)||^2 + sigma2 ||D - D_0||_F^2)
	//
	// with the Jacobians D ([risk.Comparison]), but of no more than SURE's own error, about sigma2 sqrt(2 d). The
	// Jacobians of regularizers without curvature are projections, for which the second norm is at least the
	// difference of their dimensions; else it is left out. At a start from 0 the error is 2 sigma2 sqrt(div).
	Share float64
	// Error, if positive, ends the solve of a problem with r(K b) as soon as the error of mu_hat is about as small, by
	// the duality gap. [Convergence].Change is then that error: what is still to change in SURE is not estimated.
	Error float64
}

// Looks at an iterate, which cost about as much as an iteration, follow each other after a quarter more iterations,
// and at least firstLook.
const (
	firstLook = 8
	lookRatio = 1.25
)

// What is to come after a change by D from one look to the next is D rho/(1 - rho), if changes go on to shrink by the
// factor rho from look to look. An error that falls like n^-a has rho = 1.25^-a: 0.8 for a = 1, 0.64 for a = 2. The
// estimate is caution times that, and at least what one direction counts; what is said of a solve is the estimate and
// what so many directions more count: TestEstimatedChangeHolds of package pipeline.
const (
	leastRho       = 0.75
	mostRho        = 0.9
	caution        = 2
	moreDirections = 2
)

// enough ends a solve where its estimate of the change to come says so. With sigma2, or the residual variance,
//
//	S = ||A b - y||^2 + 2 sigma2 dim T,
//
// stands for SURE, where T is the tangent space of the regularizer at the iterate: the divergence is at most its
// dimension, and that where r has no curvature on T and A is injective there.
type enough struct {
	Effort
	sigma2         float64
	start, z       array.Batch // A b_0 - y, zero for a start at 0; A b - y
	next, looks    int
	rss, dimension float64    // at the last look
	changes        [3]float64 // from the one before to it, and earlier ones
	asked, counts  bool       // whether T is a set of coordinates has been asked, and is so
	flat           bool       // r has no curvature there
	before         float64    // the dimension at b_0
}

// newEnough is the rule for a solve, nil where none is asked for, the method keeps its iterates itself, or r stands
// behind K. (There the dimension says too little: of isotropic total variation a direction that was not settled counted
// 0.006 in the divergence on a photograph and 0.4 on flat images. Effort.Error ends such solves.)
func newEnough(m Method, traits Traits, y, b0 array.Batch, o Options) *enough {
	p := m.Problem()
	if !(o.Effort.Share > 0) || traits.Own != nil || traits.Argument == nil || traits.Steps > 0 || p.Loss != nil ||
		p.K != nil {
		return nil
	}
	e := &enough{Effort: o.Effort, sigma2: o.Sigma2, next: firstLook, z: y.Device().Alloc(1, y.N())}
	if !b0.IsZero() {
		e.start = y.Device().Alloc(1, y.N())
		p.A.Forward(e.start, b0)
		y.Device().Lin(e.start, 1, e.start, -1, y)
		e.before = nonzeros(b0)
	}
	return e
}

func (e *enough) Release() {
	if e != nil {
		array.Free(e.start, e.z)
	}
}

// reached reports whether the iterate is good enough, and by how much SURE is estimated to change yet.
func (e *enough) reached(c *Watch, w *Work) (bool, float64, error) {
	if e == nil || c.Convergence.Iterations < e.next || e.asked && !e.counts {
		return false, 0, nil
	}
	e.next = max(c.Convergence.Iterations+firstLook, int(lookRatio*float64(c.Convergence.Iterations)))
	p, dev := c.m.Problem(), w.Device()
	p.A.Forward(e.z, w.B)
	dev.Lin(e.z, 1, e.z, -1, w.Y)
	dimension, err := e.dimensionAt(c, w)
	if err != nil {
		return false, 0, err
	}
	norm := Norm(e.z)
	rss, sigma2 := norm*norm, e.sigma2
	if sigma2 == 0 {
		sigma2 = rss / float64(w.Y.N())
	}
	now, last, before := math.Abs(rss-e.rss)+2*sigma2*math.Abs(dimension-e.dimension), e.changes[0], e.changes[1]
	e.changes = [3]float64{now, last, before}
	e.rss, e.dimension = rss, dimension
	if e.looks++; e.looks < 4 || !e.counts {
		return false, 0, dev.Err()
	}
	rho := min(max(math.Sqrt(now/before), leastRho), mostRho)
	left := max(caution*max(now, last*leastRho)*rho/(1-rho), 2*sigma2) // at least one direction
	bar := 2 * sigma2 * math.Sqrt(dimension)
	if !e.start.IsZero() {
		dev.Lin(e.z, 1, e.z, -1, e.start)
		bar = 2 * math.Sqrt(sigma2) * Norm(e.z)
		if e.flat {
			bar = math.Hypot(bar, 2*sigma2*math.Sqrt(math.Abs(dimension-e.before)))
		}
		before := Norm(e.start)
		bar = math.Hypot(bar, rss-before*before+2*sigma2*(dimension-e.before))
		bar = math.Min(bar, sigma2*math.Sqrt(2*float64(w.Y.N())))
	}
	return left <= e.Share*bar, left + moreDirections*2*sigma2, dev.Err()
}

// dimensionAt is the dimension of the regularizer's tangent space at the iterate, where that is a set of coordinates:
// the number of entries of b that are not 0.
func (e *enough) dimensionAt(c *Watch, w *Work) (float64, error) {
	if !e.asked {
		b := w.Device().Alloc(1, w.B.N())
		defer b.Free()
		j, err := c.m.Problem().R.Linearize(b, c.traits.Argument(w), w.Stepped)
		if err != nil {
			return 0, err
		}
		m := j.Model()
		e.asked, e.counts = true, m != nil && m.Space.Form().Kind == space.Subset
		e.flat = m != nil && m.Curvature == nil
		j.Release()
	}
	return nonzeros(w.B), w.Device().Err()
}

func nonzeros(b array.Batch) (count float64) {
	for _, x := range b.ToHost() {
		if x != 0 {
			count++
		}
	}
	return count
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
