package lowrank

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// NuclearCurvature is the curvature of lambda ||B||_* at a solution of low rank, by products. On
// the tangent space T of the rank-r matrices at B = U F V*, F = diag(f), the derivative J of
// prox_{t r} has an inverse, and
//
//	K = (J^{-1} - I)/t
//
// does not depend on t: it is the Riemannian Hessian of lambda ||.||_* along the matrices of rank
// r, the second derivative plus the gradient's product with the curvature of that manifold. The
// derivative of the estimator is
//
//	D mu_hat = A_T (A_T* A_T + K)^{-1} A_T*.
//
// Where J needs the vectors of the inactive singular values, K takes products with the matrix that
// has them. Let -A*(A B - y) = lambda U V* + W be the subgradient at B, W the part outside T,
// ||W|| <= lambda. In the coordinates
//
//	Z = Q (V F^{1/2})* + (U F^{1/2}) P*,   Q* U = 0,
//
// with N = P* V, P' = P - V N* and s = f^{1/2},
//
//	K (Q, P) = (lambda Q - W P', lambda P' - W* Q + V L*)
//	L*_ij = lambda s_j (s_j N*_ij - s_i N_ij)/(f_i + f_j),
//
// which is the inverse of the system of the active-inactive part of J. W is applied, never formed:
// where A picks entries a product takes 2 d r flops.
//
// Conjugate gradients need an approximation of (K + h F)^{-1} beside it, where h F stands for
// A_T* A_T in these coordinates. The rows and columns of data differ widely in the number of
// entries that are seen, and so h is not a number but the diagonal of A_T* A_T ([Mass]): with
// D = lambda + h f, entry by entry, and Pi Q = Q - U U* Q, Pi P = P - V V* P, it is
//
//	Pi D^{-1} Pi + sum_j (a_j, c_j) beta_j (a_j, c_j)* + (N's part).
//
// K is small along the singular vectors a_j, c_j of W whose values rho_j are near lambda, of which
// are known: beta_j adds what D^{-1} lacks of the inverse of (K + h F)'s quadratic form there (an additive
// coarse space: Smith, Bjorstad and Gropp, Domain Decomposition, 1996). N's part solves a system of 2 x 2 for
// each N_ij and N_ji.
//
// It is a [prox.Curvature] for t = 1, on the space [NuclearCurvature.Space] of the coordinates (Q, P):
// there E*E is F, and the preconditioner is that of (K + h F)^{-1}. It offers neither K as a matrix
// nor J's trace.
type NuclearCurvature struct {
	m, n, r, q int
	lambda     float64
	normal     Normal
	mem        array.Batch // all of the below but swap
	u, v       array.Batch // U F^{1/2} m x r and V F^{1/2} n x r
	bu, bv     array.Batch // [U A] m x q and [V C] n x q
	u1, v1     array.Batch // U m x r and V n x r
	spread     array.Batch // 1/(lambda + h f_l) for every entry of (Q, P)
	swap       array.Index // which transposes r x r matrices
	// The coefficients of V* P and its transpose in the N* of a preconditioned vector, and in its
	// L* - lambda N*.
	same, turned, plus, minus array.Batch // r x r
	coarse                    array.Batch // beta/2, (q - r) x r
}

// Normal is a matrix G that agrees with the W of a [NuclearCurvature] outside T, by products.
type Normal interface {
	// SubMul sets q_i = q_i - G p0_i and p_i = p_i - G* q0_i for m x r matrices q_i and q0_i and n x
	// r matrices p_i and p0_i, row-major: one pass over G serves both.
	SubMul(q, p, q0, p0 array.Batch)
	// Bytes is the device memory it holds.
	Bytes() int64
	// Release frees that memory.
	Release()
}

// Leading is a few leading singular triplets of the matrix W of a [NuclearCurvature]: A is m x l
// and C n x l, with orthonormal columns that are orthogonal to U and V, and Sigma has l values of
// at most lambda. They need not be accurate.
type Leading struct {
	Sigma []float64
	A, C  array.Batch
}

