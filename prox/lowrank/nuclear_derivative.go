package lowrank

import (
	"sync"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// nuclearDerivative is the derivative of the singular value threshold F(X) = U (Sigma - tau)_+ V*
// at a matrix with r > 0 singular values above tau.
//
// Write U1, V1 for the singular vectors of the r active values sigma_i > tau, U2, V2 for those of
// the inactive sigma_j <= tau, f_i = sigma_i - tau. For a direction Z let P = U1* Z, R = Z V1,
// M = U1* Z V1. Then
//
//	DF(X) Z = U1 Gamma V1* + U1 g + h V1*
//
// is a sum of three parts.
//
// Active-active: Gamma = M - C ∘ (M - M*), C_ij = tau/(sigma_i + sigma_j). The symmetric part of M
// is unchanged, since f has slope 1 on the active values; the antisymmetric part is multiplied by
// (f_i + f_j)/(sigma_i + sigma_j).
//
// Active-inactive: g's rows lie outside V1 and h's columns outside U1. They solve, for each i, with
// X2 the inactive part of X, a_i = row i of P (I - V1 V1*) and b_i = column i of (I - U1 U1*) R,
//
//	sigma_i g_i - X2* h_i = f_i a_i,    sigma_i h_i - X2 g_i = f_i b_i.
//
// Along v_j and u_j that is a 2 x 2 system; beyond the thin factors X2 vanishes and
// g_i = (f_i/sigma_i) a_i. So with
//
//	k_ij = f_i/(sigma_i - sigma_j) * sigma_j/(sigma_i + sigma_j)
//
//	g_i = (f_i/sigma_i) a_i + sum_j v_j (k_ij sigma_j/sigma_i <a_i, v_j> + k_ij <b_i, u_j>)
//
// and h_i likewise with the roles of a, v and b, u exchanged. Since sigma_j <= tau,
// f_i/(sigma_i - sigma_j) is at most 1, however close both are to tau: no coefficient exceeds 1 and
// none is a difference of rounded numbers. An inactive sigma_j below rounding beside the smallest
// active one is dropped: k_ij < 2^-53.
//
// Inactive-inactive: 0.
//
// The range of J is the tangent space of the rank-r matrices,
//
//	T = { Q V1* + U1 P* },   Q m x r, P n x r,
//
// and J is computed in its coordinates: it maps Q = Z V1 and P = Z* U1 to a new pair. The pair is
// not unique; P has all of U1 U1* Z, and of Q only the part outside U1 counts. With S = [V1 V2]* P
// and B = [U1 U2]* Q, both q x r where q counts the active vectors and the inactive ones that were
// kept, S1 and B1 the first r rows and S2 and B2 the others, S1 is M*, and
//
//	P <- P D + V1 (alpha1 ∘ S1 + beta1 ∘ S1*) + V2 (alpha2 ∘ S2 + beta2 ∘ B2)      D = diag(f_i/sigma_i)
//	Q <- (Q - U1 B1) D + U2 (beta2 ∘ S2 + alpha2 ∘ B2)
//
//	          alpha_ji                                beta_ji
//	j <= r    tau sigma_j/(sigma_i(sigma_i+sigma_j))  tau/(sigma_i+sigma_j)
//	j > r     k_ij sigma_j/sigma_i                    k_ij
//
// where alpha for j <= r is 1 - C_ij - f_i/sigma_i without the cancellation. If r = m there is
// nothing outside U1 and h = 0; if r = n, g = 0: then one of the two has all of the result.
type nuclearDerivative struct {
	m, n, r, q int
	mem        array.Batch // all of the below but swap
	ut, vt     array.Batch // [U1 U2]* q x m, [V1 V2]* q x n
	// One side: f_i/sigma_i for every entry of the r x n or r x m matrix that has all of the
	// result. Two sides: for every entry of P (n x r) and of Q (m x r).
	left, right array.Batch
	alpha, beta array.Batch // q x r
	swap        array.Index // which transposes r x r matrices
	d           []float64   // f_i/sigma_i

	trace, frobenius2 float64
	margin            float64 // of the rank
}

// unitRoundoff is the relative error of one rounding.
const unitRoundoff = 0x1p-53

func newNuclearDerivative(dev array.Device, w *svd, r int, tau float64) *nuclearDerivative {
	m, n, s := w.m, w.n, w.s
	q := r
	for q < w.q && s[q] > unitRoundoff*s[r-1] {
		q++
	}
	j := &nuclearDerivative{m: m, n: n, r: r, q: q}

	j.trace, j.frobenius2 = ThresholdTrace(s, m, n, r, tau)
	if j.margin = s[r-1] - tau; r < w.q {
		j.margin = min(j.margin, tau-s[r])
	}

	size := 0
	take := func(n int) int { size += n; return size - n }
	two := j.onLeft() && j.onRight()
	atU, atV := take(q*m), take(q*n)
	atLeft, atRight := -1, -1
	if j.onLeft() {
		atLeft = take(r * n)
	}
	if j.onRight() {
		atRight = take(r * m)
	}
	atAlpha, atBeta := take(r*q), take(r*q)
	j.mem = dev.Alloc(1, size)
	view := func(at, n int) array.Batch {
		if at < 0 {
			return array.Batch{}
		}
		return j.mem.Cols(at, at+n)
	}
	j.ut, j.vt = view(atU, q*m), view(atV, q*n)
	j.left, j.right = view(atLeft, r*n), view(atRight, r*m)
	j.alpha, j.beta = view(atAlpha, r*q), view(atBeta, r*q)
	j.swap = transposition(dev, r)

	host, d := w.stage(2*r*q), make([]float64, r)
	alpha, beta := host[:r*q], host[r*q:]
	for i, si := range s[:r] {
		d[i] = (si - tau) / si
		for l, sl := range s[:q] {
			at := l*r + i
			if l < r {
				beta[at] = tau / (si + sl)
			} else {
				beta[at] = (si - tau) / (si - sl) * (sl / (si + sl))
			}
			alpha[at] = beta[at] * (sl / si)
		}
	}
	dev.Upload(j.mem.Cols(atAlpha, atAlpha+2*r*q), host)
	j.d = d
	switch {
	case two:
		shrunk := dev.Alloc(1, r)
		defer shrunk.Free()
		dev.Upload(shrunk, d)
		dev.Copy(j.left.Reshape(n, r), shrunk)
		dev.Copy(j.right.Reshape(m, r), shrunk)
	case j.onLeft():
		each(j.left.Reshape(r, n), d)
	default:
		each(j.right.Reshape(r, m), d)
	}
	return j
}

// transposition is the index that transposes r x r matrices.
func transposition(dev array.Device, r int) array.Index {
	swap := lists.Make(r*r, func(at int) int { return at%r*r + at/r })
	return dev.NewIndex(swap)
}

func each(dst array.Batch, d []float64) {
	dev := dst.Device()
	dev.Fill(dst, 1)
	dev.LinEach(dst, d, dst, nil, array.Batch{})
}

// ThresholdTrace adds up the eigenvalues of the derivative, and their squares, from the singular
// values s of which the first r are active: 1 for every symmetric pair of active vectors,
// (f_i + f_j)/(sigma_i + sigma_j) for every antisymmetric one, f_i/(sigma_i - sigma_j) and
// f_i/(sigma_i + sigma_j) where j is inactive, and f_i/sigma_i for each of the |m - n| directions
// beyond the thin factors (Candes, Sing-Long and Trzasko 2013, with their pairs written one by
// one).
func ThresholdTrace(s []float64, m, n, r int, tau float64) (trace, frobenius2 float64) {
	add := func(x float64) {
		trace += x
		frobenius2 += x * x
	}
	for i, si := range s[:r] {
		f := si - tau
		for j, sj := range s {
			switch {
			case j <= i:
				add(1)
			case j < r:
				add((f + sj - tau) / (si + sj))
			default:
				add(f / (si - sj))
				add(f / (si + sj))
			}
		}
		beyond := float64(m - n)
		if m < n {
			beyond = -beyond
		}
		trace += beyond * (f / si)
		frobenius2 += beyond * (f / si) * (f / si)
	}
	return trace, frobenius2
}

// onLeft and onRight report which sides of the formula are present: both, unless U1 or V1 is a
// complete basis.
func (j *nuclearDerivative) onLeft() bool  { return j.r < j.n || j.r == j.m }
func (j *nuclearDerivative) onRight() bool { return j.r < j.m }

// transpose sets the k x m matrix dst to the first k columns, transposed, of the m x n matrix src,
// in tiles that stay in the nearest cache.
func transpose(dst, src []float64, m, n, k int) {
	const tile = 32
	for i0 := 0; i0 < m; i0 += tile {
		i1 := min(i0+tile, m)
		for j0 := 0; j0 < k; j0 += tile {
			j1 := min(j0+tile, k)
			for j := j0; j < j1; j++ {
				for i := i0; i < i1; i++ {
					dst[j*m+i] = src[i*n+j]
				}
			}
		}
	}
}

func (j *nuclearDerivative) apply(dst, z array.Batch) {
	m, n, r := j.m, j.n, j.r
	if z.K() == 0 {
		return
	}
	x := array.Shape{Rows: m, Cols: n}
	switch {
	case !j.onRight():
		j.applyOneSide(dst, z, x, j.left, j.ut, j.vt, m, n, false)
		return
	case !j.onLeft():
		j.applyOneSide(dst, z, x, j.right, j.vt, j.ut, n, m, true)
		return
	}

	dev, k, q := dst.Device(), z.K(), j.q
	rv, ru := array.Shape{Rows: r, Cols: n}, array.Shape{Rows: r, Cols: m}
	qu, qr := array.Shape{Rows: q, Cols: m}, array.Shape{Rows: q, Cols: r}
	beyond, br := array.Shape{Rows: q - r, Cols: n}, array.Shape{Rows: q - r, Cols: r}
	u1t, v1t, v2t := j.ut.Cols(0, r*m), j.vt.Cols(0, r*n), j.vt.Cols(r*n, q*n)
	t, c := dev.Alloc(k, r*(m+n)), dev.Alloc(k, 4*q*r)
	defer array.Free(t, c)
	s, b, w, tmp := c.Cols(0, q*r), c.Cols(q*r, 2*q*r), c.Cols(2*q*r, 3*q*r), c.Cols(3*q*r, 4*q*r)
	one := func(c array.Batch) array.Batch { return c.Cols(0, r*r) }
	two := func(c array.Batch) array.Batch { return c.Cols(r*r, q*r) }
	zv, zu := t.Cols(0, r*m), t.Cols(r*m, r*(m+n)) // Z V1 and Z* U1
	dev.GemmEach(false, true, 1, z, x, v1t, rv, 0, zv)
	dev.GemmEach(true, true, 1, z, x, u1t, ru, 0, zu)
	dev.GemmEach(false, false, 1, j.ut, qu, zv, ru.T(), 0, b)
	dev.Gather(one(s), one(b), j.swap)
	j.within(one(w), one(tmp), one(s))
	// What is within U1 and V1 is left to Q.
	dev.Gather(one(s), one(w), j.swap)
	dev.Mul(one(b), j.right.Cols(0, r*r), one(b))
	dev.Lin(one(b), 1, one(s), -1, one(b))
	if q > r {
		dev.GemmEach(false, false, 1, v2t, beyond, zu, rv.T(), 0, two(s))
	}
	dev.Mul(zu, j.left, zu)
	if q > r {
		combine(two(w), two(tmp), two(j.alpha), two(s), two(j.beta), two(b))
		dev.GemmEach(true, false, 1, v2t, beyond, two(w), br, 1, zu)
		combine(two(w), two(tmp), two(j.beta), two(s), two(j.alpha), two(b))
		dev.Copy(two(b), two(w))
	}
	dev.Mul(zv, j.right, zv)
	dev.GemmEach(true, false, 1, j.ut, qu, b, qr, 1, zv)
	dev.GemmEach(true, true, 1, u1t, ru, zu, rv.T(), 0, dst)
	dev.GemmEach(false, false, 1, zv, ru.T(), v1t, rv, 1, dst)
}

// build uses the tangent space of the rank-r matrices, or all matrices where U1 or V1 is a complete
// basis.
func (j *nuclearDerivative) build() *prox.Model {
	m, n, r := j.m, j.n, j.r
	margin, diagonal := func(array.Batch) float64 { return j.margin }, sync.OnceValue(j.diagonal)
	if !j.onLeft() || !j.onRight() {
		q := prox.NewAppliedCurvature(j.apply, j.trace, j.frobenius2)
		return &prox.Model{Space: space.All(m * n), Curvature: q, Margin: margin, Diagonal: diagonal}
	}
	dev := j.mem.Device()
	cols := dev.Alloc(1, r*(m+n))
	identity := dev.Alloc(r, r)
	defer identity.Free()
	dev.Fill(identity, 0)
	dev.Fill(identity.Diagonal(), 1)
	u, v := cols.Cols(0, r*m), cols.Cols(r*m, r*(m+n))
	dev.Gemm(true, false, 1, j.ut.Cols(0, r*m).Reshape(r, m), identity, 0, u.Reshape(m, r))
	dev.Gemm(true, false, 1, j.vt.Cols(0, r*n).Reshape(r, n), identity, 0, v.Reshape(n, r))
	t := space.Tangent(array.Shape{Rows: m, Cols: n}, r, u, v)
	q := &nuclearTangent{Plain: prox.Plain{Sum: j.trace, Squares: j.frobenius2, Summed: true}, j: j}
	q.Hold(cols)
	return &prox.Model{Space: t, Curvature: q, Margin: margin, Diagonal: diagonal}
}

// nuclearTangent is J in the coordinates (Q, P), as a curvature: J_T is (E*E + t Q)^{-1}. It holds the vectors that the
// space is made of, U1 m x r and V1 n x r.
type nuclearTangent struct {
	prox.Plain
	j *nuclearDerivative
}

// Precondition sets dst = J_T z and image = z - dst, without the part of Q within U1, which E maps
// to 0 and which could otherwise grow unnoticed in conjugate gradients.
func (t *nuclearTangent) Precondition(dst, image, z array.Batch) {
	j := t.j
	m, n, r, q := j.m, j.n, j.r, j.q
	vector.CheckApply("nuclear norm", r*(m+n), dst, z)
	dev, k := dst.Device(), z.K()
	if k == 0 {
		return
	}
	parts := func(c array.Batch) (q, p array.Batch) { return c.Cols(0, r*m), c.Cols(r*m, r*(m+n)) }
	cu, cv, rr := array.Shape{Rows: m, Cols: r}, array.Shape{Rows: n, Cols: r}, array.Shape{Rows: r, Cols: r}
	qu, qv := array.Shape{Rows: q, Cols: m}, array.Shape{Rows: q, Cols: n}
	qr := array.Shape{Rows: q, Cols: r}

	dev.Lin(image, 1, z, 0, array.Batch{}) // z without the part of Q within U1
	qd, pd := parts(dst)
	qo, po := parts(image)

	s, b, w, tmp := dev.Alloc(k, q*r), dev.Alloc(k, q*r), dev.Alloc(k, q*r), dev.Alloc(k, q*r)
	defer array.Free(s, b, w, tmp)
	one := func(c array.Batch) array.Batch { return c.Cols(0, r*r) }
	two := func(c array.Batch) array.Batch { return c.Cols(r*r, q*r) }
	dev.GemmEach(false, false, 1, j.vt, qv, po, cv, 0, s)
	dev.GemmEach(false, false, 1, j.ut, qu, qo, cu, 0, b)
	dev.GemmEach(true, false, -1, j.ut.Cols(0, r*m), array.Shape{Rows: r, Cols: m}, one(b), rr, 1, qo)

	j.within(one(w), one(tmp), one(s))
	if q > r {
		combine(two(w), two(tmp), two(j.alpha), two(s), two(j.beta), two(b))
	}
	dev.Mul(pd, j.left, po)
	dev.GemmEach(true, false, 1, j.vt, qv, w, qr, 1, pd)
	dev.Mul(qd, j.right, qo)
	if q > r {
		combine(two(w), two(tmp), two(j.beta), two(s), two(j.alpha), two(b))
		dev.GemmEach(true, false, 1, j.ut.Cols(r*m, q*m), array.Shape{Rows: q - r, Cols: m}, two(w),
			array.Shape{Rows: q - r, Cols: r}, 1, qd)
	}
	vector.Rest(image, image, dst)
}

// within sets w = alpha1 ∘ s + beta1 ∘ s*, for r x r matrices s, with scratch tmp.
func (j *nuclearDerivative) within(w, tmp, s array.Batch) {
	dev, n := w.Device(), j.r*j.r
	dev.Gather(tmp, s, j.swap)
	dev.Mul(tmp, j.beta.Cols(0, n), tmp)
	dev.Mul(w, j.alpha.Cols(0, n), s)
	dev.Lin(w, 1, w, 1, tmp)
}

func combine(dst, tmp, a, x, c, y array.Batch) {
	dev := dst.Device()
	dev.Mul(dst, a, x)
	dev.Mul(tmp, c, y)
	dev.Lin(dst, 1, dst, 1, tmp)
}

// applyOneSide is apply where the vectors near are a complete basis of their space, of dimension r
// = nNear, so that T = near Z, or near Z* when trans is set, determines Z.
func (j *nuclearDerivative) applyOneSide(dst, z array.Batch, x array.Shape, d, near, far array.Batch, nNear, nFar int,
	trans bool) {
	dev, k, r := dst.Device(), z.K(), j.r
	sn, sf := array.Shape{Rows: r, Cols: nNear}, array.Shape{Rows: r, Cols: nFar}
	rr := array.Shape{Rows: r, Cols: r}

	t := dev.Alloc(k, r*nFar)
	s, w, tmp := dev.Alloc(k, r*r), dev.Alloc(k, r*r), dev.Alloc(k, r*r)

	dev.GemmEach(false, trans, 1, near, sn, z, x, 0, t)
	dev.GemmEach(false, true, 1, far, sf, t, sf, 0, s)
	j.within(w, tmp, s)
	dev.Mul(t, d, t)
	dev.GemmEach(true, false, 1, w, rr, far, sf, 1, t)
	if trans {
		dev.GemmEach(true, false, 1, t, sf, near, sn, 0, dst)
	} else {
		dev.GemmEach(true, false, 1, near, sn, t, sf, 0, dst)
	}

	array.Free(t, s, w, tmp)
}
