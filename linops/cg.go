package linops

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
)

// CGOptions says how far CG goes. The zero value asks for nearly all that
// double precision has to give.
type CGOptions struct {
	// Tol is the relative residual ||rhs - M x|| / ||rhs|| at which a vector is
	// done; 0 means 1e-13.
	Tol float64
	// MaxIterations bounds the steps; 0 means ten times the length of a vector,
	// but no fewer than 100 and no more than 10000.
	MaxIterations int
	// Precondition sets dst = P r for a self-adjoint positive definite P near
	// M^{-1}, vector by vector; nil means P = I. dst and r do not overlap.
	Precondition func(dst, r array.Batch)
}

// CGResult is the record of a call to CG.
type CGResult struct {
	// Iterations is the number of steps, those of the slowest vector.
	Iterations int
	// Residual is the largest relative residual among the vectors, as the
	// recurrence has it.
	Residual float64
	// Converged is whether every vector reached the tolerance.
	Converged bool
}

// CG solves M x_i = rhs_i for every vector of the batch by preconditioned
// conjugate gradients from zero. apply sets dst = M x for a self-adjoint
// positive definite M; it must treat each vector by itself and not overlap its
// operands. dst and rhs may be the same batch.
//
// Each vector stops by its own residual and then stays as it is, bit for bit,
// while the others go on; a vector of zeros has the solution zero. Vectors that
// do not get there within MaxIterations are reported by Converged, not by an
// error: dst holds the last iterate, and the caller decides. An error is
// a cancelled context, a device fault, a value that is not finite, or a
// direction in which M is not positive; dst is then undefined.
//
// Hestenes and Stiefel, Methods of conjugate gradients for solving linear
// systems, 1952; with the preconditioner, Golub and Van Loan, section 11.5.
func CG(ctx context.Context, dst, rhs array.Batch, apply func(dst, x array.Batch), opts CGOptions) (CGResult, error) {
	k, n := rhs.K(), rhs.N()
	if dst.K() != k || dst.N() != n {
		panic(fmt.Sprintf("linops: CG of %s into %s", rhs, dst))
	}
	if opts.Tol == 0 {
		opts.Tol = 1e-13
	}
	if opts.MaxIterations == 0 {
		opts.MaxIterations = min(max(10*n, 100), 10000)
	}
	dev := rhs.Device()
	r, p, q := dev.Alloc(k, n), dev.Alloc(k, n), dev.Alloc(k, n)
	defer r.Free()
	defer p.Free()
	defer q.Free()
	z := r // the preconditioned residual
	if opts.Precondition != nil {
		z = dev.Alloc(k, n)
		defer z.Free()
	}
	work := make([]float64, 6*k)
	goal, rr, rz, pq := work[:k], work[k:2*k], work[2*k:3*k], work[3*k:4*k]
	step, ones := work[4*k:5*k], work[5*k:]
	for i := range ones {
		ones[i] = 1
	}
	active := make([]bool, k)

	// measure refreshes rr and, into out, <r, z>.
	measure := func(out []float64) {
		dev.Dot(rr, r, r)
		if opts.Precondition == nil {
			copy(out, rr)
			return
		}
		opts.Precondition(z, r)
		dev.Dot(out, r, z)
	}

	dev.Copy(r, rhs)
	dev.Fill(dst, 0)
	measure(rz)
	dev.Copy(p, z)
	for i, v := range rr {
		goal[i] = opts.Tol * math.Sqrt(v)
		active[i] = v != 0
	}
	var res CGResult
	for {
		if err := dev.Err(); err != nil {
			return res, fmt.Errorf("linops: conjugate gradients, step %d: %w", res.Iterations, err)
		}
		left := 0
		res.Residual = 0
		for i, v := range rr {
			norm := math.Sqrt(v)
			if math.IsNaN(norm) || math.IsInf(norm, 0) {
				return res, fmt.Errorf("linops: conjugate gradients, step %d: the residual of vector %d is %v; the right-hand side or the map holds a value that is not finite", res.Iterations, i, norm)
			}
			if goal[i] > 0 {
				res.Residual = max(res.Residual, norm/goal[i]*opts.Tol)
			}
			active[i] = active[i] && norm > goal[i]
			if active[i] {
				left++
			}
		}
		res.Converged = left == 0
		if res.Converged || res.Iterations >= opts.MaxIterations {
			return res, nil
		}
		if ctx.Err() != nil {
			return res, fmt.Errorf("linops: conjugate gradients, step %d: %w", res.Iterations, context.Cause(ctx))
		}

		apply(q, p)
		dev.Dot(pq, p, q)
		if err := dev.Err(); err != nil {
			return res, fmt.Errorf("linops: conjugate gradients, step %d: %w", res.Iterations, err)
		}
		for i := range step {
			step[i] = 0
			if !active[i] {
				continue
			}
			if s := pq[i] + rz[i]; math.IsNaN(s) || math.IsInf(s, 0) {
				return res, fmt.Errorf("linops: conjugate gradients, step %d: on vector %d <p, M p> is %v and <r, P r> is %v; the map M or the preconditioner P returned a value that is not finite", res.Iterations, i, pq[i], rz[i])
			}
			if rz[i] == 0 {
				// The residual is 0 but for what squares lose.
				active[i] = false
				continue
			}
			if pq[i] <= 0 || rz[i] <= 0 {
				return res, fmt.Errorf("linops: conjugate gradients, step %d: on vector %d <p, M p> is %v and <r, P r> is %v, both should be positive; the map M or the preconditioner P is not positive definite", res.Iterations, i, pq[i], rz[i])
			}
			step[i] = rz[i] / pq[i]
		}
		dev.LinEach(dst, ones, dst, step, p)
		for i := range step {
			step[i] = -step[i]
		}
		dev.LinEach(r, ones, r, step, q)
		measure(pq)
		for i := range step {
			step[i] = 0
			if active[i] && rz[i] > 0 {
				step[i] = pq[i] / rz[i]
			}
		}
		copy(rz, pq)
		dev.LinEach(p, ones, z, step, p)
		res.Iterations++
	}
}