// Mass is the diagonal of A_T* A_T, or of an operator that stands for it in a preconditioner, in
// the bases
//
//	Rows_il = ||A(e_i v_l*)||^2,   Columns_jl = ||A(u_l e_j*)||^2,   Core_kl = ||A(u_k v_l*)||^2:
//
// batches of m x r and n x r numbers, and r x r numbers, row-major, on the host.
type Mass struct {
	Rows, Columns array.Batch
	Core          []float64
}

// NewNuclearCurvature returns K at U diag(f) V*, where the batches u, m x r, and v, n x r, have
// orthonormal columns and f > 0; it copies all three, and owns normal. It panics on a mismatch of
// shapes. The mass is only read.
func NewNuclearCurvature(lambda float64, u array.Batch, f []float64, v array.Batch, lead Leading, h Mass,
	normal Normal) *NuclearCurvature {
	dev := u.Device()
	m, n, r := u.K(), v.K(), len(f)
	l := len(lead.Sigma)
	if u.N() != r || v.N() != r || r == 0 || l > 0 && (lead.A.K() != m || lead.C.K() != n || lead.A.N() != l ||
		lead.C.N() != l) {
		panic(fmt.Sprintf("prox: curvature of the nuclear norm at %s and %s with %d active and %d inactive values", u,
			v, r, l))
	}
	if h.Rows.K() != m || h.Rows.N() != r || h.Columns.K() != n || h.Columns.N() != r || len(h.Core) != r*r {
		panic(fmt.Sprintf("prox: curvature of the nuclear norm at %s and %s with masses %s, %s and %d numbers", u, v,
			h.Rows, h.Columns, len(h.Core)))
	}
	q := r + l
	k := &NuclearCurvature{m: m, n: n, r: r, q: q, lambda: lambda, normal: normal}
	sizes := []int{m * r, n * r, m * q, n * q, m * r, n * r, (m + n) * r, r * r, r * r, r * r, r * r, l * r}
	total := 0
	for _, s := range sizes {
		total += s
	}
	k.mem = dev.Alloc(1, total)
	at := 0
	for i, to := range []*array.Batch{&k.u, &k.v, &k.bu, &k.bv, &k.u1, &k.v1, &k.spread, &k.same, &k.turned,
		&k.plus, &k.minus, &k.coarse} {
		*to = k.mem.Cols(at, at+sizes[i])
		at += sizes[i]
	}
	root := dev.Alloc(1, r)
	defer root.Free()
	dev.Upload(root, lists.Map(f, math.Sqrt))
	dev.Mul(k.u.Reshape(m, r), u, root)
	dev.Mul(k.v.Reshape(n, r), v, root)
	dev.Copy(k.u1.Reshape(m, r), u)
	dev.Copy(k.v1.Reshape(n, r), v)
	join := func(to, a, b array.Batch) {
		to = to.Reshape(a.K(), q)
		dev.Copy(to.Cols(0, r), a)
		if l > 0 {
			dev.Copy(to.Cols(r, q), b)
		}
	}
	join(k.bu, u, lead.A)
	join(k.bv, v, lead.C)
	k.swap = transposition(dev, r)
	spreadQ, spreadP := k.parts(k.spread)
	k.spreading(spreadQ.Reshape(m, r), h.Rows, f)
	k.spreading(spreadP.Reshape(n, r), h.Columns, f)
	k.core(f, h.Core)
	if l > 0 {
		k.deflate(f, lead, h)
	}
	return k
}

// spreading sets dst to 1/D, D_il = lambda + mass_il f_l, on the device: 1 - lambda/D is the block
// soft threshold's factor for blocks of squared norm D^2.
func (k *NuclearCurvature) spreading(dst, mass array.Batch, f []float64) {
	dev, r := dst.Device(), k.r
	on, ones := dev.Alloc(1, r), dev.Alloc(1, r)
	defer array.Free(on, ones)
	dev.Upload(on, f)
	dev.Fill(ones, 1)
	dev.Mul(dst, mass, on)
	dev.Lin(dst, 1, dst, k.lambda, ones)
	dev.Mul(dst, dst, dst)
	dev.Shrink(dst, dst, array.Batch{}, k.lambda)
	dev.Lin(dst, -1/k.lambda, dst, 1/k.lambda, ones)
}

// leastMass is the smallest mass along u_k v_l* that is counted, as a share of the mean.
const leastMass = 1e-6

