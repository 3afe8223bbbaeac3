package vjp

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// direct solves problems whose regularizer is quadratic, r(b) = c/2 ||b||^2, in
// closed form. With the thin singular value decomposition A = U S V*,
//
//	b(y) = V S/(S^2 + c) U* y,   mu_hat(y) = U S^2/(S^2 + c) U* y = H y,
//
// and the derivative is the hat matrix H itself. For c = 0 singular values
// below max(d, p) eps sigma_1 count as zero: b(y) is then the least squares
// solution of least norm.
type direct struct {
	p     Problem
	o     Options
	ut    array.Batch // r x d: U*
	vt    array.Batch // r x p: V*
	toB   array.Batch // 1 x r: S/(S^2 + c)
	toMu  array.Batch // 1 x r: S^2/(S^2 + c)
	curve float64
}

func newDirect(ctx context.Context, p Problem, o Options) (Solver, error) {
	q, ok := p.R.(prox.Quadratic)
	if !ok {
		return nil, fmt.Errorf("vjp: the direct solver needs a quadratic regularizer; use ista, fista or admm")
	}
	dense, ok := p.A.(linops.Densifier)
	if !ok || dense.Dense() == nil {
		return nil, fmt.Errorf("vjp: the direct solver needs an operator that can be written as a matrix; use fista or admm")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	x := dense.Dense()
	d, dim := x.Dims()
	var svd mat.SVD
	if !svd.Factorize(x, mat.SVDThin) {
		return nil, fmt.Errorf("vjp: the singular value decomposition of the %d x %d operator did not converge", d, dim)
	}
	sigma := svd.Values(nil)
	curve := q.Curvature()
	rank := len(sigma)
	cut := float64(max(d, dim)) * 0x1p-52 * sigma[0]
	for rank > 0 && sigma[rank-1] <= cut {
		rank--
	}
	var u, v mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	s := &direct{p: p, o: o, curve: curve}
	s.ut = uploadRows(p.Device, u.T(), rank)
	s.vt = uploadRows(p.Device, v.T(), rank)
	toB, toMu := make([]float64, rank), make([]float64, rank)
	for i, sv := range sigma[:rank] {
		toB[i] = 1 / (sv + curve/sv)
		toMu[i] = 1 / (1 + curve/sv/sv)
	}
	s.toB, s.toMu = p.Device.Alloc(1, rank), p.Device.Alloc(1, rank)
	p.Device.Upload(s.toB, toB)
	p.Device.Upload(s.toMu, toMu)
	if err := p.Device.Sync(); err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

// uploadRows puts the first rank rows of m on the device.
func uploadRows(dev array.Device, m mat.Matrix, rank int) array.Batch {
	_, n := m.Dims()
	b := dev.Alloc(rank, n)
	dense := mat.DenseCopyOf(m)
	dev.Upload(b, dense.RawMatrix().Data[:rank*n])
	return b
}

// Name is "direct".
func (s *direct) Name() string { return "direct" }

// Release frees the factors.
func (s *direct) Release() {
	for _, b := range []array.Batch{s.ut, s.vt, s.toB, s.toMu} {
		b.Free()
	}
}

// Solve applies the closed form.
func (s *direct) Solve(ctx context.Context, y array.Batch) (*Solution, error) {
	if err := checkY(s.p, y); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dev := s.p.Device
	d, dim := s.p.A.Dims()
	c, t := dev.Alloc(1, s.ut.K()), dev.Alloc(1, s.ut.K())
	defer c.Free()
	defer t.Free()
	dev.Gemm(false, true, 1, y, s.ut, 0, c)
	sol := &Solution{B: dev.Alloc(1, dim), MuHat: dev.Alloc(1, d)}
	dev.Mul(t, c, s.toB)
	dev.Gemm(false, false, 1, t, s.vt, 0, sol.B)
	s.p.A.Forward(sol.MuHat, sol.B)
	sol.Convergence = Convergence{Iterations: 1, Optimality: s.optimality(y, sol)}
	sol.Converged = sol.Optimality <= math.Max(s.o.Tol, 1e-8)
	if s.o.Derivative != None {
		sol.Linearization = hat{s}
	}
	if err := dev.Sync(); err != nil {
		sol.Release()
		return nil, err
	}
	return sol, nil
}

// optimality is ||A*(A b - y) + c b|| / ||A* y||, 0 when A* y is 0.
func (s *direct) optimality(y array.Batch, sol *Solution) float64 {
	dev := s.p.Device
	d, dim := s.p.A.Dims()
	r, g := dev.Alloc(1, d), dev.Alloc(1, dim)
	defer r.Free()
	defer g.Free()
	dev.Lin(r, 1, sol.MuHat, -1, y)
	s.p.A.Adjoint(g, r)
	dev.Lin(g, 1, g, s.curve, sol.B)
	top := norm(g)
	s.p.A.Adjoint(g, y)
	if scale := norm(g); scale > 0 {
		return top / scale
	}
	return top
}

// hat is the hat matrix H = U S^2/(S^2 + c) U*, the same for every y.
type hat struct{ *direct }

// VJP sets dst_i = H v_i.
func (h hat) VJP(ctx context.Context, dst, v array.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	dev := h.p.Device
	c := dev.Alloc(v.K(), h.ut.K())
	defer c.Free()
	dev.Gemm(false, true, 1, v, h.ut, 0, c)
	dev.Mul(c, c, h.toMu)
	dev.Gemm(false, false, 1, c, h.ut, 0, dst)
	return dev.Err()
}

// Trace sums the eigenvalues s^2/(s^2 + c).
func (h hat) Trace() (trace, frobenius2 float64, ok bool) {
	for _, v := range h.toMu.ToHost() {
		trace += v
		frobenius2 += v * v
	}
	return trace, frobenius2, true
}

// Kind is "direct".
func (h hat) Kind() string { return "direct" }

// Bytes is 0: the factors belong to the solver.
func (h hat) Bytes() int64 { return 0 }

// ProbeBytes counts the coefficients on U.
func (h hat) ProbeBytes() int64 { return 8 * int64(h.ut.K()+h.ut.N()) }

// Release does nothing: the factors belong to the solver.
func (h hat) Release() {}
