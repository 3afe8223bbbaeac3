package linops

import (
	"surepipe/array"
	"surepipe/linops/internal/product"
	"surepipe/space"
)

// lowRank is (Q, P) -> Q V* + U P*, the identity on the tangent space of the m x n matrices of rank
// r at some U S V*. With the products of the factors,
//
//	A*A (Q, P) = (Q V*V + U P*V, P U*U + V Q*U),
//
// O((m + n) r^2) flops where A and A* take O(m n r).
type lowRank struct {
	knowing
	shape  array.Shape
	r      int
	u, v   array.Batch
	uu, vv array.Batch // U*U and V*V
}

// newLowRank computes the products of the factors, on dev.
func newLowRank(dev array.Device, f space.Form) *lowRank {
	a := &lowRank{shape: f.Shape, r: f.Rank, u: f.U, v: f.V, uu: dev.Alloc(1, f.Rank*f.Rank),
		vv: dev.Alloc(1, f.Rank*f.Rank)}
	su, sv := a.factors()
	dev.GemmEach(true, false, 1, a.u, su, a.u, su, 0, a.uu)
	dev.GemmEach(true, false, 1, a.v, sv, a.v, sv, 0, a.vv)
	a.structure.Normal = a.normal
	return a
}

func (a *lowRank) Dims() (d, p int) { return a.shape.Len(), a.len() }

// len is the number of coordinates.
func (a *lowRank) len() int { return (a.shape.Rows + a.shape.Cols) * a.r }

// sides are Q and P.
func (a *lowRank) sides(b array.Batch) (q, p array.Batch) {
	m := a.shape.Rows * a.r
	return b.Cols(0, m), b.Cols(m, a.len())
}

// factors are the shapes of U and V.
func (a *lowRank) factors() (u, v array.Shape) {
	return array.Shape{Rows: a.shape.Rows, Cols: a.r}, array.Shape{Rows: a.shape.Cols, Cols: a.r}
}

func (a *lowRank) Forward(dst, b array.Batch) {
	d, n := a.Dims()
	product.CheckForward("tangent space", d, n, dst, b)
	dev := dst.Device()
	q, p := a.sides(b)
	su, sv := a.factors()
	dev.GemmEach(false, true, 1, q, su, a.v, sv, 0, dst)
	dev.GemmEach(false, true, 1, a.u, su, p, sv, 1, dst)
}

func (a *lowRank) Adjoint(dst, z array.Batch) {
	d, n := a.Dims()
	product.CheckAdjoint("tangent space", d, n, dst, z)
	dev := dst.Device()
	q, p := a.sides(dst)
	su, sv := a.factors()
	dev.GemmEach(false, false, 1, z, a.shape, a.v, sv, 0, q)
	dev.GemmEach(true, false, 1, z, a.shape, a.u, su, 0, p)
}

func (a *lowRank) normal(dst, b array.Batch) {
	product.CheckNormal("tangent space", a.len(), dst, b)
	dev, k, r := dst.Device(), b.K(), a.r
	q, p := a.sides(b)
	dq, dp := a.sides(dst)
	su, sv := a.factors()
	rr := array.Shape{Rows: r, Cols: r}
	pv, qu := dev.Alloc(k, r*r), dev.Alloc(k, r*r)
	dev.GemmEach(true, false, 1, p, sv, a.v, sv, 0, pv)
	dev.GemmEach(true, false, 1, q, su, a.u, su, 0, qu)
	dev.GemmEach(false, false, 1, q, su, a.vv, rr, 0, dq)
	dev.GemmEach(false, false, 1, a.u, su, pv, rr, 1, dq)
	dev.GemmEach(false, false, 1, p, sv, a.uu, rr, 0, dp)
	dev.GemmEach(false, false, 1, a.v, sv, qu, rr, 1, dp)
	pv.Free()
	qu.Free()
}

// Bytes counts U*U and V*V; the factors are the space's.
func (a *lowRank) Bytes() int64 { return a.uu.Bytes() + a.vv.Bytes() }

// Release frees them.
func (a *lowRank) Release() {
	a.uu.Free()
	a.vv.Free()
}

// lowRankPlusSparse is (Q, P, s) -> Q V* + U P* + S, or with s before (Q, P), where S is the sparse
// matrix of the entries s: [I I] on a tangent space and a set of coordinates. The two share few
// numbers,
//
//	A*A (Q, P, s) = (Q V*V + U P*V + S V, P U*U + V Q*U + S* U, s + (Q V* + U P*)_set),
//
// O((m + n) r^2 + |set| r) flops where A and A* take O(m n r).
type lowRankPlusSparse struct {
	knowing
	low         *lowRank
	sparseFirst bool
	pattern     array.Pattern
	set         array.Index
}

// lowRankBesideSparse is [I I] on a tangent space and a set of coordinates, in either order; nil
// for other operators and spaces.
func lowRankBesideSparse(dev array.Device, parts []known, shares []space.Space) Restricted {
	if len(parts) != 2 || !parts[0].s.Identity || !parts[1].s.Identity {
		return nil
	}
	tangent, subset := shares[0].Form(), shares[1].Form()
	sparseFirst := subset.Kind == space.FixedRank
	if sparseFirst {
		tangent, subset = subset, tangent
	}
	if tangent.Kind != space.FixedRank || subset.Kind != space.Subset {
		return nil
	}
	a := &lowRankPlusSparse{
		low: newLowRank(dev, tangent), sparseFirst: sparseFirst,
		pattern: dev.NewPattern(tangent.Shape.Rows, tangent.Shape.Cols, subset.Set), set: dev.NewIndex(subset.Set),
	}
	a.structure.Normal = a.normal
	return a
}

