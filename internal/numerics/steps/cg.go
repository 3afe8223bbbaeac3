// Package steps has what steps of Newton's method share: truncated conjugate gradients for their direction, and
// searches for their length.
package steps

import (
	"context"

	"surepipe/array"
)

// System is a linear system with a symmetric matrix M, positive definite near a minimum, and a positive definite
// preconditioner P. Right-hand sides are vectors of length n. Directions may be longer: what stands beyond their
// first n values is carried along, such as the product of a part of M with the direction, where P's product
// yields it for nothing.
type System struct {
	// Times sets q = M p, of length n, for a direction p.
	Times func(q, p array.Batch)
	// Precondition sets the direction p to P r for r of length n.
	Precondition func(p, r array.Batch)
}

// TruncatedCG sets the direction x to an approximate solution of M x = r by preconditioned conjugate gradients
// from 0, and overwrites r by what is left of it. They end at a residual with
//
//	<r, P r> <= tol^2 <r_0, P r_0>,
//
// after most steps, or at a direction p with <p, M p> <= 0, which is not taken: x is then a direction of descent
// for a function with the gradient -r_0 all the same, or 0 if it was the first (Steihaug, SIAM J. Numer. Anal.
// 20, 1983). It returns the number of steps; the error is that of the context or of the device.
func TruncatedCG(ctx context.Context, x, r array.Batch, s System, tol float64, most int) (int, error) {
	dev, n := x.Device(), r.N()
	p, t, q := dev.Alloc(1, x.N()), dev.Alloc(1, x.N()), dev.Alloc(1, n)
	defer array.Free(p, t, q)
	dev.Fill(x, 0)
	s.Precondition(p, r)
	rho := dot(r, p)
	first, taken := rho, 0
	for ; taken < most && rho > tol*tol*first; taken++ {
		if err := ctx.Err(); err != nil {
			return taken, err
		}
		s.Times(q, p)
		curve := dot(q, p)
		if !(curve > 0) {
			break
		}
		alpha := rho / curve
		dev.Lin(x, 1, x, alpha, p)
		dev.Lin(r, 1, r, -alpha, q)
		s.Precondition(t, r)
		next := dot(r, t)
		dev.Lin(p, 1, t, next/rho, p)
		rho = next
	}
	return taken, dev.Err()
}

func dot(a, p array.Batch) float64 { return a.Dot(p.Cols(0, a.N())) }
