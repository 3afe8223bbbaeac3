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
//
// Where the lengths of the columns differ by more than gradedSpread the singular values of A
// say nothing of the short ones. Then A is factorized with its columns scaled
// to unit length, A = B N, together with the penalty ([factorPenalized]):
//
//	[B; sqrt(c) N^{-1}] P = Q R,   H = Q1 Q1*,   b(y) = N^{-1} P R^+ Q1* y,
//
// and U, S are those of Q1. Columns that depend on others, where c does not tell them apart,
// have b = 0.
type direct struct {
	p       Problem
	o       Options
	ut      array.Batch // r x d: U*
	vt      array.Batch // r x p: V*
	toB     array.Batch // 1 x r: S/(S^2 + c)
	toMu    array.Batch // 1 x r: S^2/(S^2 + c)
	inverse array.Batch // 1 x r: the weights of (A*A + c)^{-1} on V
	lengths []float64   // of the columns
	graded  bool        // A was factorized together with the penalty
	curve   float64

	sigma    []float64 // those of A that count
	doubtful float64   // the share of the trace that rests on decisions within rounding errors
	margin   float64   // see Tracer
	shared   bool      // ut and vt are another solver's
}

func newDirect(ctx context.Context, p Problem, o Options) (Solver, error) {
	q, ok := p.R.(prox.Quadratic)
	if !ok {
		return nil, fmt.Errorf("vjp: the direct solver needs a quadratic regularizer; use ista, fista or admm")
	}
	dense := linops.StructureOf(p.A).Dense
	if dense == nil {
		return nil, fmt.Errorf("vjp: the direct solver needs an operator that can be written as a matrix; use fista or admm")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	x := dense()
	s := &direct{p: p, o: o, curve: q.Curvature(), margin: math.Inf(1)}
	norms := columnNorms(x)
	s.lengths = norms
	least, most := math.Inf(1), 0.0
	for _, v := range norms {
		if v > 0 {
			least, most = min(least, v), max(most, v)
		}
	}
	var err error
	if most > gradedSpread*least {
		err = s.factorGraded(x, norms)
	} else {
		err = s.decompose(x)
	}
	if err == nil {
		err = p.Device.Sync()
	}
	if err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

// gradedSpread is the ratio of the columns' lengths up to which A's own singular values serve:
// those of the shortest columns then keep ten digits.
const gradedSpread = 1e4

// columnNorms are the lengths of x's columns.
func columnNorms(x *mat.Dense) []float64 {
	d, p := x.Dims()
	norms := make([]float64, p)
	for i := range d {
		for j, v := range x.RawRowView(i) {
			norms[j] = math.Hypot(norms[j], v)
		}
	}
	return norms
}

// decompose takes A's own singular value decomposition.
func (s *direct) decompose(x *mat.Dense) error {
	d, dim := x.Dims()
	var svd mat.SVD
	if !svd.Factorize(x, mat.SVDThin) {
		return fmt.Errorf("vjp: the singular value decomposition of the %d x %d operator did not converge", d, dim)
	}
	sigma := svd.Values(nil)
	rank := len(sigma)
	cut := float64(max(d, dim)) * 0x1p-52 * sigma[0]
	for rank > 0 && sigma[rank-1] <= cut {
		rank--
	}
	var u, v mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	s.ut = uploadRows(s.p.Device, u.T(), rank)
	s.vt = uploadRows(s.p.Device, v.T(), rank)
	s.sigma = sigma[:rank]
	if rank > 0 {
		s.margin = sigma[rank-1] / cut
	}
	s.weigh()
	for _, sv := range s.sigma {
		if sv <= doubtfulRank*cut {
			s.doubtful += 1 / (1 + s.curve/sv/sv)
		}
	}
	return nil
}

// factorGraded factorizes A and the penalty with the columns scaled.
func (s *direct) factorGraded(x *mat.Dense, norms []float64) error {
	d, dim := x.Dims()
	scale := make([]float64, dim)
	for j, v := range norms {
		scale[j] = unit(v)
	}
	var w *mat.Dense
	if s.curve > 0 {
		root := make([]float64, dim)
		for j, v := range scale {
			root[j] = math.Sqrt(s.curve) * v
		}
		w = mat.DenseCopyOf(mat.NewDiagDense(dim, root))
	}
	f := factorPenalized(scaledBy(x, scale), w, 1, 0)
	s.graded, s.margin = true, f.margin
	low, _, high := f.traces(f.sure)
	s.doubtful = high - low
	if f.rank == 0 {
		s.ut, s.vt = s.p.Device.Alloc(0, d), s.p.Device.Alloc(0, dim)
		s.upload(nil, nil)
		return nil
	}
	var svd mat.SVD
	if !svd.Factorize(f.q, mat.SVDThin) {
		return fmt.Errorf("vjp: the singular value decomposition of a %d x %d basis did not converge", d, f.rank)
	}
	cosines := svd.Values(nil)
	var u, v, b mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	b.Mul(f.solution(), &v)
	b.Apply(func(j, _ int, t float64) float64 { return t * scale[j] }, &b)
	s.ut = uploadRows(s.p.Device, u.T(), len(cosines))
	s.vt = uploadRows(s.p.Device, b.T(), len(cosines))
	toMu := make([]float64, len(cosines))
	for i, c := range cosines {
		toMu[i] = c * c
	}
	s.upload(cosines, toMu)
	return nil
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
	s.toB.Free()
	s.toMu.Free()
	s.inverse.Free()
	if !s.shared {
		s.ut.Free()
		s.vt.Free()
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
	sol.Convergence = s.convergence(y, sol)
	if s.o.Derivative != None {
		h := hat{direct: s}
		h.Apply = h.VJP
		sol.Linearization = h
	}
	if err := dev.Sync(); err != nil {
		sol.Release()
		return nil, err
	}
	return sol, nil
}

// SolveFrom is Solve: there is nothing to start.
func (s *direct) SolveFrom(ctx context.Context, y, _ array.Batch) (*Solution, error) {
	return s.Solve(ctx, y)
}

// convergence tells how good the closed form is: for every column, with r = y - A b, the optimality
// is |a_j* r - c b_j| over ||a_j|| and over the size of errors that matter ([yardstick]), all squared and
// summed. Error is how far a step of iterative refinement moves mu_hat.
func (s *direct) convergence(y array.Batch, sol *Solution) Convergence {
	dev := s.p.Device
	d, dim := s.p.A.Dims()
	r, g, t, step := dev.Alloc(1, d), dev.Alloc(1, dim), dev.Alloc(1, s.ut.K()), dev.Alloc(1, dim)
	defer r.Free()
	defer g.Free()
	defer t.Free()
	defer step.Free()
	dev.Lin(r, 1, y, -1, sol.MuHat)
	s.p.A.Adjoint(g, r)
	dev.Lin(g, 1, g, -s.curve, sol.B)
	stick := newYardstick(y, 1, s.o)
	residual := norm(r)
	size := stick.size(residual, 0)
	sum := 0.0
	for j, v := range g.ToHost() {
		// A column of length 0 has nothing to say, nor has one that the penalty rules.
		if n := math.Sqrt(s.lengths[j]*s.lengths[j] + s.curve); n > 0 {
			sum += v / n * v / n
		}
	}
	// The refined b is b + (A*A + c)^{-1} g, and (A*A + c)^{-1} = T T* with T = V toB / S.
	dev.Gemm(false, true, 1, g, s.vt, 0, t)
	dev.Mul(t, t, s.inverse)
	dev.Gemm(false, false, 1, t, s.vt, 0, step)
	s.p.A.Forward(r, step)
	c := Convergence{Iterations: 1, Optimality: relative(math.Sqrt(sum), size), Error: norm(r)}
	c.Converged = c.Optimality <= math.Max(s.o.Tol, 1e-8) && !(c.Error > stick.allowed(residual))
	return c
}

// hat is the hat matrix H = U S^2/(S^2 + c) U*, the same for every y.
type hat struct {
	*direct
	Plain
}

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

// Closed sums the eigenvalues s^2/(s^2 + c), also without the singular values in doubt.
func (h hat) Closed() Closed {
	c := Closed{Known: true, Margin: h.margin}
	for _, v := range h.toMu.ToHost() {
		c.Trace += v
		c.Frobenius2 += v * v
	}
	c.Low, c.High = c.Trace-h.doubtful, c.Trace
	return c
}

// Kind is "direct".
func (h hat) Kind() string { return "direct" }

// Bytes is 0: the factors belong to the solver.
func (h hat) Bytes() int64 { return 0 }

// ProbeBytes counts the coefficients on U.
func (h hat) ProbeBytes() int64 { return 8 * int64(h.ut.K()+h.ut.N()) }

// Release does nothing: the factors belong to the solver.
func (h hat) Release() {}
