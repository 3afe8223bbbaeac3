package lowrank

import (
	"fmt"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
)

// multiply sets dst_i to K z_i for z_i with Q* U = 0, up to what the coordinates leave open: a part of Q
// within U. They are different batches.
func (k *NuclearCurvature) multiply(dst, z array.Batch) {
	vector.CheckApply("curvature of the nuclear norm", k.Len(), dst, z)
	if z.K() == 0 {
		return
	}
	dev, count, r := z.Device(), z.K(), k.r
	zq, zp := k.parts(z)
	dq, dp := k.parts(dst)
	cv, rr := array.Shape{Rows: k.n, Cols: r}, array.Shape{Rows: r, Cols: r}
	mem := dev.Alloc(4*count, r*r)
	defer mem.Free()
	turned, along, inV, tmp := mem.Rows(0, count), mem.Rows(count, 2*count), mem.Rows(2*count, 3*count),
		mem.Rows(3*count, 4*count)
	dev.GemmEach(true, false, 1, k.v1, cv, zp, cv, 0, inV)
	dev.GemmEach(true, false, 1, inV, rr, k.identity, rr, 0, turned)
	combine(along, tmp, k.within, inV, k.across, turned)
	dev.Lin(dst, k.lambda, z, 0, array.Batch{})
	k.normal.SubMul(dq, dp, zq, zp)
	dev.GemmEach(false, false, 1, k.v1, cv, along, rr, 1, dp)
}

// tangentFrame is the factors U F^{1/2}, m x r, and V F^{1/2}, n x r, row-major on the host, that coordinates
// (Q, P) of a tangent space refer to.
type tangentFrame struct {
	r    int
	u, v []float64
}

// Model is the model with this curvature, which it takes over.
func (k *NuclearCurvature) Model(margin func(v array.Batch) float64) *prox.Model {
	return &prox.Model{Space: k.Space(), Curvature: k, Margin: margin, Carried: &prox.Carried{
		Weight: k.lambda,
		Frame:  func() any { return &tangentFrame{k.r, k.u.ToHost(), k.v.ToHost()} },
		From: func(frame any) func(dst, z array.Batch) {
			before, ok := frame.(*tangentFrame)
			if !ok || len(before.u) != k.m*before.r || len(before.v) != k.n*before.r {
				return nil
			}
			return func(dst, z array.Batch) { k.carry(dst, z, before) }
		},
		Multiply: k.multiply,
	}}
}

// carry sets dst_i to the coordinates, with Q* U = 0, of the orthogonal projection on T of the matrix
// Z_i = Q_0 V_0* + U_0 P_0* that has the coordinates z_i with another frame U_0, V_0 of a matrix of the same
// size:
//
//	Q = (I - U F^{-1} U*) Z V F^{-1},   P = Z* U F^{-1},
//
// for U and V with the factor F^{1/2}.
func (k *NuclearCurvature) carry(dst, z array.Batch, from *tangentFrame) {
	m, n, r, s := k.m, k.n, k.r, from.r
	if z.N() != (m+n)*s || dst.N() != k.Len() || z.K() != dst.K() {
		panic(fmt.Sprintf("prox: coordinates %s with a frame of rank %d to %s of a %d x %d matrix at rank %d", z, s,
			dst, m, n, r))
	}
	dev, count := z.Device(), z.K()
	zq, zp := z.Cols(0, m*s), z.Cols(m*s, (m+n)*s)
	dq, dp := k.parts(dst)
	cu, cv := array.Shape{Rows: m, Cols: r}, array.Shape{Rows: n, Cols: r}
	ou, ov := array.Shape{Rows: m, Cols: s}, array.Shape{Rows: n, Cols: s}
	sr, rr := array.Shape{Rows: s, Cols: r}, array.Shape{Rows: r, Cols: r}
	frame := dev.Alloc(1, (m+n)*s)
	defer frame.Free()
	u0, v0 := frame.Cols(0, m*s), frame.Cols(m*s, (m+n)*s)
	dev.Upload(u0, from.u)
	dev.Upload(v0, from.v)
	cross, own := dev.Alloc(2*s, r), dev.Alloc(count*s, r)
	defer cross.Free()
	defer own.Free()
	inU, inV := cross.Rows(0, s).Reshape(1, s*r), cross.Rows(s, 2*s).Reshape(1, s*r)
	dev.GemmEach(true, false, 1, u0, ou, k.u1, cu, 0, inU)
	dev.GemmEach(true, false, 1, v0, ov, k.v1, cv, 0, inV)
	dev.Mul(cross, cross, k.inverse)
	of := own.Reshape(count, s*r)

	dev.GemmEach(true, false, 1, zq, ou, k.u1, cu, 0, of)
	dev.Mul(own, own, k.inverse)
	dev.GemmEach(false, false, 1, v0, ov, of, sr, 0, dp)
	dev.GemmEach(false, false, 1, zp, ov, inU, sr, 1, dp)

	dev.GemmEach(true, false, 1, zp, ov, k.v1, cv, 0, of)
	dev.Mul(own, own, k.inverse)
	dev.GemmEach(false, false, 1, u0, ou, of, sr, 0, dq)
	dev.GemmEach(false, false, 1, zq, ou, inV, sr, 1, dq)
	within := dev.Alloc(count, r*r)
	defer within.Free()
	dev.GemmEach(true, false, 1, k.u1, cu, dq, cu, 0, within)
	dev.GemmEach(false, false, -1, k.u1, cu, within, rr, 1, dq)
}
