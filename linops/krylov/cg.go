package krylov

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/progress"
)

// CGOptions are the tolerance and the preconditioner of CG. The zero value asks for nearly all the
// accuracy of double precision.
type CGOptions struct {
	// Tol is the relative residual ||rhs - M x|| / ||rhs|| at which a vector has converged; 0 means
	// 1e-13.
	Tol float64
	// MaxIterations bounds the steps; 0 means 1000.
	MaxIterations int
	// Precondition sets dst = P r for a self-adjoint positive definite P near M^{-1}, vector by
	// vector; nil means P = I. dst and r do not overlap.
	Precondition func(dst, r array.Batch)
	// Left is set to the residuals rhs - M x of the recurrence, unless it is the zero Batch.
	Left array.Batch
}

// CGResult describes a call of CG.
type CGResult struct {
	// Iterations is the number of steps that the slowest vector took.
	Iterations int
	// Residual is the largest relative residual among the vectors, computed by the recurrence.
	Residual float64
	// Converged reports whether every vector reached the tolerance.
	Converged bool
}

// CG solves M x_i = rhs_i for every vector of the batch by preconditioned conjugate gradients from
// zero. apply sets dst = M x for a self-adjoint positive definite M, each vector alone; dst and x
// do not overlap. dst and rhs may be the same batch.
//
// Each vector stops by its own residual and then does not change, bit for bit, while the others go
// on; a vector of zeros has the solution zero. Converged reports whether all vectors reached the
// tolerance within MaxIterations; where it is false dst holds the last iterates and there is no
// error. An error is a cancelled context, a device fault, a value that is not finite, or a
// direction in which M is not positive; dst is then undefined.
//
// Hestenes and Stiefel, Methods of conjugate gradients for solving linear systems, 1952; with the
// preconditioner, Golub and Van Loan, section 11.5.
func CG(ctx context.Context, dst, rhs array.Batch, apply func(dst, x array.Batch), opts CGOptions) (CGResult, error) {
	k, n := rhs.K(), rhs.N()
	if dst.K() != k || dst.N() != n {
		panic(fmt.Sprintf("linops: CG of %s into %s", rhs, dst))
	}
	opts.Tol, opts.MaxIterations = cmp.Or(opts.Tol, 1e-13), cmp.Or(opts.MaxIterations, 1000)
	c := newCG(dst, rhs, opts)
	defer c.free()
	report := progress.From(ctx)
	for {
		if done, err := c.check(); done || err != nil {
			if !opts.Left.IsZero() {
				c.dev.Copy(opts.Left, c.r)
			}
			return c.res, err
		}
		if ctx.Err() != nil {
			return c.res, c.wrap(context.Cause(ctx))
		}
		apply(c.q, c.p)
		if err := c.advance(); err != nil {
			return c.res, err
		}
		report(progress.Report{Stage: progress.InnerSteps, Step: c.res.Iterations, Measure: c.res.Residual,
			Goal: opts.Tol})
	}
}

// cg is a run of conjugate gradients: the residuals r, the preconditioned residuals z, the
// directions p, q = M p, and some numbers of each vector.
type cg struct {
	dev        array.Device
	opts       CGOptions
	res        CGResult
	dst        array.Batch
	r, z, p, q array.Batch
	// The norm at which a vector has converged, <r, r>, <r, z>, <p, q>, a coefficient, and ones.
	goal, rr, rz, pq, step, ones []float64
	active                       []bool
}

