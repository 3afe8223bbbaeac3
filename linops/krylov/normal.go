package krylov

import (
	"context"
	"fmt"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/internal/product"
)

// Normal solves an operator's regularized normal equations,
//
//	(eta A*A + I) x = rhs,    eta >= 0,
//
// in the best way that the operator's structure offers: its closed form, the formula for orthogonal
// rows or columns, or else conjugate gradients, preconditioned by diag(1 + eta ||a_j||^2) where the
// columns' norms are known. It is safe for concurrent use.
type Normal struct {
	a       linops.Operator
	known   linops.Structure
	dev     array.Device
	columns []float64     // squared norms, nil where unknown or not needed
	inverse product.Cache // the preconditioner
}

// NewNormal prepares to solve the normal equations of a on dev and its views: a solve allocates on
// the device of its destination.
func NewNormal(dev array.Device, a linops.Operator) *Normal {
	n := &Normal{a: a, known: linops.Complete(a, linops.StructureOf(a)), dev: dev}
	if norms2 := n.known.ColumnNorms2; !n.Closed() && norms2 != nil {
		n.columns = norms2()
	}
	return n
}

// Closed reports whether the operator has a closed form, so that no iteration is needed.
func (n *Normal) Closed() bool { return n.known.SolveNormal != nil }

// Release frees the device memory that n holds; the operator stays.
func (n *Normal) Release() { n.inverse.Free() }

// Solve sets dst = (eta A*A + I)^{-1} rhs; both are k x p and may be the same batch. Where it
// iterates it stops at a relative residual of 1e-13. It returns an error where it does not reach
// that, where ctx is cancelled, and where the device has failed.
func (n *Normal) Solve(ctx context.Context, dst, rhs array.Batch, eta float64) error {
	d, p := n.a.Dims()
	dev := dst.Device()
	product.CheckSolve("operator", d, p, dst, rhs, eta)
	if n.Closed() && n.known.SolveNormal(dst, rhs, eta) {
		if err := dev.Err(); err != nil {
			return fmt.Errorf("linops: normal equations of a %d x %d operator: %w", d, p, err)
		}
		return nil
	}
	t := dev.Alloc(rhs.K(), d)
	defer t.Free()
	var opts CGOptions
	if n.columns != nil {
		e := n.inverse.Acquire(n.dev, eta, func(on array.Device) array.Batch {
			return product.UploadShrinkage(on, append([]float64(nil), n.columns...), eta)
		})
		defer n.inverse.Release(e)
		opts.Precondition = func(dst, r array.Batch) { dev.Mul(dst, r, e.Value) }
	}
	res, err := CG(ctx, dst, rhs, func(dst, x array.Batch) {
		n.a.Forward(t, x)
		n.a.Adjoint(dst, t)
		dev.Lin(dst, eta, dst, 1, x)
	}, opts)
	if err != nil {
		return fmt.Errorf("linops: normal equations of a %d x %d operator, eta = %.3g: %w", d, p, eta, err)
	}
	if !res.Converged {
		return fmt.Errorf("linops: normal equations of a %d x %d operator, eta = %.3g: conjugate gradients "+
			"reached a relative residual of %.1e in %d steps, want 1e-13; use a smaller eta, scale the columns of "+
			"A to similar norms, or give the operator's Structure a SolveNormal",
			d, p, eta, res.Residual, res.Iterations)
	}
	return nil
}
