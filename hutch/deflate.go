package hutch

import (
	"fmt"

	"surepipe/array"
)

// Deflate projects every vector of g away from an orthonormal basis,
//
//	dst_i = (I - QQ*) g_i = g_i - sum_j <q_j, g_i> q_j.
//
// The projection is done twice, which makes dst orthogonal to the basis to
// rounding in proportion to ||g_i||. dst and g are k x d and may be the same batch; q
// is r x d with r >= 0, and overlaps neither. Without basis vectors dst = g.
// Vector i of dst depends, to the last bit, on g_i and q alone.
func Deflate(dst, g, q array.Batch) {
	if dst.K() != g.K() || dst.N() != g.N() || (q.K() > 0 && q.N() != g.N()) {
		panic(fmt.Sprintf("hutch: Deflate of %s by a basis %s into %s", g, q, dst))
	}
	dev := dst.Device()
	if q.K() == 0 || g.K() == 0 {
		dev.Copy(dst, g)
		return
	}
	if g.K() == 1 {
		// A matrix product with one row may round differently from one with more.
		pair := dev.Alloc(2, g.N())
		defer pair.Free()
		dev.Copy(pair, g)
		Deflate(pair, pair, q)
		dev.Copy(dst, pair.Rows(0, 1))
		return
	}
	inner, span := dev.Alloc(g.K(), q.K()), dev.Alloc(g.K(), g.N())
	defer array.Free(inner, span)
	x := g
	for range 2 {
		dev.Gemm(false, true, 1, x, q, 0, inner)
		dev.Gemm(false, false, 1, inner, q, 0, span)
		dev.Lin(dst, 1, x, -1, span)
		x = dst
	}
}
