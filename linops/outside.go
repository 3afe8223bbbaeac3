package linops

import (
	"surepipe/array"
	"surepipe/linops/internal/product"
	"surepipe/space"
)

// outside is P E on the tangent space of the m x n matrices of rank r at some U S V*, where P sets
// the entries at a set of places to 0. With Z the sparse matrix of (Q V* + U P*)_set,
//
//	A*A (Q, P) = (Q V*V + U P*V - Z V, P U*U + V Q*U - Z* U),
//
// O((m + n) r^2 + |set| r) flops where A and A* take O(m n r).
type outside struct {
	base
	low *lowRank
	set *Places
}

// OutsideOf returns P E for a tangent space of low-rank matrices, all of it on dev, where P sets
// the entries in a set to 0. It panics for other spaces. The space and the set must outlive the
// result.
func OutsideOf(dev array.Device, t space.Space, set *Places) Restricted {
	if t.Form().Kind != space.FixedRank {
		panic("linops: OutsideOf a space that is no tangent space of low-rank matrices")
	}
	a := &outside{low: newLowRank(dev, t), set: set}
	a.base = base{name: "outside of a set", d: a.low.d, p: a.low.p, run: a.multiply}
	a.Own(a.low)
	a.structure = Complete(a, Structure{Normal: a.normal, Panels: Panels{Rows: set.Panel(), Accumulate: a.accumulate}})
	return a
}

func (a *outside) multiply(w product.Direction, dst, x array.Batch) {
	if w == product.Forward {
		a.low.Forward(dst, x)
		a.set.Add(dst, -1, dst)
		return
	}
	a.low.Adjoint(dst, x)
	inside := dst.Device().Alloc(x.K(), a.set.Len())
	defer inside.Free()
	a.set.Gather(inside, x)
	a.subtract(dst, inside)
}

func (a *outside) accumulate(dst, z array.Batch, from int) {
	a.set.Clear(z, from)
	dev, cols, r := dst.Device(), a.low.Shape.Cols, a.low.Rank
	i, j := from/cols, (from+z.N())/cols
	part := array.Shape{Rows: j - i, Cols: cols}
	q, p := a.low.sides(dst)
	dev.GemmEach(false, false, 1, z, part, a.low.V, array.Shape{Rows: cols, Cols: r}, 1, q.Cols(i*r, j*r))
	dev.GemmEach(true, false, 1, z, part, a.low.U.Cols(i*r, j*r), array.Shape{Rows: j - i, Cols: r}, 1, p)
}

// subtract sets dst = dst - E* of the matrices with the given entries in the set.
func (a *outside) subtract(dst, inside array.Batch) {
	if a.set.Len() > 0 {
		a.low.spread(dst, -1, a.set.Pattern(), inside, 1)
	}
}

func (a *outside) normal(dst, b array.Batch) {
	product.CheckNormal(a.name, a.p, dst, b)
	a.low.normal(dst, b)
	if a.set.Len() == 0 {
		return
	}
	dev := dst.Device()
	inside := dev.Alloc(b.K(), a.set.Len())
	defer inside.Free()
	a.low.sample(inside, a.set.Pattern(), 0, b)
	a.subtract(dst, inside)
}
