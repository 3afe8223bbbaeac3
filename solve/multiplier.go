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
// where b is the best fit with K b = 0: u/w is in the subdifferential of a norm r at 0, and b the solution with the
// regularizer w r(K b), from some weight w on. R does not matter. The caller frees u. The method of multipliers adds
// rho K b for the minimizer of 1/2 ||A b - y||^2 + <u, K b> + rho/2 ||K b||^2 at a large rho, each time with 1/(1 +
// rho lambda) of the error that was left, for an eigenvalue lambda of K*K beside A*A (Hestenes 1969, Powell 1969). It
// is an error that this does not settle. Where K's rows are independent, and A and K are matrices or K takes
// differences of neighbours, u is solved for.
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
	q, _ := p.K.Dims()
	dev, rho := p.Device, largeWeight*math.Max(bound, 1e-300)/k
	u := dev.Alloc(1, q)
	if err := settle(ctx, s, p, y, u, rho); err != nil {
		u.Free()
		return array.Batch{}, err
	}
	return u, nil
}

// settle sets u by the method of multipliers.
func settle(ctx context.Context, s *splitting.Penalized, p Problem, y, u array.Batch, rho float64) error {
	dev := u.Device()
	_, dim := p.A.Dims()
	b, rest, more := dev.Alloc(1, dim), dev.Alloc(1, dim), dev.Alloc(1, u.N())
	defer array.Free(b, rest, more)
	dev.Fill(u, 0)
	for step := range multiplierSteps {
		p.A.Adjoint(rest, y)
		p.K.Adjoint(b, u)
		dev.Lin(rest, 1, rest, -1, b)
		if err := s.Solve(ctx, b, rest, rho, splitting.Anywhere); err != nil {
			return err
		}
		p.K.Forward(more, b)
		dev.Lin(u, 1, u, rho, more)
		change, size := rho*more.MaxAbs(), u.MaxAbs()
		if err := dev.Err(); err != nil || change <= multiplierTol*size {
			return err
		}
		if step > 0 && change > slowMultiplier*size {
			rho *= 100
		}
	}
	return fmt.Errorf("solve: K takes a direction so nearly to 0, beside others, that its multiplier there is beyond " +
		"rounding errors")
}

// largeWeight is rho in units of ||A||^2/||K||^2. The multiplier is known where a step changes it by at most
// multiplierTol of its size; rho grows where a step still changes it by more than slowMultiplier.
const (
	largeWeight     = 1e8
	multiplierSteps = 20
	multiplierTol   = 1e-3
	slowMultiplier  = 0.1
)