func (a *lowRankPlusSparse) Dims() (d, p int) {
	d, p = a.low.Dims()
	return d, p + a.set.Len()
}

// sides are (Q, P) and s.
func (a *lowRankPlusSparse) sides(b array.Batch) (low, s array.Batch) {
	n, e := a.low.len(), a.set.Len()
	if a.sparseFirst {
		return b.Cols(e, e+n), b.Cols(0, e)
	}
	return b.Cols(0, n), b.Cols(n, n+e)
}

func (a *lowRankPlusSparse) Forward(dst, b array.Batch) {
	d, n := a.Dims()
	product.CheckForward("low rank plus sparse", d, n, dst, b)
	dev := dst.Device()
	low, s := a.sides(b)
	sparse := dev.Alloc(b.K(), d)
	dev.Scatter(sparse, s, a.set)
	a.low.Forward(dst, low)
	dev.Lin(dst, 1, dst, 1, sparse)
	sparse.Free()
}

func (a *lowRankPlusSparse) Adjoint(dst, z array.Batch) {
	d, n := a.Dims()
	product.CheckAdjoint("low rank plus sparse", d, n, dst, z)
	low, s := a.sides(dst)
	a.low.Adjoint(low, z)
	dst.Device().Gather(s, z, a.set)
}

// normal is computed in the coordinates alone.
func (a *lowRankPlusSparse) normal(dst, b array.Batch) {
	_, n := a.Dims()
	product.CheckNormal("low rank plus sparse", n, dst, b)
	dev := dst.Device()
	low, s := a.sides(b)
	dlow, ds := a.sides(dst)
	a.low.normal(dlow, low)
	q, p := a.low.sides(low)
	dq, dp := a.low.sides(dlow)
	dev.SpreadProduct(false, 1, a.pattern, s, a.low.v, 1, dq)
	dev.SpreadProduct(true, 1, a.pattern, s, a.low.u, 1, dp)
	dev.Copy(ds, s)
	dev.SampleProduct(ds, a.pattern, 1, q, a.low.v, 1)
	dev.SampleProduct(ds, a.pattern, 1, a.low.u, p, 1)
}

// Bytes counts the set and the products of the factors; the factors are the space's.
func (a *lowRankPlusSparse) Bytes() int64 {
	return a.set.Bytes() + 24*int64(a.set.Len()) + a.low.Bytes()
}

// Release frees them.
func (a *lowRankPlusSparse) Release() {
	a.low.Release()
	a.pattern.Free()
	a.set.Free()
}

// sampledTangent is a selection of a matrix's entries on a tangent space. It computes only the
// selected places,
//
//	Forward: dst = (Q V* + U P*)_places        Adjoint: dst = (Z V, Z* U)
//
// with Z the sparse matrix of the entries z: 4 d r flops each, where E alone takes 4 m n r.
type sampledTangent struct {
	knowing
	pattern array.Pattern
	order   array.Index // A's row of every place, or nil
	shape   array.Shape
	rank    int
	u, v    array.Batch
}

func newSampledTangent(pattern array.Pattern, order array.Index, f space.Form) *sampledTangent {
	return &sampledTangent{pattern: pattern, order: order, shape: f.Shape, rank: f.Rank, u: f.U, v: f.V}
}

func (a *sampledTangent) Dims() (d, p int) {
	return a.pattern.Len(), (a.shape.Rows + a.shape.Cols) * a.rank
}

func (a *sampledTangent) sides(b array.Batch) (q, p array.Batch) {
	m, n := a.shape.Rows*a.rank, a.shape.Cols*a.rank
	return b.Cols(0, m), b.Cols(m, m+n)
}

// sample and spread are A and A* up to the order of the places.
func (a *sampledTangent) sample(z, b array.Batch) {
	q, p := a.sides(b)
	dev := z.Device()
	dev.SampleProduct(z, a.pattern, 1, q, a.v, 0)
	dev.SampleProduct(z, a.pattern, 1, a.u, p, 1)
}

func (a *sampledTangent) spread(b, z array.Batch) {
	q, p := a.sides(b)
	dev := z.Device()
	dev.SpreadProduct(false, 1, a.pattern, z, a.v, 0, q)
	dev.SpreadProduct(true, 1, a.pattern, z, a.u, 0, p)
}

func (a *sampledTangent) Forward(dst, b array.Batch) {
	d, n := a.Dims()
	product.CheckForward("Selection on a tangent space", d, n, dst, b)
	if a.order == nil {
		a.sample(dst, b)
		return
	}
	dev := dst.Device()
	z := dev.Alloc(b.K(), d)
	a.sample(z, b)
	dev.Scatter(dst, z, a.order)
	z.Free()
}

func (a *sampledTangent) Adjoint(dst, z array.Batch) {
	d, n := a.Dims()
	product.CheckAdjoint("Selection on a tangent space", d, n, dst, z)
	if a.order == nil {
		a.spread(dst, z)
		return
	}
	dev := dst.Device()
	sorted := dev.Alloc(z.K(), d)
	dev.Gather(sorted, z, a.order)
	a.spread(dst, sorted)
	sorted.Free()
}

// Bytes is 0: the pattern is the selection's and the factors are the space's.
func (a *sampledTangent) Bytes() int64 { return 0 }

// Release does nothing.
func (a *sampledTangent) Release() {}