// core uploads the coefficients for N. With M_ij = s_i N_ij and kappa = lambda/(f_i + f_j) the
// preconditioned N solves
//
//	(h_ij + kappa) M_ij - kappa M_ji = (V* P)_ji/s_i.
func (k *NuclearCurvature) core(f, mass []float64) {
	dev, r, lambda := k.mem.Device(), k.r, k.lambda
	least := leastMass * floats.Sum(mass) / float64(r*r)
	if !(least > 0) {
		least = 1
	}
	s := lists.Map(f, math.Sqrt)
	n := r * r
	host := make([]float64, 4*n)
	same, turned, plus, minus := host[:n], host[n:2*n], host[2*n:3*n], host[3*n:]
	for i := range r {
		for j := range r {
			at := i*r + j
			hij, hji := max(mass[at], least), max(mass[j*r+i], least)
			kappa := lambda / (f[i] + f[j])
			det := hij*hji + kappa*(hij+hji)
			same[at] = (hij + kappa) / det / f[j]
			turned[at] = kappa / det / (s[i] * s[j])
			plus[at] = kappa*hij/det - lambda*same[at]
			minus[at] = -kappa*hji/det*(s[j]/s[i]) - lambda*turned[at]
		}
	}
	for i, to := range []array.Batch{k.same, k.turned, k.plus, k.minus} {
		dev.Upload(to, host[i*n:(i+1)*n])
	}
}

// atATime is the number of leading vectors that are squared at a time.
const atATime = 16

// nearest is the smallest lambda - rho_j that is counted, as a share of lambda.
const nearest = 0x1p-52

// deflate uploads beta/2: along (a_j, c_j)/sqrt(2), in column l, the quadratic form of K + h F is
//
//	lambda - rho_j + f_l (sum_i a_ij^2 Rows_il + sum_i c_ij^2 Columns_il)/2.
func (k *NuclearCurvature) deflate(f []float64, lead Leading, h Mass) {
	dev, m, n, r, l := k.mem.Device(), k.m, k.n, k.r, k.q-k.r
	mean := func(rows, columns array.Batch) []float64 {
		sum := dev.Alloc(l, r)
		defer sum.Free()
		add := func(vectors, weights array.Batch, beta float64) {
			squares := dev.Alloc(vectors.K(), min(l, atATime))
			defer squares.Free()
			for from := 0; from < l; from += atATime {
				to := min(from+atATime, l)
				some, squares := vectors.Cols(from, to), squares.Cols(0, to-from)
				dev.Mul(squares, some, some)
				dev.Gemm(true, false, 0.5, squares, weights, beta, sum.Rows(from, to))
			}
		}
		add(lead.A, rows, 0)
		add(lead.C, columns, 1)
		return sum.ToHost()
	}
	spreadQ, spreadP := k.parts(k.spread)
	mass, have := mean(h.Rows, h.Columns), mean(spreadQ.Reshape(m, r), spreadP.Reshape(n, r))
	beta := make([]float64, l*r)
	for j, sigma := range lead.Sigma {
		gap := max(k.lambda-sigma, nearest*k.lambda)
		for i := range f {
			at := j*r + i
			beta[at] = max(1/(gap+f[i]*mass[at])-have[at], 0) / 2
		}
	}
	dev.Upload(k.coarse, beta)
}

// Len is the number of coordinates, (m + n) r.
func (k *NuclearCurvature) Len() int { return (k.m + k.n) * k.r }

// Factors returns U F^{1/2} and V F^{1/2}, row-major, which with the coordinates Q and P make Z:
// batches of one vector that live as long as k and that the caller must neither modify nor free.
func (k *NuclearCurvature) Factors() (u, v array.Batch) { return k.u, k.v }

func (k *NuclearCurvature) parts(z array.Batch) (q, p array.Batch) {
	return z.Cols(0, k.m*k.r), z.Cols(k.m*k.r, k.Len())
}

