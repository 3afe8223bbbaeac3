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
	*embedding
	tangent
	uu, vv array.Batch // U*U and V*V
}

func newLowRank(dev array.Device, t space.Space) *lowRank {
	f := t.Form()
	r2 := f.Rank * f.Rank
	a := &lowRank{embedding: newEmbedding(t), tangent: tangent{f}, uu: dev.Alloc(1, r2), vv: dev.Alloc(1, r2)}
	su, sv := a.factors()
	dev.GemmEach(true, false, 1, a.U, su, a.U, su, 0, a.uu)
	dev.GemmEach(true, false, 1, a.V, sv, a.V, sv, 0, a.vv)
	a.Hold(a.uu, a.vv) // the factors belong to the space
	a.structure.Normal = a.normal
	return a
}

// tangent is the form of a tangent space of the m x n matrices of rank r.
type tangent struct{ space.Form }

func (a tangent) len() int { return (a.Shape.Rows + a.Shape.Cols) * a.Rank }

func (a tangent) sides(b array.Batch) (q, p array.Batch) {
	m := a.Shape.Rows * a.Rank
	return b.Cols(0, m), b.Cols(m, a.len())
}

func (a tangent) factors() (u, v array.Shape) {
	return array.Shape{Rows: a.Shape.Rows, Cols: a.Rank}, array.Shape{Rows: a.Shape.Cols, Cols: a.Rank}
}

// sample sets z, or adds to it with beta = 1, the entries of Q V* + U P* at the places of a pattern.
func (a tangent) sample(z array.Batch, places array.Pattern, beta float64, b array.Batch) {
	q, p := a.sides(b)
	z.Device().SampleProduct(z, places, 1, q, a.V, beta)
	z.Device().SampleProduct(z, places, 1, a.U, p, 1)
}

// spread sets b = beta b + alpha (Z V, Z* U), where Z is the sparse matrix of the entries z at the places of a
// pattern.
func (a tangent) spread(b array.Batch, alpha float64, places array.Pattern, z array.Batch, beta float64) {
	q, p := a.sides(b)
	b.Device().SpreadProduct(false, alpha, places, z, a.V, beta, q)
	b.Device().SpreadProduct(true, alpha, places, z, a.U, beta, p)
}

func (a *lowRank) normal(dst, b array.Batch) {
	product.CheckNormal("tangent space", a.len(), dst, b)
	dev, k, r := dst.Device(), b.K(), a.Rank
	q, p := a.sides(b)
	dq, dp := a.sides(dst)
	su, sv := a.factors()
	rr := array.Shape{Rows: r, Cols: r}
	pv, qu := dev.Alloc(k, r*r), dev.Alloc(k, r*r)
	dev.GemmEach(true, false, 1, p, sv, a.V, sv, 0, pv)
	dev.GemmEach(true, false, 1, q, su, a.U, su, 0, qu)
	dev.GemmEach(false, false, 1, q, su, a.vv, rr, 0, dq)
	dev.GemmEach(false, false, 1, a.U, su, pv, rr, 1, dq)
	dev.GemmEach(false, false, 1, p, sv, a.uu, rr, 0, dp)
	dev.GemmEach(false, false, 1, a.V, sv, qu, rr, 1, dp)
	array.Free(pv, qu)
}

// lowRankPlusSparse is (Q, P, s) -> Q V* + U P* + S, or with s before (Q, P), where S is the sparse
// matrix of the entries s: [I I] on a tangent space and a set of coordinates. The two share few
// numbers,
//
//	A*A (Q, P, s) = (Q V*V + U P*V + S V, P U*U + V Q*U + S* U, s + (Q V* + U P*)_set),
//
// O((m + n) r^2 + |set| r) flops where A and A* take O(m n r).
type lowRankPlusSparse struct {
	base
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
	low, sparse := shares[0], shares[1]
	sparseFirst := sparse.Form().Kind == space.FixedRank
	if sparseFirst {
		low, sparse = sparse, low
	}
	shape, set := low.Form().Shape, sparse.Form().Set
	if low.Form().Kind != space.FixedRank || sparse.Form().Kind != space.Subset {
		return nil
	}
	a := &lowRankPlusSparse{low: newLowRank(dev, low), sparseFirst: sparseFirst,
		pattern: dev.NewPattern(shape.Rows, shape.Cols, set), set: dev.NewIndex(set)}
	a.base = base{name: "low rank plus sparse", d: a.low.d, p: a.low.p + len(set), run: a.multiply}
	a.Own(a.low)
	a.Hold(a.pattern, a.set)
	a.structure.Normal = a.normal
	return a
}

