package solve

import (
	"surepipe/array"
	"surepipe/solve/internal/limits"
)

// factorHessian is the second derivative of
//
//	phi(L, R) = 1/2 ||A(L R*) - y||^2 + mu/2 (||L||^2 + ||R||^2)
//
// where A picks entries, at m x k and n x k matrices L and R. With L = U F^{1/2} and R = V F^{1/2}
// the minimum of phi over all factors of B = U F V* is 1/2 ||A B - y||^2 + mu ||B||_* (Srebro,
// Rennie and Jaakkola, NIPS 2004; Burer and Monteiro, Mathematical Programming 95, 2003). With G =
// A*(A(L R*) - y) and the direction (Q, P) it is
//
//	D_L Q + C P,   C* Q + D_R P:
//	(D_L Q)_i = mu q_i + sum_j (q_i, r_j) r_j,   (C P)_i = sum_j (l_i, p_j) r_j + g_ij p_j,
//
// sums over the entries j that are seen in row i, and likewise for columns. D_L and D_R have a k x k
// block for each row and each column, and are inverted exactly: with T_i* T_i = I - mu D_i^{-1},
//
//	D_i^{-1} q = (q - T_i* T_i q)/mu,
//
// where T_i has as many rows as there are entries seen, and at most k. One of the factors is
// eliminated, that of the longer side, say L:
//
//	(D_R - C* D_L^{-1} C) P = b_R - C* D_L^{-1} b_L,   Q = D_L^{-1} (b_L - C P).
//
// Preconditioned by D_R the eigenvalues are those of I minus the product of two contractions, at most
// 1. That takes half of the conjugate gradient steps of the whole system with the blocks as
// preconditioner, and each is cheaper (Reid, SIAM J. Numer. Anal. 9, 1972).
//
// Directions (L M, -R M*) do not change L R* to first order. Where M is antisymmetric the second
// derivative is 0 along them, and so is every right-hand side. Where the values f are small, directions
// P = V N have little curvature beside their share mu in D_R. With h_ij the mean of the mask's zeros
// and ones along u_i v_j*, of which N_ij and N_ji change the parts s_j N_ij + s_i N_ji, s = f^{1/2}, the
// quadratic form of the reduced system there is about
//
//	sum_{i<=j} e_ij (s_j N_ij + s_i N_ji)^2,   e_ij = h_ij mu/(h_ij f_j + mu) + h_ji mu/(h_ji f_i + mu),
//
// for i = j half of that, and the preconditioner is D_R^{-1} + V (gamma o .) V*, which adds what
// D_R^{-1} lacks of the inverse of that form (an additive coarse space: Smith, Bjorstad and Gropp,
// Domain Decomposition, 1996). On a completion of 500 x 250 with 12,500 entries, at rank 49, conjugate
// gradients take 14 steps in place of 33.
type factorHessian struct {
	dev     array.Device
	mu      float64
	rank    int  // columns of the factors
	k       int  // the same with columns of zeros ([aligned]), along which nothing moves
	d       int  // entries seen
	rows    bool // the rows' factor L is eliminated, else R
	pattern array.Pattern
	misfit  array.Batch   // A(L R*) - y at the places, 1 x d; not owned
	side    [2]factorSide // of the rows, and of the columns

	// Where it is not zero, over[0] over[1]* is subtracted from G.
	over       [2]array.Batch
	indefinite bool // a direction of negative curvature was met

	unit         array.Batch // V of the side that stays, 1 x n k
	identity     array.Batch // k x k
	same, turned array.Batch // the coefficients of V* z and of its transpose in N, 1 x k^2
	// The same of V* P, that take the directions P = -V F^{1/2} M*, M antisymmetric, out of P.
	nullSame, nullTurned array.Batch
}

// factorSide is a factor and the inverse of its blocks.
type factorSide struct {
	n      int         // lines
	factor array.Batch // 1 x n k
	t      array.Batch // the rows of all T_i, one after the other; 1 x count k
	count  int
	parts  []factorPart // of the lines; none where t has no rows
}

// factorPart is some lines, from to to-1: their T_i are count rows of T, the first of which is first.
type factorPart struct {
	from, to, first, count int
	places                 array.Pattern // of these rows: line i has those of T_i; nil where there are none
}

