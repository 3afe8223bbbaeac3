package linops

import (
	"surepipe/array"
	"surepipe/space"
)

// outside is P E on the tangent space of the m x n matrices of rank r at some U S V*, where P sets
// the entries at a set of places to 0. With Z the sparse matrix of (Q V* + U P*)_set,
//
//	A*A (Q, P) = (Q V*V + U P*V - Z V, P U*U + V Q*U - Z* U),
//
// O((m + n) r^2 + |set| r) flops where A and A* take O(m n r).
type outside struct {
	knowing
	low     *lowRank
	pattern array.Pattern
	set     array.Index
}

// OutsideOf returns P E for a tangent space of low-rank matrices, all of it on dev, where P sets
// the entries at the given places, in increasing order, to 0. It panics for other spaces. The space
// must outlive the result.
func OutsideOf(dev array.Device, t space.Space, set []int) Restricted {
	f := t.Form()
	if f.Kind != space.FixedRank {
		panic("linops: OutsideOf a space that is no tangent space of low-rank matrices")
	}
	a := &outside{low: newLowRank(dev, f), pattern: dev.NewPattern(f.Shape.Rows, f.Shape.Cols, set), set: dev.NewIndex(set)}
	a.structure = complete(a, Structure{Normal: a.normal})
	return a
}

func (a *outside) Dims() (d, p int) { return a.low.Dims() }

func (a *outside) Forward(dst, b array.Batch) {
	d, n := a.Dims()
	checkForward("outside of a set", d, n, dst, b)
	a.low.Forward(dst, b)
	if a.set.Len() == 0 {
		return
	}
	dev := dst.Device()
	inside, all := dev.Alloc(b.K(), a.set.Len()), dev.Alloc(b.K(), d)
	defer inside.Free()
	defer all.Free()
	dev.Gather(inside, dst, a.set)
	dev.Scatter(all, inside, a.set)
	dev.Lin(dst, 1, dst, -1, all)
}

func (a *outside) Adjoint(dst, z array.Batch) {
	d, n := a.Dims()
	checkAdjoint("outside of a set", d, n, dst, z)
	a.low.Adjoint(dst, z)
	dev := dst.Device()
	inside := dev.Alloc(z.K(), a.set.Len())
	defer inside.Free()
	if a.set.Len() > 0 {
		dev.Gather(inside, z, a.set)
	}
	a.subtract(dst, inside)
}

// subtract sets dst = dst - E* of the matrices with the given entries in the set.
func (a *outside) subtract(dst, inside array.Batch) {
	if a.set.Len() == 0 {
		return
	}
	dev := dst.Device()
	q, p := a.low.sides(dst)
	dev.SpreadProduct(false, -1, a.pattern, inside, a.low.v, 1, q)
	dev.SpreadProduct(true, -1, a.pattern, inside, a.low.u, 1, p)
}

// normal is computed in the coordinates alone.
func (a *outside) normal(dst, b array.Batch) {
	_, n := a.Dims()
	checkNormal("outside of a set", n, dst, b)
	a.low.normal(dst, b)
	if a.set.Len() == 0 {
		return
	}
	dev := dst.Device()
	inside := dev.Alloc(b.K(), a.set.Len())
	defer inside.Free()
	q, p := a.low.sides(b)
	dev.SampleProduct(inside, a.pattern, 1, q, a.low.v, 0)
	dev.SampleProduct(inside, a.pattern, 1, a.low.u, p, 1)
	a.subtract(dst, inside)
}

// Bytes counts the set and the products of the factors; the factors are the space's.
func (a *outside) Bytes() int64 {
	return a.set.Bytes() + 24*int64(a.set.Len()) + a.low.Bytes()
}

// Release frees them.
func (a *outside) Release() {
	a.low.Release()
	a.pattern.Free()
	a.set.Free()
}
