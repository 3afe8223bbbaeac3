package prox

import (
	"fmt"
	"math"

	"surepipe/array"
)

// NuclearCurvature is the derivative of the proximal operator of lambda ||B||_* at a
// solution of low rank, turned inside out. On the tangent space T of the rank-r matrices at
// B = U diag(f) V* the derivative J of prox_{t r} has an inverse, and
//
//	K = (J^{-1} - I)/t
//
// depends on t no more: it is the second derivative of lambda ||.||_* along the matrices of
// rank r, plus what a gradient does on their curved surface. The derivative of the estimator
// is
//
//	D mu_hat = A_T (A_T* A_T + K)^{-1} A_T*.
//
// Where J needs the vectors of the inactive singular values, K takes products with the
// matrix that they belong to. Let -A*(A B - y) = lambda U V* + W be the subgradient at B,
// W the part outside T, ||W|| <= lambda. In the coordinates of [Tangent], Z = Q V* + U P*
// with Q orthogonal to U, M = P* V and P' = P - V M*,
//
//	K (Q, P) = ((lambda Q - W P') D, V (C ∘ (M - M*))* + (lambda P' - W* Q) D)
//	D = diag(1/f),   C_ij = lambda/(f_i + f_j),
//
// which is the system of DESIGN 4.1 for the active-inactive part of J read from right to left.
// W is applied, never formed: where A picks entries a product takes 2 d r flops.
//
// Conjugate gradients need an approximation of (K + h I)^{-1} beside it. That is exact but
// for W, of which it sees a few leading singular values s_j with vectors a_j and c_j:
// along them the system is 2 x 2, beyond them W counts as 0. Half as many as there
// are active values serve as well as all: on matrix completion 500 x 250 and 200 x 100 both
// take 15 and 21 steps to five digits, where none take 35 and 26.
//
// It is immutable and safe for concurrent use until it is released.
type NuclearCurvature struct {
	m, n, r, q int
	normal     Normal
	lambda     float64
	mem        array.Batch // all of the below
	u, v       array.Batch // m x r and n x r
	bu, bv     array.Batch // [U A] m x q and [V C] n x q
	slope      array.Batch // lambda/f_i for every entry of (Q, P)
	pull       array.Batch // 1/f_i, likewise
	spread     array.Batch // f_i/(lambda + h f_i), likewise
	c          array.Batch // C, r x r
	// The coefficients of the preconditioner, q x r but for turn, r x r.
	pp, pq, qq, turn array.Batch
}

// Leading is a few leading singular triplets of the matrix W of a [NuclearCurvature]: A is
// m x q and C n x q, with orthonormal columns that are orthogonal to U and V, and Sigma
// has q values of at most lambda. They need not be accurate.
type Leading struct {
	Sigma []float64
	A, C  array.Batch
}

// Normal is a matrix G that agrees with the W of a [NuclearCurvature] outside T, by
// products.
type Normal interface {
	// Mul sets dst_i = G x_i, or G* x_i when trans is set, for matrices x_i, row-major.
	Mul(trans bool, dst, x array.Batch)
	// Bytes is the device memory it holds.
	Bytes() int64
	// Release frees that memory.
	Release()
}