func newCG(dst, rhs array.Batch, opts CGOptions) *cg {
	dev, k, n := rhs.Device(), rhs.K(), rhs.N()
	c := &cg{dev: dev, opts: opts, dst: dst, r: dev.Alloc(k, n), p: dev.Alloc(k, n), q: dev.Alloc(k, n),
		active: make([]bool, k)}
	c.z = c.r
	if opts.Precondition != nil {
		c.z = dev.Alloc(k, n)
	}
	work := make([]float64, 6*k)
	for i, x := range []*[]float64{&c.goal, &c.rr, &c.rz, &c.pq, &c.step, &c.ones} {
		*x = work[i*k : (i+1)*k]
	}
	for i := range c.ones {
		c.ones[i] = 1
	}
	dev.Copy(c.r, rhs)
	dev.Fill(dst, 0)
	c.measure(c.rz)
	dev.Copy(c.p, c.z)
	for i, v := range c.rr {
		c.goal[i] = opts.Tol * math.Sqrt(v)
		c.active[i] = v != 0
	}
	return c
}

func (c *cg) free() {
	array.Free(c.r, c.p, c.q)
	if c.opts.Precondition != nil {
		c.z.Free()
	}
}

func (c *cg) wrap(err error) error {
	return fmt.Errorf("linops: conjugate gradients, step %d: %w", c.res.Iterations, err)
}

func (c *cg) measure(out []float64) {
	c.dev.Dot(c.rr, c.r, c.r)
	if c.opts.Precondition == nil {
		copy(out, c.rr)
		return
	}
	c.opts.Precondition(c.z, c.r)
	c.dev.Dot(out, c.r, c.z)
}

// check updates the residual and which vectors are active, and reports whether the run is over.
func (c *cg) check() (done bool, err error) {
	if err := c.dev.Err(); err != nil {
		return true, c.wrap(err)
	}
	left := 0
	c.res.Residual = 0
	for i, v := range c.rr {
		norm := math.Sqrt(v)
		if math.IsNaN(norm) || math.IsInf(norm, 0) {
			return true, c.wrap(fmt.Errorf("the residual of vector %d is %v; the right-hand side or the map M has "+
				"a value that is not finite", i, norm))
		}
		if c.goal[i] > 0 {
			c.res.Residual = max(c.res.Residual, norm/c.goal[i]*c.opts.Tol)
		}
		c.active[i] = c.active[i] && norm > c.goal[i]
		if c.active[i] {
			left++
		}
	}
	c.res.Converged = left == 0
	return c.res.Converged || c.res.Iterations >= c.opts.MaxIterations, nil
}

// advance takes a step along the directions p, given q = M p, and chooses the next ones. Vectors
// that are not active take a step of length 0.
func (c *cg) advance() error {
	c.dev.Dot(c.pq, c.p, c.q)
	if err := c.dev.Err(); err != nil {
		return c.wrap(err)
	}
	for i := range c.step {
		c.step[i] = 0
		if !c.active[i] {
			continue
		}
		pq, rz := c.pq[i], c.rz[i]
		if s := pq + rz; math.IsNaN(s) || math.IsInf(s, 0) {
			return c.wrap(fmt.Errorf("on vector %d <p, M p> is %v and <r, P r> is %v; the map M or the "+
				"preconditioner P returned a value that is not finite", i, pq, rz))
		}
		if rz == 0 {
			// The square of the residual underflows.
			c.active[i] = false
			continue
		}
		if pq <= 0 || rz <= 0 {
			return c.wrap(fmt.Errorf("on vector %d <p, M p> is %v and <r, P r> is %v, both should be positive; "+
				"the map M or the preconditioner P is not positive definite", i, pq, rz))
		}
		c.step[i] = rz / pq
	}
	c.dev.LinEach(c.dst, c.ones, c.dst, c.step, c.p)
	for i := range c.step {
		c.step[i] = -c.step[i]
	}
	c.dev.LinEach(c.r, c.ones, c.r, c.step, c.q)
	c.measure(c.pq)
	for i := range c.step {
		c.step[i] = 0
		if c.active[i] && c.rz[i] > 0 {
			c.step[i] = c.pq[i] / c.rz[i]
		}
	}
	copy(c.rz, c.pq)
	c.dev.LinEach(c.p, c.ones, c.z, c.step, c.p)
	c.res.Iterations++
	return nil
}
