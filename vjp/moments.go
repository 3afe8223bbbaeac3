package vjp

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/linops"
)

// signs are the right-hand sides of probes of random signs: A* x_i as a sum over panels where A
// offers it, and otherwise from the vectors, which free frees.
func (l *implicit) signs(dev array.Device, x hutch.Signs) (_ rightSide, free func()) {
	panels := linops.StructureOf(l.op).Panels
	if panels.Accumulate == nil {
		w := dev.Alloc(x.K, x.Dim)
		x.Draw(w, 0)
		return l.of(w), w.Free
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
func (l *implicit) Moments() hutch.Moments {
	known := linops.StructureOf(l.op)
	if l.f != nil || l.saddle != nil || l.reduced != nil || l.dim == 0 || known.Panels.Accumulate == nil ||
		known.Normal == nil {
		return hutch.Moments{}
	}
	values := l.vectors()*l.dim + known.Panels.Rows
	if l.moving != nil {
		values += l.moving.Len()
	}
	return hutch.Moments{Compute: l.moments, Bytes: 8 * int64(values)}
}

func (l *implicit) moments(ctx context.Context, dev array.Device, x hutch.Signs, share float64, quad, norm2,
	left []float64) error {
	goal := goal{residual: math.Inf(1), form: share * l.tighter}
	node, err := l.node(ctx, goal.form)
	if err != nil {
		return err
	}
	from, free := l.signs(dev, x)
	defer free()
	c := l.newCG(dev, from, goal, node)
	defer c.free()
	if err := c.run(ctx); err != nil {
		return err
	}
	c.square(c.q, c.sum)
	dev.Dot(norm2, c.q, c.sum)
	moving := 0.0
	if l.moving != nil {
		moving = float64(l.moving.Len())
	}
	for i := range quad {
		quad[i] = c.probes[i].form/l.eta + moving
		norm2[i] += moving
	}
	c.bounds(left)
	return dev.Err()
}
