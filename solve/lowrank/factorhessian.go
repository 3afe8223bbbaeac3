package lowrank

import (
	"surepipe/array"
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
// block D_i = mu I + X_i* X_i for each row and each column, where the rows of X_i are those of the other
// factor at the entries seen, and are inverted exactly: as they are where more than k entries are seen, and else
// by the inverse N_i of one row and column for each entry (Woodbury):
//
//	D_i^{-1} q = (q - X_i* N_i X_i q/mu)/mu,   N_i = (I + X_i X_i*/mu)^{-1}.
//
// One of the factors is eliminated, that of the longer side, say L:
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
// Domain Decomposition, 1996).
//
// Effects of the rows a and of the columns b, which A projects out, are one more column of Q and of P: L R* +
// a 1* + 1 b* is a product of L and R with columns of ones, of which the penalty and the misfit's part of the coupling
// have none. With x the mean of the n rows of X_i, a block is diagonal in (q, a + x* q): there it is D_i for rows less
// their mean, and n. A constant that a gains and b loses has no curvature.
type factorHessian struct {
	dev     array.Device
	mu      float64
	rank    int  // columns of the factors
	k       int  // the same with one for effects, where there are any
	d       int  // entries seen
	rows    bool // the rows' factor L is eliminated, else R
	pattern array.Pattern
	misfit  array.Batch   // A(L R*) - y at the places, 1 x d; not owned
	side    [2]factorSide // of the rows, and of the columns

	unit         array.Batch // V of the side that stays, 1 x n k
	transpose    array.Index // of a k x k matrix
	same, turned array.Batch // the coefficients of V* z and of its transpose in N, 1 x k^2
	// The same of V* P, that take the directions P = -V F^{1/2} M*, M antisymmetric, out of P.
	nullSame, nullTurned array.Batch
}

// factorSide is a factor and the inverse of its blocks.
type factorSide struct {
	n      int         // lines
	factor array.Batch // 1 x n k
	values array.Batch // of all blocks, the short lines' first
	// Where the lines have effects: the means x with 1 for the effect, and -x with 1/n, 1 x n k.
	mean, fit array.Batch
	effect    array.Index // the place of a line's effect, k times
	// The entries of the short lines, line by line, and then those of the long ones: their places in A. It is nil
	// where all are in this order.
	order       array.Index
	short, long factorLines
}

// factorLines is the lines of a side in which at most k entries are seen, or more.
type factorLines struct {
	pattern array.Pattern // of the entries: lines of this side by lines of the other; nil where there are none
	shared  bool          // the pattern is that of A
	blocks  array.Blocks  // of N_i, line by line, or of D_i^{-1}
	values  array.Batch   // of the blocks; not owned
}

func (l *factorLines) none() bool { return l.pattern == nil }

func (l *factorLines) len() int {
	if l.none() {
		return 0
	}
	return l.pattern.Len()
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

// columns is a part of the given side as a matrix, without effects.
func (h *factorHessian) columns(side int, x array.Batch) array.Batch {
	return x.Reshape(h.side[side].n, h.k).Cols(0, h.rank)
}

func (h *factorHessian) len(side int) int { return h.side[side].n * h.k }

// sample sets z to the entries of X R* for a part X of the rows' side, or of L X*, plus beta z.
func (h *factorHessian) sample(side int, z, x array.Batch, beta float64) {
	if side == rowSide {
		h.dev.SampleProduct(z, h.pattern, 1, x, h.side[columnSide].factor, beta)
	} else {
		h.dev.SampleProduct(z, h.pattern, 1, h.side[rowSide].factor, x, beta)
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
	h.bend(side, 1, dst, x, 1)
}

// bend sets dst to a times the part of the coupling's product with x that has the misfit, plus beta dst.
func (h *factorHessian) bend(side int, a float64, dst, x array.Batch, beta float64) {
	var effects array.Batch
	if h.k > h.rank && beta != 0 {
		effects = h.dev.Alloc(h.across(dst).K(), 1)
		defer effects.Free()
		h.dev.Lin(effects, beta, h.effectsOf(dst), 0, array.Batch{})
	}
	h.dev.SpreadProduct(side == columnSide, a, h.pattern, h.misfit, x, beta, dst)
	switch {
	case !effects.IsZero():
		h.dev.Copy(h.effectsOf(dst), effects)
	case h.k > h.rank:
		h.still(dst)
	}
}

// still sets the effects in x to 0.
func (h *factorHessian) still(x array.Batch) { h.dev.Fill(h.effectsOf(x), 0) }

func (h *factorHessian) effectsOf(x array.Batch) array.Batch {
	return h.across(x).Cols(h.rank, h.k)
}

// across is x with a line in every row.
func (h *factorHessian) across(x array.Batch) array.Batch { return x.Reshape(x.K()*x.N()/h.k, h.k) }

// penalize adds mu x to dst, without effects.
func (h *factorHessian) penalize(dst, x array.Batch) {
	if h.k > h.rank {
		dst, x = h.across(dst).Cols(0, h.rank), h.across(x).Cols(0, h.rank)
	}
	h.dev.Lin(dst, 1, dst, h.mu, x)
}

// invert sets dst = D^{-1} x for a part x of the given side; they are different batches.
func (h *factorHessian) invert(side int, dst, x array.Batch) {
	dev, s, other := h.dev, &h.side[side], h.side[1-side].factor
	whole := x
	if !s.mean.IsZero() {
		x = h.lessMean(s, whole)
		defer x.Free()
	}
	dev.Lin(dst, 1/h.mu, x, 0, array.Batch{})
	if n := s.short.len(); n > 0 {
		z, w := dev.Alloc(x.K(), n), dev.Alloc(x.K(), n)
		dev.SampleProduct(z, s.short.pattern, 1/h.mu, dst, other, 0)
		dev.MulBlocks(w, s.short.blocks, s.short.values, z)
		dev.SpreadProduct(false, -1, s.short.pattern, w, other, 1, dst)
		array.Free(z, w)
	}
	if !s.long.none() {
		dev.MulBlocks(dst, s.long.blocks, s.long.values, x)
	}
	if !s.mean.IsZero() {
		h.fitEffects(s, dst, whole)
	}
}

// lessMean is (q - a x_i, 0) for the parts (q, a) of x, with the mean x_i.
func (h *factorHessian) lessMean(s *factorSide, x array.Batch) array.Batch {
	t := h.dev.Alloc(x.K(), x.N())
	h.dev.Gather(t, x, s.effect)
	h.dev.Mul(t, t, s.mean)
	h.dev.Lin(t, 1, x, -1, t)
	return t
}

// fitEffects sets the effects in q to a/n - x_i* q, for those in x, which are a; q has none.
func (h *factorHessian) fitEffects(s *factorSide, q, x array.Batch) {
	dev := h.dev
	t, ones := dev.Alloc(q.K(), q.N()), dev.Alloc(h.k, 1)
	defer array.Free(t, ones)
	dev.Copy(h.effectsOf(q), h.effectsOf(x))
	dev.Mul(t, q, s.fit)
	dev.Fill(ones, 1)
	lines := array.Shape{Rows: q.K() * s.n, Cols: h.k}
	dev.Gemm(false, false, 1, t.Reshape(lines.Rows, lines.Cols), ones, 0, h.effectsOf(q))
}

// complete sets q = D^{-1} (X* z + t), for a part t of the given side and entries z, and z to z - X q, which on
// short lines is N (z - X t/mu). It uses t, which has no effects; those in q are not set on short lines, and taken out
// of z on all.
func (h *factorHessian) complete(side int, q, t, z array.Batch) {
	dev, s, other := h.dev, &h.side[side], h.side[1-side].factor
	sorted, cut := z, s.short.len()
	if s.order != nil {
		sorted = dev.Alloc(z.K(), h.d)
		dev.Gather(sorted, z, s.order)
	}
	short, long := sorted.Cols(0, cut), sorted.Cols(cut, h.d)
	if !s.short.none() {
		w := dev.Alloc(z.K(), cut)
		dev.SampleProduct(short, s.short.pattern, -1/h.mu, t, other, 1)
		dev.MulBlocks(w, s.short.blocks, s.short.values, short)
		dev.SpreadProduct(false, 1, s.short.pattern, w, other, 1, t)
		dev.Copy(short, w)
		w.Free()
	}
	if !s.long.none() {
		dev.SpreadProduct(false, 1, s.long.pattern, long, other, 1, t)
	}
	sums := t
	if !s.long.none() && !s.mean.IsZero() {
		t = h.lessMean(s, sums)
		defer t.Free()
	}
	dev.Lin(q, 1/h.mu, t, 0, array.Batch{})
	if !s.long.none() {
		dev.MulBlocks(q, s.long.blocks, s.long.values, t)
		if !s.mean.IsZero() {
			h.fitEffects(s, q, sums)
		}
		dev.SampleProduct(long, s.long.pattern, -1, q, other, 1)
	}
	if s.order != nil {
		dev.Scatter(z, sorted, s.order)
		sorted.Free()
	}
}

// eliminate sets dst = C* D^{-1} x for a part x of the eliminated side.
func (h *factorHessian) eliminate(dst, x array.Batch) {
	q := h.dev.Alloc(x.K(), x.N())
	h.invert(h.out(), q, x)
	h.couple(h.in(), dst, q)
	q.Free()
}

// square sets dst = (D_R - C* D_L^{-1} C) x for a part x of the side that stays. With z the entries of L
// X*, which C x and D_R x both start from, and q = D_L^{-1} C x, of which z' are the entries of Q R*, that
// is mu x + (Z - Z')* L - G* q.
func (h *factorHessian) square(dst, x array.Batch) {
	in, out := h.in(), h.out()
	z, t, q := h.dev.Alloc(x.K(), h.d), h.dev.Alloc(x.K(), h.len(out)), h.dev.Alloc(x.K(), h.len(out))
	h.sample(in, z, x, 0)
	h.bend(out, 1, t, x, 0)
	h.complete(out, q, t, z)
	t.Free()
	h.spread(in, dst, z)
	z.Free()
	h.penalize(dst, x)
	h.bend(in, -1, dst, q, 1)
	q.Free()
}

// precondition sets dst to the preconditioner's product with z on the side that stays; they are different
// batches. It takes the directions out along which the second derivative is 0.
func (h *factorHessian) precondition(dst, z array.Batch) {
	dev, side, count := h.dev, h.in(), z.K()
	h.invert(side, dst, z)
	sum := dev.Alloc(count, h.k*h.k)
	h.along(sum, z, h.same, h.turned, 0)
	h.along(sum, dst, h.nullSame, h.nullTurned, 1)
	h.addAlong(dst, sum)
	sum.Free()
}

// along sets sum_i to the part same o N + turned o N* of N = V* x_i, plus beta sum_i.
func (h *factorHessian) along(sum, x, same, turned array.Batch, beta float64) {
	dev, count := h.dev, x.K()
	n, square := array.Shape{Rows: h.side[h.in()].n, Cols: h.k}, array.Shape{Rows: h.k, Cols: h.k}
	y, t := dev.Alloc(count, square.Len()), dev.Alloc(count, square.Len())
	dev.GemmEach(true, false, 1, h.unit, n, x, n, 0, y)
	dev.Gather(t, y, h.transpose)
	dev.Mul(y, y, same)
	dev.Mul(t, t, turned)
	dev.Lin(y, 1, y, 1, t)
	if beta == 0 {
		dev.Copy(sum, y)
	} else {
		dev.Lin(sum, 1, y, beta, sum)
	}
	array.Free(y, t)
}

// addAlong adds V N_i to dst_i.
func (h *factorHessian) addAlong(dst, n array.Batch) {
	square := array.Shape{Rows: h.k, Cols: h.k}
	h.dev.GemmEach(false, false, 1, h.unit, array.Shape{Rows: h.side[h.in()].n, Cols: h.k}, n, square, 1, dst)
}

func (h *factorHessian) bytes() int64 {
	bytes := int64(0)
	for i := range h.side {
		s := &h.side[i]
		bytes += s.values.Bytes() + s.factor.Bytes() + s.mean.Bytes() + s.fit.Bytes()
		if s.order != nil {
			bytes += s.order.Bytes()
		}
		for _, l := range []*factorLines{&s.short, &s.long} {
			if !l.none() {
				bytes += l.blocks.Bytes() + patternBytes*int64(l.len())
			}
		}
	}
	return bytes + h.unit.Bytes() + h.transpose.Bytes() + 4*h.same.Bytes()
}

// patternBytes is about the memory of an entry of a pattern.
const patternBytes = 16

func (h *factorHessian) free() {
	for i := range h.side {
		s := &h.side[i]
		array.Free(s.values, s.factor, s.mean, s.fit)
		if s.effect != nil {
			s.effect.Free()
		}
		if s.order != nil {
			s.order.Free()
		}
		for _, l := range []*factorLines{&s.short, &s.long} {
			if l.none() {
				continue
			}
			l.blocks.Free()
			if !l.shared {
				l.pattern.Free()
			}
		}
	}
	if h.transpose != nil {
		h.transpose.Free()
	}
	array.Free(h.unit, h.same, h.turned, h.nullSame, h.nullTurned)
}
