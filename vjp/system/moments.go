package system

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/linops"
)

// signs are the right-hand sides of probes of random signs: A* x_i as a sum over panels where A
// offers it, and otherwise from the vectors, which free frees.
func (s *Iterated) signs(dev array.Device, x hutch.Signs) (_ rightSide, free func()) {
	panels := linops.StructureOf(s.m).Panels
	if panels.Accumulate == nil {
		w := dev.Alloc(x.K, x.Dim)
		x.Draw(w, 0)
		return s.of(w), w.Free
	}
	return rightSide{x.K, x.Dim, func(dst array.Batch, size []float64) {
		dev.Fill(dst, 0)
		part := dev.Alloc(x.K, min(panels.Rows, x.Dim))
		defer part.Free()
		for from := 0; from < x.Dim; from += panels.Rows {
			part := part.Cols(0, min(panels.Rows, x.Dim-from))
			x.Draw(part, from)
			panels.Accumulate(dst, part, from)
		}
		for i := range size {
			size[i] = float64(x.Dim)
		}
	}}, func() {}
}

// Moments of D mu_hat = P' + A K^{-1} A* of conjugate gradients, where P' is the projection on the
// coordinates that move with y and A is 0 there: with c = A* x and K u = c,
//
//	<x, D mu_hat x> = <x, P' x> + <c, u>,   ||D mu_hat x||^2 = <x, P' x> + <u, A*A u>,
//
// and <x, P' x> is the number of coordinates that move. Where A* c is a sum over panels and A*A a
// product of its own no vector has length d.
func (s *Iterated) Moments() hutch.Moments {
	if !s.summed {
		return hutch.Moments{}
	}
	panels := linops.StructureOf(s.m).Panels
	return hutch.Moments{Compute: s.moments, Bytes: 8 * int64(s.vectors()*s.n+panels.Rows+s.moving)}
}

func (s *Iterated) moments(ctx context.Context, dev array.Device, x hutch.Signs, share float64, quad, norm2,
	left []float64) error {
	from, free := s.signs(dev, x)
	defer free()
	c, err := s.solve(ctx, dev, from, array.Batch{}, Goal{Residual: math.Inf(1), Form: share * s.tighter})
	if err != nil {
		return err
	}
	defer c.free()
	c.square(c.q, c.sum)
	dev.Dot(norm2, c.q, c.sum)
	moving := float64(s.moving)
	for i := range quad {
		quad[i] = c.probes[i].form/s.eta + moving
		norm2[i] += moving
	}
	c.bounds(left)
	return dev.Err()
}