func (a *lowRankPlusSparse) sides(b array.Batch) (low, s array.Batch) {
	n, e := a.low.len(), a.set.Len()
	if a.sparseFirst {
		return b.Cols(e, e+n), b.Cols(0, e)
	}
	return b.Cols(0, n), b.Cols(n, n+e)
}

func (a *lowRankPlusSparse) multiply(w product.Direction, dst, x array.Batch) {
	dev := dst.Device()
	if w == product.Adjoint {
		low, s := a.sides(dst)
		a.low.Adjoint(low, x)
		dev.Gather(s, x, a.set)
		return
	}
	low, s := a.sides(x)
	sparse := dev.Alloc(x.K(), a.d)
	dev.Scatter(sparse, s, a.set)
	a.low.Forward(dst, low)
	dev.Lin(dst, 1, dst, 1, sparse)
	sparse.Free()
}

func (a *lowRankPlusSparse) normal(dst, b array.Batch) {
	product.CheckNormal(a.name, a.p, dst, b)
	low, s := a.sides(b)
	dlow, ds := a.sides(dst)
	a.low.normal(dlow, low)
	a.low.spread(dlow, 1, a.pattern, s, 1)
	dst.Device().Copy(ds, s)
	a.low.sample(ds, a.pattern, 1, low)
}

// sampledTangent is a selection of a matrix's entries on a tangent space. It computes only the
// selected places. The pattern belongs to the selection, and the factors to the space.
//
//	Forward: dst = (Q V* + U P*)_places        Adjoint: dst = (Z V, Z* U)
//
// with Z the sparse matrix of the entries z: 4 d r flops each, where E alone takes 4 m n r. Where most places are
// selected whole matrices take less time.
type sampledTangent struct {
	base
	tangent
	pattern array.Pattern
	order   array.Index // A's row of every place, or nil
	whole   array.Index // the place of every row of A, where whole matrices are computed; else nil
}

const (
	// mostly is the share of places from which on products of whole matrices take less time: those of some places
	// have a third of the speed.
	mostly = 0.4
	// wholeValues is the number of values up to which whole matrices are computed together.
	wholeValues = 1 << 20
)

func (a *sampledTangent) multiply(w product.Direction, dst, x array.Batch) {
	if a.whole != nil {
		step := max(1, wholeValues/a.Shape.Len())
		for i := 0; i < x.K(); i += step {
			j := min(i+step, x.K())
			a.wholly(w, dst.Rows(i, j), x.Rows(i, j))
		}
		return
	}
	z, dev := dst, dst.Device() // in the order of the places
	if w == product.Adjoint {
		z = x
	}
	if a.order != nil {
		z = dev.Alloc(x.K(), a.d)
		defer z.Free()
	}
	if w == product.Adjoint {
		if a.order != nil {
			dev.Gather(z, x, a.order)
		}
		a.spread(dst, 1, a.pattern, z, 0)
		return
	}
	a.sample(z, a.pattern, 0, x)
	if a.order != nil {
		dev.Scatter(dst, z, a.order)
	}
}

func (a *sampledTangent) wholly(w product.Direction, dst, x array.Batch) {
	dev := dst.Device()
	su, sv := a.factors()
	z := dev.Alloc(x.K(), a.Shape.Len())
	defer z.Free()
	if w == product.Adjoint {
		q, p := a.sides(dst)
		dev.Scatter(z, x, a.whole)
		dev.GemmEach(false, false, 1, z, a.Shape, a.V, sv, 0, q)
		dev.GemmEach(true, false, 1, z, a.Shape, a.U, su, 0, p)
		return
	}
	q, p := a.sides(x)
	dev.GemmEach(false, true, 1, q, su, a.V, sv, 0, z)
	dev.GemmEach(false, true, 1, a.U, su, p, sv, 1, z)
	dev.Gather(dst, z, a.whole)
}