// rowSide and columnSide index factorHessian.side.
const (
	rowSide    = 0
	columnSide = 1
)

// out is the side that is eliminated, and in the other one.
func (h *factorHessian) out() int {
	if h.rows {
		return rowSide
	}
	return columnSide
}

func (h *factorHessian) in() int { return 1 - h.out() }

// alignedTo is the number of values in a line of the processor's cache. Products in patterns gather rows, and
// read them a tenth to a half faster where they begin where lines do.
const alignedTo = 8

// aligned is the number of columns that factors of a rank have.
func aligned(rank int) int {
	if rank < limits.AlignedRank {
		return rank
	}
	return (rank + alignedTo - 1) / alignedTo * alignedTo
}

// columns is a part of the given side as a matrix, without the columns of zeros.
func (h *factorHessian) columns(side int, x array.Batch) array.Batch {
	return x.Reshape(h.side[side].n, h.k).Cols(0, h.rank)
}

// len is the number of coordinates of a side's part of a direction.
func (h *factorHessian) len(side int) int { return h.side[side].n * h.k }

// sample sets z to the entries of X R* for a part X of the rows' side, or of L X*, plus beta z.
func (h *factorHessian) sample(side int, z, x array.Batch, beta float64) {
	h.sampleTo(side, 1, z, x, beta)
}

// sampleTo is sample with a times the entries.
func (h *factorHessian) sampleTo(side int, a float64, z, x array.Batch, beta float64) {
	if side == rowSide {
		h.dev.SampleProduct(z, h.pattern, a, x, h.side[columnSide].factor, beta)
	} else {
		h.dev.SampleProduct(z, h.pattern, a, h.side[rowSide].factor, x, beta)
	}
}

// spread sets dst, a part of the given side, to Z R or Z* L, with Z the sparse matrix of the entries z.
func (h *factorHessian) spread(side int, dst, z array.Batch) {
	h.dev.SpreadProduct(side == columnSide, 1, h.pattern, z, h.side[1-side].factor, 0, dst)
}

// couple sets dst, a part of the given side, to the coupling's product with x, one of the other
// side.
func (h *factorHessian) couple(side int, dst, x array.Batch) {
	z := h.dev.Alloc(x.K(), h.d)
	h.sample(1-side, z, x, 0)
	h.spread(side, dst, z)
	z.Free()
	h.bend(side, 1, dst, x)
}

// bend adds a times the part of the coupling's product with x that has the misfit.
func (h *factorHessian) bend(side int, a float64, dst, x array.Batch) {
	h.dev.SpreadProduct(side == columnSide, a, h.pattern, h.misfit, x, 1, dst)
	if h.over[0].IsZero() {
		return
	}
	from, to, l := h.over[1-side], h.over[side], h.over[0].N()
	t := h.dev.Alloc(l, h.k)
	for i := range x.K() {
		h.dev.Gemm(true, false, 1, from, x.Rows(i, i+1).Reshape(from.K(), h.k), 0, t)
		h.dev.Gemm(false, false, -a, to, t, 1, dst.Rows(i, i+1).Reshape(to.K(), h.k))
	}
	t.Free()
}

// invert sets dst = D^{-1} x for a part x of the given side; they may be the same batch. It reads T once:
// what a few lines take is still in the cache when it is needed again.
func (h *factorHessian) invert(side int, dst, x array.Batch) {
	s := &h.side[side]
	if s.count == 0 {
		h.dev.Lin(dst, 1/h.mu, x, 0, array.Batch{})
		return
	}
	for _, p := range s.parts {
		x, dst := x.Cols(p.from*h.k, p.to*h.k), dst.Cols(p.from*h.k, p.to*h.k)
		if p.count == 0 {
			h.dev.Lin(dst, 1/h.mu, x, 0, array.Batch{})
			continue
		}
		t, z := s.t.Cols(p.first*h.k, (p.first+p.count)*h.k), h.dev.Alloc(x.K(), p.count)
		h.dev.SampleProduct(z, p.places, 1, x, t, 0)
		h.dev.Lin(dst, 1/h.mu, x, 0, array.Batch{})
		h.dev.SpreadProduct(false, -1/h.mu, p.places, z, t, 1, dst)
		z.Free()
	}
}