// NewNuclearCurvature returns K at U diag(f) V*, where the batches u, m x r, and v, n x r, have
// orthonormal columns and f > 0; it copies all three and owns normal. h > 0 is what the preconditioner adds to K: about the
// mean eigenvalue of A_T* A_T, or twice that. It panics on a mismatch of shapes.
func NewNuclearCurvature(lambda float64, u array.Batch, f []float64, v array.Batch, near Leading, h float64, normal Normal) *NuclearCurvature {
	dev := u.Device()
	m, n, r := u.K(), v.K(), len(f)
	extra := len(near.Sigma)
	if u.N() != r || v.N() != r || r == 0 || extra > 0 && (near.A.K() != m || near.C.K() != n || near.A.N() != extra || near.C.N() != extra) {
		panic(fmt.Sprintf("prox: curvature of the nuclear norm at %s and %s with %d values and %d more", u, v, r, extra))
	}
	q := r + extra
	k := &NuclearCurvature{m: m, n: n, r: r, q: q, normal: normal, lambda: lambda}

	// Everything of the size of a small matrix is made on the host.
	small := make([]float64, 3*r+2*r*r+3*q*r)
	take := func(n int) []float64 {
		part := small[:n:n]
		small = small[n:]
		return part
	}
	whole := small
	slope, pull, spread := take(r), take(r), take(r)
	c, turn := take(r*r), take(r*r)
	pp, pq, qq := take(q*r), take(q*r), take(q*r)
	for i, fi := range f {
		slope[i], pull[i], spread[i] = lambda/fi, 1/fi, fi/(lambda+h*fi)
	}
	for i, fi := range f {
		for j, fj := range f {
			at := i*r + j
			c[at] = lambda / (fi + fj)
			// Of symmetric M 1/h passes, of antisymmetric M 1/(h + 2 C).
			odd := (fi + fj) / (2*lambda + h*(fi+fj))
			turn[at] = (1/h - odd) / 2
			pp[at] = (1/h+odd)/2 - spread[j]
			qq[at] = -spread[j]
		}
	}
	for l, s := range near.Sigma {
		for i, fi := range f {
			// h f_i/(lambda + h f_i) is at most 1 - rho.
			rho := math.Min(s, lambda) / (lambda + h*fi)
			e := spread[i] / ((1 - rho) * (1 + rho))
			at := (r+l)*r + i
			pp[at], qq[at], pq[at] = e*rho*rho, e*rho*rho, e*rho
		}
	}

	rows := m + n
	sizes := []int{m * r, n * r, m * q, n * q, rows * r, rows * r, rows * r, r * r, r * r, q * r, q * r, q * r}
	total := 0
	for _, s := range sizes {
		total += s
	}
	k.mem = dev.Alloc(1, total)
	at := 0
	for i, to := range []*array.Batch{&k.u, &k.v, &k.bu, &k.bv, &k.slope, &k.pull, &k.spread, &k.c, &k.turn, &k.pp, &k.pq, &k.qq} {
		*to = k.mem.Cols(at, at+sizes[i])
		at += sizes[i]
	}
	dev.Copy(k.u.Reshape(m, r), u)
	dev.Copy(k.v.Reshape(n, r), v)
	join := func(to, a, b array.Batch) {
		to = to.Reshape(a.K(), q)
		dev.Copy(to.Cols(0, r), a)
		if extra > 0 {
			dev.Copy(to.Cols(r, q), b)
		}
	}
	join(k.bu, u, near.A)
	join(k.bv, v, near.C)
	on := dev.Alloc(1, len(whole))
	defer on.Free()
	dev.Upload(on, whole)
	ones := dev.Alloc(rows, 1)
	defer ones.Free()
	dev.Fill(ones, 1)
	for i, to := range []array.Batch{k.slope, k.pull, k.spread} {
		dev.Gemm(false, false, 1, ones, on.Cols(i*r, (i+1)*r), 0, to.Reshape(rows, r))
	}
	dev.Copy(k.mem.Cols(total-len(whole)+3*r, total), on.Cols(3*r, len(whole)))
	return k
}

// Len is the number of coordinates, (m + n) r.
func (k *NuclearCurvature) Len() int { return (k.m + k.n) * k.r }

// Factors returns U and V, row-major, as a [Tangent] has them: batches of one vector that
// live as long as k and that the caller must neither modify nor free.
func (k *NuclearCurvature) Factors() (u, v array.Batch) { return k.u, k.v }

func (k *NuclearCurvature) parts(z array.Batch) (q, p array.Batch) {
	return z.Cols(0, k.m*k.r), z.Cols(k.m*k.r, k.Len())
}