// Precondition sets dst_i to about (K + h F)^{-1} z_i, with Q* U = 0 whatever z_i is, by a positive
// definite operator, and image_i to K dst_i, up to what the coordinates leave open: a part of Q
// within U. The three are different batches.
func (k *NuclearCurvature) Precondition(dst, image, z array.Batch) {
	vector.CheckApply("curvature of the nuclear norm", k.Len(), dst, z)
	vector.CheckApply("curvature of the nuclear norm", k.Len(), image, z)
	if z.K() == 0 {
		return
	}
	m, n, r, q := k.m, k.n, k.r, k.q
	dev, count := z.Device(), z.K()
	zq, zp := k.parts(z)
	dq, dp := k.parts(dst)
	iq, ip := k.parts(image)
	cu, cv := array.Shape{Rows: m, Cols: r}, array.Shape{Rows: n, Cols: r}
	bu, bv := array.Shape{Rows: m, Cols: q}, array.Shape{Rows: n, Cols: q}
	qr, rr := array.Shape{Rows: q, Cols: r}, array.Shape{Rows: r, Cols: r}
	x, y := dev.Alloc(count, q*r), dev.Alloc(count, q*r)
	turned, tmp := dev.Alloc(count, r*r), dev.Alloc(count, r*r)

	dev.GemmEach(true, false, 1, k.bu, bu, zq, cu, 0, y)
	dev.GemmEach(true, false, 1, k.bv, bv, zp, cv, 0, x)
	inU, inV := y.Cols(0, r*r), x.Cols(0, r*r)

	// Pi D^{-1} Pi but for the outer Pi, which goes with the coarse space: [U A] times what y
	// becomes, and [V C] times what x becomes.
	dev.Copy(dst, z)
	dev.GemmEach(false, false, -1, k.u1, cu, inU, rr, 1, dq)
	dev.GemmEach(false, false, -1, k.v1, cv, inV, rr, 1, dp)
	dev.Mul(dst, dst, k.spread)
	dev.Gather(turned, inV, k.swap)
	if q > r {
		ofA, ofC := y.Cols(r*r, q*r), x.Cols(r*r, q*r)
		dev.Lin(ofA, 1, ofA, 1, ofC)
		dev.Mul(ofA, ofA, k.coarse)
		dev.Copy(ofC, ofA)
	}
	dev.GemmEach(true, false, -1, k.u1, cu, dq, cu, 0, inU)
	along := dev.Alloc(count, r*r)
	combine(along, tmp, k.plus, inV, k.minus, turned)
	combine(inV, tmp, k.same, inV, k.turned, turned)
	dev.GemmEach(true, false, -1, k.v1, cv, dp, cv, 1, inV)
	dev.GemmEach(false, false, 1, k.bu, bu, y, qr, 1, dq)
	dev.GemmEach(false, false, 1, k.bv, bv, x, qr, 1, dp)

	// K of that: the part V N* of P has the image V L*.
	dev.Lin(image, k.lambda, dst, 0, array.Batch{})
	k.normal.SubMul(iq, ip, dq, dp)
	dev.GemmEach(false, false, 1, k.v1, cv, along, rr, 1, ip)
	array.Free(x, y, turned, tmp, along)
}

// Model is the model with this curvature, which it takes over.
func (k *NuclearCurvature) Model(margin func(v array.Batch) float64) *prox.Model {
	return &prox.Model{Space: k.Space(), Curvature: k, Margin: margin}
}

// Space is the tangent space T with the coordinates (Q, P). It is the caller's to release, and
// lives as long as k.
func (k *NuclearCurvature) Space() space.Space {
	return space.Tangent(array.Shape{Rows: k.m, Cols: k.n}, k.r, k.u, k.v)
}

// Diagonal returns nil: K is not diagonal.
func (k *NuclearCurvature) Diagonal() []float64 { return nil }

// Matrix returns nil: K is known by products.
func (k *NuclearCurvature) Matrix() []float64 { return nil }

// Trace returns false: J's trace takes singular values that are not known here.
func (k *NuclearCurvature) Trace() (trace, frobenius2 float64, ok bool) { return 0, 0, false }

// Bytes counts the factors, the coefficients and W.
func (k *NuclearCurvature) Bytes() int64 { return k.mem.Bytes() + k.swap.Bytes() + k.normal.Bytes() }

func (k *NuclearCurvature) Release() {
	k.mem.Free()
	k.swap.Free()
	k.normal.Release()
}