// eliminate sets dst = C* D^{-1} x for a part x of the eliminated side, and x to D^{-1} x.
func (h *factorHessian) eliminate(dst, x array.Batch) {
	h.invert(h.out(), x, x)
	h.couple(h.in(), dst, x)
}

// square sets dst = (D_R - C* D_L^{-1} C) x for a part x of the side that stays. With z the entries of L
// X*, which C x and D_R x both start from, and q = D_L^{-1} C x, of which z' are the entries of Q R*, that
// is mu x + (Z - Z')* L - G* q.
func (h *factorHessian) square(dst, x array.Batch) {
	in, out := h.in(), h.out()
	z, t := h.dev.Alloc(x.K(), h.d), h.dev.Alloc(x.K(), h.len(out))
	h.sample(in, z, x, 0)
	h.spread(out, t, z)
	h.bend(out, 1, t, x)
	h.invert(out, t, t)
	h.sampleTo(out, -1, z, t, 1)
	h.spread(in, dst, z)
	z.Free()
	h.dev.Lin(dst, 1, dst, h.mu, x)
	h.bend(in, -1, dst, t)
	t.Free()
}

// precondition sets dst to the preconditioner's product with z on the side that stays; they are different
// batches. With clean set it takes the directions out along which the second derivative is 0. At a solution
// right-hand sides have no part there, and what dst has is in no image: clean is for factors that are
// not yet a solution's, and for solutions that are used as they are.
func (h *factorHessian) precondition(dst, z array.Batch, clean bool) {
	dev, side, count := h.dev, h.in(), z.K()
	h.invert(side, dst, z)
	sum := dev.Alloc(count, h.k*h.k)
	h.along(sum, z, h.same, h.turned, 0)
	if clean {
		h.along(sum, dst, h.nullSame, h.nullTurned, 1)
	}
	h.addAlong(dst, sum)
	sum.Free()
}

// along sets sum_i to the part same o N + turned o N* of N = V* x_i, plus beta sum_i.
func (h *factorHessian) along(sum, x, same, turned array.Batch, beta float64) {
	dev, count := h.dev, x.K()
	n, square := array.Shape{Rows: h.side[h.in()].n, Cols: h.k}, array.Shape{Rows: h.k, Cols: h.k}
	y, t := dev.Alloc(count, square.Len()), dev.Alloc(count, square.Len())
	dev.GemmEach(true, false, 1, h.unit, n, x, n, 0, y)
	dev.GemmEach(true, false, 1, y, square, h.identity, square, 0, t)
	dev.Mul(y, y, same)
	dev.Mul(t, t, turned)
	dev.Lin(y, 1, y, 1, t)
	if beta == 0 {
		dev.Copy(sum, y)
	} else {
		dev.Lin(sum, 1, y, beta, sum)
	}
	y.Free()
	t.Free()
}

// addAlong adds V N_i to dst_i.
func (h *factorHessian) addAlong(dst, n array.Batch) {
	square := array.Shape{Rows: h.k, Cols: h.k}
	h.dev.GemmEach(false, false, 1, h.unit, array.Shape{Rows: h.side[h.in()].n, Cols: h.k}, n, square, 1, dst)
}

// clean takes the directions out of x along which the second derivative is 0.
func (h *factorHessian) clean(x array.Batch) {
	sum := h.dev.Alloc(x.K(), h.k*h.k)
	h.along(sum, x, h.nullSame, h.nullTurned, 0)
	h.addAlong(x, sum)
	sum.Free()
}

// bytes is the memory of the blocks.
func (h *factorHessian) bytes() int64 {
	bytes := int64(0)
	for i := range h.side {
		s := &h.side[i]
		bytes += s.t.Bytes() + s.factor.Bytes() + 16*int64(s.count)
	}
	return bytes + h.unit.Bytes() + h.identity.Bytes() + 4*h.same.Bytes()
}

func (h *factorHessian) free() {
	for i := range h.side {
		s := &h.side[i]
		s.t.Free()
		s.factor.Free()
		for _, p := range s.parts {
			if p.places != nil {
				p.places.Free()
			}
		}
	}
	for _, b := range []array.Batch{h.unit, h.identity, h.same, h.turned, h.nullSame, h.nullTurned, h.over[0], h.over[1]} {
		b.Free()
	}
}