// Apply sets dst_i = K z_i for z_i in T, up to what the coordinates of dst leave open: a
// part of Q within U. dst must not be z.
func (k *NuclearCurvature) Apply(dst, z array.Batch) {
	checkApply("curvature of the nuclear norm", k.Len(), dst, z)
	if z.K() == 0 {
		return
	}
	m, n, r := k.m, k.n, k.r
	dev, count := z.Device(), z.K()
	zq, zp := k.parts(z)
	dq, dp := k.parts(dst)
	slopeQ, slopeP := k.parts(k.slope)
	pullQ, pullP := k.parts(k.pull)
	cv, rr := array.Shape{Rows: n, Cols: r}, array.Shape{Rows: r, Cols: r}
	mt, x, tmp := dev.Alloc(count, r*r), dev.Alloc(count, r*r), dev.Alloc(count, max(m, n)*r)
	rest := tmp.Cols(0, n*r)
	dev.GemmEach(true, false, 1, k.v, cv, zp, cv, 0, mt) // M*
	dev.Copy(rest, zp)
	dev.GemmEach(false, false, -1, k.v, cv, mt, rr, 1, rest)
	k.normal.Mul(false, dq, rest)
	k.normal.Mul(true, dp, zq)
	dev.GemmEach(true, false, 1, zp, cv, k.v, cv, 0, x)
	dev.Lin(mt, 1, mt, -1, x)
	dev.Mul(mt, k.c, mt)
	dev.GemmEach(true, false, 1, k.v, cv, dp, cv, 0, x) // what rounding leaves of W* Q in V
	dev.Mul(x, k.pull.Cols(0, r*r), x)
	dev.Lin(mt, 1, mt, 1, x)

	dev.Mul(dp, pullP, dp)
	dev.Mul(rest, slopeP, rest)
	dev.Lin(dp, 1, rest, -1, dp)
	dev.GemmEach(false, false, 1, k.v, cv, mt, rr, 1, dp)

	dev.Mul(dq, pullQ, dq)
	rest = tmp.Cols(0, m*r)
	dev.Mul(rest, slopeQ, zq)
	dev.Lin(dq, 1, rest, -1, dq)
	for _, b := range [...]array.Batch{mt, x, tmp} {
		b.Free()
	}
}

// Precondition sets dst_i to about (K + h I)^{-1} z_i, in T whatever z_i is: a symmetric
// operator with eigenvalues between 0 and 1/h. dst must not be z.
func (k *NuclearCurvature) Precondition(dst, z array.Batch) {
	checkApply("curvature of the nuclear norm", k.Len(), dst, z)
	if z.K() == 0 {
		return
	}
	m, n, r, q := k.m, k.n, k.r, k.q
	dev, count := z.Device(), z.K()
	zq, zp := k.parts(z)
	dq, dp := k.parts(dst)
	spreadQ, spreadP := k.parts(k.spread)
	cu, cv := array.Shape{Rows: m, Cols: r}, array.Shape{Rows: n, Cols: r}
	bu, bv, qr := array.Shape{Rows: m, Cols: q}, array.Shape{Rows: n, Cols: q}, array.Shape{Rows: q, Cols: r}
	x, y := dev.Alloc(count, q*r), dev.Alloc(count, q*r)
	w, tmp := dev.Alloc(count, q*r), dev.Alloc(count, q*r)
	dev.GemmEach(true, false, 1, k.bv, bv, zp, cv, 0, x)
	dev.GemmEach(true, false, 1, k.bu, bu, zq, cu, 0, y)

	combine(w, tmp, k.qq, y, k.pq, x)
	dev.Mul(dq, spreadQ, zq)
	dev.GemmEach(false, false, 1, k.bu, bu, w, qr, 1, dq)

	combine(w, tmp, k.pp, x, k.pq, y)
	mm, head := tmp.Cols(0, r*r), w.Cols(0, r*r)
	dev.GemmEach(true, false, 1, zp, cv, k.v, cv, 0, mm)
	dev.Mul(mm, k.turn, mm)
	dev.Lin(head, 1, head, 1, mm)
	dev.Mul(dp, spreadP, zp)
	dev.GemmEach(false, false, 1, k.bv, bv, w, qr, 1, dp)
	for _, b := range [...]array.Batch{x, y, w, tmp} {
		b.Free()
	}
}

// Bytes counts the factors, the coefficients and W.
func (k *NuclearCurvature) Bytes() int64 { return k.mem.Bytes() + k.normal.Bytes() }

// Release frees them.
func (k *NuclearCurvature) Release() {
	k.mem.Free()
	k.normal.Release()
}
