package solve

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/loss"
	"surepipe/solve/engine"
	"surepipe/solve/interior"
	"surepipe/solve/rewrite"
	"surepipe/solve/splitting"
)

// Multiplier returns, for a problem with K, the u of least norm with
//
//	K* u = A* (y - A b),
//
// where b is the best fit with K b = 0: u/w is in the subdifferential of a norm r at 0, and b the
// solution with the regularizer w r(K b), from some weight w on. R does not matter. The caller frees
// u. It is rho K b for the minimizer of 1/2 ||A b - y||^2 + rho/2 ||K b||^2 at a large rho, which
// leaves a relative error of about 1/(rho lambda), with the smallest positive eigenvalue lambda of
// K*K beside A*A; where K's rows are independent, and A and K are matrices or K takes differences of
// neighbours, it has no such error.
func Multiplier(ctx context.Context, p Problem, y array.Batch) (array.Batch, error) {
	matrices := rewrite.OfMatrices(p)
	if !loss.Quadratic(p.Loss) {
		return array.Batch{}, fmt.Errorf("solve: the multiplier of a problem whose loss is not quadratic")
	}
	if w := loss.Weighing(p.Loss); w != nil {
		r := rewrite.Weights(p, w)
		defer r.Release()
		z, _ := r.Data(y)
		defer z.Free()
		p, y = r.Problem(), z
	}
	p.Loss = nil
	if matrices {
		if b, err := rewrite.FactorRows(ctx, p); b != nil || err != nil {
			if err != nil {
				return array.Batch{}, err
			}
			return b.Multiplier(p, y)
		}
	}
	if u := interior.AlongBand(p, y); !u.IsZero() {
		return u, p.Device.Err()
	}
	// in which the units of b do not matter: K* u = g for the same u
	if units := engine.UnequalColumns(p); units != nil {
		r := rewrite.Columns(p, units)
		defer r.Release()
		p = r.Problem()
	}
	bound, k, err := engine.Norms(ctx, p)
	if err != nil {
		return array.Batch{}, err
	}
	s, err := splitting.NewPenalized(ctx, p, k, DefaultTol)
	if err != nil {
		return array.Batch{}, err
	}
	defer s.Release()
	_, dim := p.A.Dims()
	q, _ := p.K.Dims()
	dev, rho := p.Device, largeWeight*math.Max(bound, 1e-300)/k
	b, rhs := dev.Alloc(1, dim), dev.Alloc(1, dim)
	defer array.Free(b, rhs)
	p.A.Adjoint(rhs, y)
	if err := s.Solve(ctx, b, rhs, rho, splitting.Anywhere); err != nil {
		return array.Batch{}, err
	}
	u := dev.Alloc(1, q)
	p.K.Forward(u, b)
	dev.Lin(u, rho, u, 0, array.Batch{})
	if err := dev.Err(); err != nil {
		u.Free()
		return array.Batch{}, err
	}
	return u, nil
}

// largeWeight is rho in units of ||A||^2/||K||^2.
const largeWeight = 1e8
