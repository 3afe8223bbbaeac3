package linops

import (
	"context"
	"fmt"

	"surepipe/array"
)

// ColumnNormer is an Operator that knows the squared norms of its columns, the
// diagonal of A*A, from which [Normal] makes a preconditioner.
type ColumnNormer interface {
	Operator
	// ColumnNorms2 returns a new slice of p values, or nil when it cannot tell.
	ColumnNorms2() []float64
}

// columnNorms2 is a's squared column norms in a new slice, or nil.
func columnNorms2(a Operator) []float64 {
	if n, ok := a.(ColumnNormer); ok {
		return n.ColumnNorms2()
	}
	return nil
}

// Normal solves an operator's regularized normal equations,
//
//	(eta A*A + I) x = rhs,    eta >= 0,
//
// in the best way that the operator offers: its closed form, the formula for
// orthogonal rows, or else conjugate gradients, preconditioned by
// diag(1 + eta ||a_j||^2) where the columns' norms are known. It is safe for
// concurrent use.
type Normal struct {
	a       Operator
	dev     array.Device
	columns []float64 // squared norms, nil where unknown or not needed
	inverse etaCache  // the preconditioner
}

// Closed reports whether the operator has a closed form, and no iteration is needed.
func (n *Normal) Closed() bool { return closedForm(n.a) }

// NewNormal prepares to solve the normal equations of a on dev.
func NewNormal(dev array.Device, a Operator) *Normal {
	n := &Normal{a: a, dev: dev}
	if !closedForm(a) {
		n.columns = columnNorms2(a)
	}
	return n
}

// Release frees the device memory that n holds; the operator stays.
func (n *Normal) Release() { n.inverse.clear() }

// Solve sets dst = (eta A*A + I)^{-1} rhs; both are k x p and may be the same
// batch. Where it iterates it goes to a relative residual of 1e-13, and returns
// an error when it does not get there; so it does when ctx is cancelled or the
// device has failed.
func (n *Normal) Solve(ctx context.Context, dst, rhs array.Batch, eta float64) error {
	d, p := n.a.Dims()
	checkNormal("operator", d, p, dst, rhs, eta)
	if solveNormal(dst, rhs, n.a, eta) {
		if err := n.dev.Err(); err != nil {
			return fmt.Errorf("linops: normal equations of a %d x %d operator: %w", d, p, err)
		}
		return nil
	}
	t := n.dev.Alloc(rhs.K(), d)
	defer t.Free()
	var opts CGOptions
	if n.columns != nil {
		e := n.inverse.acquire(eta, func() array.Batch {
			return uploadShrinkage(n.dev, append([]float64(nil), n.columns...), eta)
		})
		defer n.inverse.release(e)
		opts.Precondition = func(dst, r array.Batch) { n.dev.Mul(dst, r, e.value) }
	}
	res, err := CG(ctx, dst, rhs, func(dst, x array.Batch) {
		n.a.Forward(t, x)
		n.a.Adjoint(dst, t)
		n.dev.Lin(dst, eta, dst, 1, x)
	}, opts)
	if err != nil {
		return fmt.Errorf("linops: normal equations of a %d x %d operator, eta = %.3g: %w", d, p, eta, err)
	}
	if !res.Converged {
		return fmt.Errorf("linops: normal equations of a %d x %d operator, eta = %.3g: conjugate gradients reached a relative residual of %.1e in %d steps, want 1e-13; take a smaller eta, scale the columns of A alike, or give the operator a SolveNormal method",
			d, p, eta, res.Residual, res.Iterations)
	}
	return nil
}
