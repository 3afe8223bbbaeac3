package linops

import (
	"fmt"

	"surepipe/array"
)

// Part is the space to which one block of coordinates is confined: the coordinates Set, in
// increasing order, or where Rank is positive the tangent space of [TangentRestrictor].
type Part struct {
	Set []int

	Shape array.Shape
	Rank  int
	U, V  array.Batch // as for RestrictTangent
}

// BlockRestrictor is an Operator on blocks of coordinates, b = (b1, b2, ...), that can confine
// each to a space of its own, as the derivative of a sum of regularizers does.
type BlockRestrictor interface {
	Operator
	// RestrictBlocks returns b -> A (E1 b1, E2 b2, ...), with E_i the columns of I in a part's
	// set, or (Q, P) -> Q V* + U P*, on dev, where U and V are. It returns nil where the
	// operator turns out to have a part that cannot, or other blocks.
	RestrictBlocks(dev array.Device, parts []Part) Restricted
}

// NormalMap is an Operator for which A*A is cheaper than A and A*.
type NormalMap interface {
	Operator
	// ApplyNormal sets dst_i = A*A b_i for every vector of the batch. dst must not be b.
	ApplyNormal(dst, b array.Batch)
}

// RestrictBlocks confines the sum of a matrix of low rank and a sparse one, [I I], to a
// tangent space and a set of coordinates, in this order. It returns nil for any other operator.
func (h *hstack) RestrictBlocks(dev array.Device, parts []Part) Restricted {
	if len(h.ops) != 2 || len(parts) != 2 || parts[0].Rank == 0 || parts[1].Rank > 0 || parts[0].Shape.Len() != h.d {
		return nil
	}
	for _, a := range h.ops {
		if _, ok := a.(identity); !ok {
			return nil
		}
	}
	t, set := parts[0], parts[1].Set
	a := &lowRankPlusSparse{
		shape: t.Shape, r: t.Rank, u: t.U, v: t.V,
		uu: dev.Alloc(1, t.Rank*t.Rank), vv: dev.Alloc(1, t.Rank*t.Rank),
		pattern: dev.NewPattern(t.Shape.Rows, t.Shape.Cols, set), set: dev.NewIndex(set),
	}
	su, sv := a.factors()
	dev.GemmEach(true, false, 1, a.u, su, a.u, su, 0, a.uu)
	dev.GemmEach(true, false, 1, a.v, sv, a.v, sv, 0, a.vv)
	return a
}

// lowRankPlusSparse is (Q, P, s) -> Q V* + U P* + S with S the sparse matrix of the
// entries s. Between the two spaces there are few numbers,
//
//	A*A (Q, P, s) = (Q V*V + U P*V + S V, P U*U + V Q*U + S* U, s + (Q V* + U P*)_set),
//
// O((m + n) r^2 + |set| r) flops where A and A* take O(m n r).
type lowRankPlusSparse struct {
	shape   array.Shape
	r       int
	u, v    array.Batch
	uu, vv  array.Batch // U*U and V*V
	pattern array.Pattern
	set     array.Index
}

func (a *lowRankPlusSparse) Dims() (d, p int) {
	return a.shape.Len(), (a.shape.Rows+a.shape.Cols)*a.r + a.set.Len()
}

func (a *lowRankPlusSparse) parts(b array.Batch) (q, p, s array.Batch) {
	m, n := a.shape.Rows*a.r, a.shape.Cols*a.r
	return b.Cols(0, m), b.Cols(m, m+n), b.Cols(m+n, m+n+a.set.Len())
}

func (a *lowRankPlusSparse) factors() (u, v array.Shape) {
	return array.Shape{Rows: a.shape.Rows, Cols: a.r}, array.Shape{Rows: a.shape.Cols, Cols: a.r}
}

func (a *lowRankPlusSparse) Forward(dst, b array.Batch) {
	d, n := a.Dims()
	checkForward("low rank plus sparse", d, n, dst, b)
	dev := dst.Device()
	q, p, s := a.parts(b)
	su, sv := a.factors()
	sparse := dev.Alloc(b.K(), d)
	defer sparse.Free()
	dev.Scatter(sparse, s, a.set)
	dev.GemmEach(false, true, 1, q, su, a.v, sv, 0, dst)
	dev.GemmEach(false, true, 1, a.u, su, p, sv, 1, dst)
	dev.Lin(dst, 1, dst, 1, sparse)
}

func (a *lowRankPlusSparse) Adjoint(dst, z array.Batch) {
	d, n := a.Dims()
	checkAdjoint("low rank plus sparse", d, n, dst, z)
	dev := dst.Device()
	q, p, s := a.parts(dst)
	su, sv := a.factors()
	dev.GemmEach(false, false, 1, z, a.shape, a.v, sv, 0, q)
	dev.GemmEach(true, false, 1, z, a.shape, a.u, su, 0, p)
	dev.Gather(s, z, a.set)
}

// checkNormalMap panics unless b and dst have p coordinates.
func checkNormalMap(op string, p int, dst, b array.Batch) {
	if dst.K() != b.K() || dst.N() != p || b.N() != p {
		panic(fmt.Sprintf("linops: %s: A*A of %s into %s with p = %d", op, b, dst, p))
	}
}

// ApplyNormal stays within the coordinates.
func (a *lowRankPlusSparse) ApplyNormal(dst, b array.Batch) {
	_, n := a.Dims()
	checkNormalMap("low rank plus sparse", n, dst, b)
	dev, k, r := dst.Device(), b.K(), a.r
	q, p, s := a.parts(b)
	dq, dp, ds := a.parts(dst)
	su, sv := a.factors()
	rr := array.Shape{Rows: r, Cols: r}
	pv, qu := dev.Alloc(k, r*r), dev.Alloc(k, r*r)
	dev.GemmEach(true, false, 1, p, sv, a.v, sv, 0, pv)
	dev.GemmEach(true, false, 1, q, su, a.u, su, 0, qu)
	dev.GemmEach(false, false, 1, q, su, a.vv, rr, 0, dq)
	dev.GemmEach(false, false, 1, a.u, su, pv, rr, 1, dq)
	dev.GemmEach(false, false, 1, p, sv, a.uu, rr, 0, dp)
	dev.GemmEach(false, false, 1, a.v, sv, qu, rr, 1, dp)
	dev.SpreadProduct(false, 1, a.pattern, s, a.v, 1, dq)
	dev.SpreadProduct(true, 1, a.pattern, s, a.u, 1, dp)
	dev.Copy(ds, s)
	dev.SampleProduct(ds, a.pattern, 1, q, a.v, 1)
	dev.SampleProduct(ds, a.pattern, 1, a.u, p, 1)
	pv.Free()
	qu.Free()
}

// Bytes counts the set and U*U and V*V; the factors are the caller's.
func (a *lowRankPlusSparse) Bytes() int64 {
	return a.set.Bytes() + 24*int64(a.set.Len()) + a.uu.Bytes() + a.vv.Bytes()
}

// Release frees them.
func (a *lowRankPlusSparse) Release() {
	a.uu.Free()
	a.vv.Free()
	a.pattern.Free()
	a.set.Free()
}
