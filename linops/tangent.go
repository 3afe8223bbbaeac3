package linops

import "surepipe/array"

// TangentRestrictor is an Operator on matrices that can confine itself to the
// tangent space of the matrices of low rank at some U S V*. A derivative of low rank makes
// everything else irrelevant.
type TangentRestrictor interface {
	Operator
	// RestrictTangent returns A E for E (Q, P) = Q V* + U P*, an operator on
	// R^((m+n) r): U is m x r, V n x r, and so are Q and P, all row-major, in
	// batches of one vector that must outlive the result. It returns nil when the operator
	// turns out to have a part that cannot.
	RestrictTangent(shape array.Shape, rank int, u, v array.Batch) Restricted
}

// sampledTangent is a selection of a matrix's entries, confined to a tangent
// space. In the selected places only,
//
//	Forward: dst = (Q V* + U P*)_places        Adjoint: dst = (Z V, Z* U)
//
// with Z the sparse matrix of entries z: 4 d r flops each, where E by itself takes
// 4 m n r. A*A does without A's order of the places.
type sampledTangent struct {
	pattern array.Pattern
	order   array.Index // A's row of every place, or nil
	shape   array.Shape
	rank    int
	u, v    array.Batch
}

// RestrictTangent confines the selection to a tangent space; nil unless the shape
// has p entries and is the one of every call.
func (a *Selection) RestrictTangent(shape array.Shape, rank int, u, v array.Batch) Restricted {
	pattern, order := a.Pattern(shape)
	if pattern == nil {
		return nil
	}
	return &sampledTangent{pattern, order, shape, rank, u, v}
}

func (a *sampledTangent) Dims() (d, p int) {
	return a.pattern.Len(), (a.shape.Rows + a.shape.Cols) * a.rank
}

func (a *sampledTangent) parts(b array.Batch) (q, p array.Batch) {
	m, n := a.shape.Rows*a.rank, a.shape.Cols*a.rank
	return b.Cols(0, m), b.Cols(m, m+n)
}

// sample and spread are A and A* but for the order of the places.
func (a *sampledTangent) sample(z, b array.Batch) {
	q, p := a.parts(b)
	dev := z.Device()
	dev.SampleProduct(z, a.pattern, 1, q, a.v, 0)
	dev.SampleProduct(z, a.pattern, 1, a.u, p, 1)
}

func (a *sampledTangent) spread(b, z array.Batch) {
	q, p := a.parts(b)
	dev := z.Device()
	dev.SpreadProduct(false, 1, a.pattern, z, a.v, 0, q)
	dev.SpreadProduct(true, 1, a.pattern, z, a.u, 0, p)
}

func (a *sampledTangent) Forward(dst, b array.Batch) {
	d, n := a.Dims()
	checkForward("tangent restriction", d, n, dst, b)
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
	checkAdjoint("tangent restriction", d, n, dst, z)
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

// ApplyNormal samples and spreads.
func (a *sampledTangent) ApplyNormal(dst, b array.Batch) {
	d, n := a.Dims()
	checkNormalMap("tangent restriction", n, dst, b)
	z := dst.Device().Alloc(b.K(), d)
	a.sample(z, b)
	a.spread(dst, z)
	z.Free()
}

// Bytes is 0: the pattern is the selection's and the factors are the caller's.
func (a *sampledTangent) Bytes() int64 { return 0 }

// Release does nothing.
func (a *sampledTangent) Release() {}
