package vjp

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// implicit differentiates the fixed point instead of the iterations. At a
// solution b = prox_{eta r}(v), v = b - eta A*(A b - y), for any eta > 0. With
// J = D prox_{eta r}(v) and H = A*A,
//
//	D mu_hat w = A J x,   N x = eta A* w,   N = I - (I - eta H) J.
//
// N is self-adjoint and positive semidefinite in the semi-inner product
// <u, J v>, and conjugate gradients in that product solve the system with one J,
// one A and one A* a step, whatever the regularizer. (In the Euclidean product
// N is not even symmetric.) D mu_hat is symmetric, so that this product is the
// VJP. x itself is never needed: A J x is summed as the search directions go.
//
// The quadratic form w* D mu_hat w = <eta A* w, J x>/eta grows step by step, by
// alpha_k rho_k/eta (Hestenes and Stiefel 1952), and so converges with the square
// of the residual.
//
// What J maps to zero is invisible in that product and multiplied by 1 - alpha_k at
// every step: unless it is projected away it grows until rounding brings it
// back into sight.
//
// A J of low rank confines the system to the tangent space of its range, in whose
// coordinates vectors are short and A, where it picks entries, costs what those cost. Where A*A
// is cheaper there than A, x is summed and A J x computed at the end.
//
// Where the solver knows the leading singular vectors of a nuclear norm's argument, J is not
// even computed. Conjugate gradients in J's product are those for
//
//	(H + K) u = A* w,   D mu_hat w = A u,   K = (J^{-1} - I)/eta,
//
// on J's range, preconditioned by eta J = (K + I/eta)^{-1}. [prox.NuclearCurvature] has a
// cheaper K and a cheaper preconditioner that takes about as many steps.
//
// A J of blocks, that of a matrix of low rank plus a sparse one, confines each to its own.
//
// A diagonal J confines the system to its support S: x outside S is multiplied by
// zero. Where A can restrict itself to columns, it does; and where S is small, the
// matrix of the system,
//
//	K = A_S* A_S + (J_SS^{-1} - I)/eta,   D mu_hat w = A_S K^+ A_S* w,
//
// is factored once, its columns scaled to unit length, so that neither the units
// of the columns nor columns that depend on each other matter.
type implicit struct {
	p       Problem
	eta     float64
	j       prox.Derivative
	op      linops.Operator        // A, or columns
	seen    prox.Derivative        // J, or J in the coordinates of its range
	joint   prox.Derivative        // seen, where it was joined from blocks and is to be released; or nil
	columns linops.Restricted      // A's columns in S, or A on J's range, where that pays; else nil
	mask    array.Batch            // J's diagonal on S where op is restricted, else zero
	dim     int                    // |S|, or p
	curved  *prox.NuclearCurvature // K and a preconditioner in place of J, which is nil then; or nil
	inverse array.Batch            // K^+, |S| x |S|, where it was factored, else zero
	tol     float64                // of VJP, on the residual's J-norm
	form    float64                // of Forms, on the quadratic form

	owned func() // releases A and R, where they are the linearization's own; or nil

	traced            bool // the two numbers below are known
	trace, frobenius2 float64

	steps  atomic.Int64
	failed atomic.Int64
}

// etaFactor times 1/||A||^2 is the step of the fixed point that is
// differentiated. It changes conditioning and nothing else; on matrix completion
// 2 to 50 serve equally well, 1 takes a third more steps.
const etaFactor = 4

// maxSteps bounds the conjugate gradient steps of a probe.
const maxSteps = 2000

// projectEvery is the number of steps between projections on J's range.
const projectEvery = 8

// Tolerances of the conjugate gradients, where the solver was not asked for more.
// Rounding stops the residual at about 1e-10; after that it grows again, and a
// probe that is below lost and has seen its residual grow by regrown has had what
// is to be had.
const (
	implicitTol = 1e-7
	formTol     = 1e-5
	spanTol     = 0.1
	tightest    = 1e-9
	lost        = 1e-6
	regrown     = 1e3
)

// solveTol and formsTol are the tolerances of a solve to tol.
func solveTol(tol float64) float64 { return math.Max(math.Min(implicitTol, tol), tightest) }
func formsTol(tol float64) float64 { return math.Min(formTol, 1000*tol) }

// newImplicit linearizes the fixed point at the solution b.
func newImplicit(p Problem, b, y array.Batch, norm2, tol float64) (_ *implicit, err error) {
	dev := p.Device
	d, dim := p.A.Dims()
	l := &implicit{p: p, eta: 1, op: p.A, dim: dim, tol: solveTol(tol), form: formsTol(tol)}
	if norm2 > 0 {
		l.eta = etaFactor / norm2
	}
	orthogonal := false
	if g, ok := p.A.(linops.RowGram); ok && d == dim {
		// A = sqrt(c) times an orthogonal matrix: with eta = 1/c N is I, and D mu_hat
		// has the eigenvalues of J.
		if c, ok := g.RowGram(); ok && c > 0 {
			l.eta, orthogonal = 1/c, true
		}
	}
	v, z := dev.Alloc(1, dim), dev.Alloc(1, d)
	defer v.Free()
	defer z.Free()
	p.A.Forward(z, b)
	dev.Lin(z, 1, z, -1, y)
	p.A.Adjoint(v, z)
	dev.Lin(v, 1, b, -l.eta, v)
	if l.j, err = p.R.Linearize(v, v, l.eta); err != nil {
		return nil, err
	}
	l.seen = l.j
	if orthogonal {
		if j, ok := l.j.(prox.Tracer); ok {
			l.trace, l.frobenius2 = j.Trace()
			l.traced = true
		}
	} else {
		err = l.restrict()
	}
	if err == nil {
		err = dev.Err()
	}
	if err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// newCurved linearizes at a solution of low rank: op is A on the tangent space of curved,
// which is the linearization's from now on; nil stands for the solution 0.
func newCurved(p Problem, op linops.Restricted, curved *prox.NuclearCurvature, tol float64) *implicit {
	l := &implicit{p: p, eta: 1, op: p.A, tol: solveTol(tol), form: formsTol(tol), curved: curved}
	if curved != nil {
		l.op, l.columns, l.dim = op, op, curved.Len()
	}
	return l
}

// maxFactored bounds the size of the systems that are factored: beyond it
// conjugate gradients are cheaper.
const maxFactored = 2000

// restrict confines the system to the support of a diagonal J, and factors it if
// it is small.
func (l *implicit) restrict() error {
	if l.restrictTangent() || l.dim > maxDense && l.restrictBlocks() {
		return nil
	}
	masked, ok := l.j.(prox.Masked)
	var diagonal []float64
	if ok {
		diagonal, ok = l.restrictTo(masked)
	}
	if !ok {
		if done, err := l.factorBlocks(); done || err != nil {
			return err
		}
		if l.dim <= maxDense {
			return l.factorDense()
		}
		return nil
	}
	n := l.dim
	if n == 0 || n > maxFactored {
		return nil
	}
	return l.factor(diagonal)
}

// restrictTo confines the system to the support of a diagonal J where that pays
// and the operator can, and returns J's diagonal there.
func (l *implicit) restrictTo(j prox.Masked) ([]float64, bool) {
	var set []int
	var diagonal []float64
	for i, v := range j.Diagonal().ToHost() {
		if v != 0 {
			set = append(set, i)
			diagonal = append(diagonal, v)
		}
	}
	if n := len(set); 2*n > l.dim && n > maxFactored {
		return nil, false
	}
	columns := linops.Restrict(l.p.A, set)
	if columns == nil {
		return nil, false
	}
	dev := l.p.Device
	idx := dev.NewIndex(set)
	defer idx.Free()
	l.mask = dev.Alloc(1, len(set))
	dev.Gather(l.mask, j.Diagonal(), idx)
	l.columns, l.op, l.dim = columns, columns, len(set)
	return diagonal, true
}

// restrictTangent confines the system to the tangent space of a J of low rank where A
// can do so too: D mu_hat w = (A E) J_T x, with the same equation for x as before but
// in the coordinates of that space, (m + n) r where there were m n.
func (l *implicit) restrictTangent() bool {
	low, ok := l.j.(prox.LowRank)
	a, can := l.p.A.(linops.TangentRestrictor)
	if !ok || !can {
		return false
	}
	t, ok := low.Tangent()
	if !ok || t.Len() >= l.dim {
		return false
	}
	op := a.RestrictTangent(t.Shape, t.Rank, t.U, t.V)
	if op == nil {
		return false
	}
	l.columns, l.op, l.dim, l.seen = op, op, t.Len(), t.J
	return true
}

// restrictBlocks confines the system block by block, to the support of a block of J that is
// diagonal and to the tangent space of one of low rank, where A can do so too.
func (l *implicit) restrictBlocks() bool {
	j, ok := l.j.(prox.Blocked)
	a, can := l.p.A.(linops.BlockRestrictor)
	if !ok || !can {
		return false
	}
	dev := l.p.Device
	var parts []linops.Part
	var dims []int
	var blocks []prox.Derivative
	release := func() {
		for _, b := range blocks {
			b.Release()
		}
	}
	for _, b := range j.Blocks() {
		switch b := b.(type) {
		case prox.LowRank:
			t, ok := b.Tangent()
			if !ok {
				release()
				return false
			}
			parts = append(parts, linops.Part{Shape: t.Shape, Rank: t.Rank, U: t.U, V: t.V})
			dims, blocks = append(dims, t.Len()), append(blocks, t.J)
		case prox.Masked:
			set := support(b.Diagonal())
			idx := dev.NewIndex(set)
			diagonal := dev.Alloc(1, len(set))
			dev.Gather(diagonal, b.Diagonal(), idx)
			idx.Free()
			parts = append(parts, linops.Part{Set: set})
			dims, blocks = append(dims, len(set)), append(blocks, prox.NewDiagonal(diagonal))
		default:
			release()
			return false
		}
	}
	op := a.RestrictBlocks(dev, parts)
	if op == nil {
		release()
		return false
	}
	l.joint = prox.Join(dims, blocks)
	_, dim := op.Dims()
	l.columns, l.op, l.dim, l.seen = op, op, dim, l.joint
	return true
}

// gram returns the n x n matrix op* op on the host, row-major.
func gram(dev array.Device, op linops.Operator) []float64 {
	d, n := op.Dims()
	square := dev.Alloc(n, n)
	defer square.Free()
	if x, ok := op.(*linops.Dense); ok {
		x.Gram(square)
		return square.ToHost()
	}
	identity, image := dev.Alloc(n, n), dev.Alloc(n, d)
	defer identity.Free()
	defer image.Free()
	setIdentity(identity)
	op.Forward(image, identity)
	dev.Gemm(false, true, 1, image, image, 0, square)
	return square.ToHost()
}

// setIdentity sets the n x n batch to the unit vectors.
func setIdentity(b array.Batch) {
	dev := b.Device()
	dev.Fill(b, 0)
	dev.Fill(b.Diagonal(), 1)
}

// factor computes K^+ of a diagonal J.
func (l *implicit) factor(j []float64) error {
	n := l.dim
	g := gram(l.p.Device, l.op)
	rest := make([]float64, n*n)
	projection := true
	for i := range n {
		rest[i*n+i] = (1/j[i] - 1) / l.eta
		projection = projection && j[i] == 1
	}
	inverse, rank, err := invertSystem(g, rest, n)
	if err != nil {
		return err
	}
	l.keep(inverse)
	if projection {
		l.trace, l.frobenius2, l.traced = float64(rank), float64(rank), true
	} else {
		l.traceOf(inverse, g)
	}
	return nil
}

// traceOf adds up the eigenvalues of D mu_hat = A_S K^+ A_S*, which are those of K^+ G
// with G = A_S*A_S, row-major, and their squares.
func (l *implicit) traceOf(inverse *mat.Dense, g []float64) {
	n := l.dim
	var product mat.Dense
	product.Mul(inverse, mat.NewDense(n, n, g))
	for i := range n {
		l.trace += product.At(i, i)
		for c := range n {
			l.frobenius2 += product.At(i, c) * product.At(c, i)
		}
	}
	l.traced = true
}

// Trace tells the trace where the system was factored or A is orthogonal.
func (l *implicit) Trace() (trace, frobenius2 float64, ok bool) {
	return l.trace, l.frobenius2, l.traced || l.dim == 0
}

// keep puts K^+ on the device.
func (l *implicit) keep(inverse *mat.Dense) {
	l.inverse = l.p.Device.Alloc(l.dim, l.dim)
	l.p.Device.Upload(l.inverse, inverse.RawMatrix().Data)
}

// invertSystem returns the part of (G + R)^+ that A_S can see, with G = A_S*A_S and
// R positive semidefinite, both n x n, row-major, and the rank of what it returns.
// The system is scaled to a unit diagonal. Where it is well conditioned Cholesky's
// factorization serves. Elsewhere directions that G maps to no more than rounding
// errors are not seen by A_S and are eliminated exactly, by way of R alone: whatever R
// is there, no error is amplified by its inverse.
func invertSystem(g, r []float64, n int) (*mat.Dense, int, error) {
	scale := make([]float64, n)
	for i := range n {
		if scale[i] = 1 / math.Sqrt(g[i*n+i]+r[i*n+i]); math.IsInf(scale[i], 0) || math.IsNaN(scale[i]) {
			scale[i] = 0 // a row and column of zeros
		}
	}
	unit := func(m []float64) *mat.SymDense {
		u := mat.NewSymDense(n, nil)
		for i := range n {
			for c := i; c < n; c++ {
				u.SetSym(i, c, (m[i*n+c]+m[c*n+i])/2*scale[i]*scale[c])
			}
		}
		return u
	}
	gram, rest := unit(g), unit(r)
	var sum, whole mat.SymDense
	sum.AddSym(gram, rest)
	rank := n
	var inverse mat.Matrix = &whole
	var chol mat.Cholesky
	if !chol.Factorize(&sum) || chol.Cond() > wellConditioned || chol.InverseTo(&whole) != nil {
		var err error
		if inverse, rank, err = invertSeen(gram, rest); err != nil {
			return nil, 0, err
		}
	}
	out := mat.NewDense(n, n, nil)
	out.Apply(func(i, c int, v float64) float64 { return scale[i] * v * scale[c] }, inverse)
	return out, rank, nil
}

// wellConditioned is the largest condition number of a system that Cholesky's
// factorization solves to six digits.
const wellConditioned = 1e10

// invertSeen is V (V*(G + R) V - Schur)^{-1} V* with V a basis of G's range, the Schur
// complement being that of G's kernel.
func invertSeen(g, r *mat.SymDense) (mat.Matrix, int, error) {
	n := g.SymmetricDim()
	values, vectors, rank, err := eigenRange(g)
	if err != nil {
		return nil, 0, err
	}
	if rank == 0 {
		return mat.NewDense(n, n, nil), 0, nil
	}
	v := vectors.Slice(0, n, n-rank, n)
	s := mat.NewDense(rank, rank, nil)
	if mat.Norm(r, 1) > 0 {
		var half mat.Dense
		half.Mul(r, v)
		s.Mul(v.T(), &half)
		if rank < n {
			kernel := vectors.Slice(0, n, 0, n-rank)
			var cross, inside mat.Dense
			cross.Mul(kernel.T(), &half) // kernel x range
			half.Reset()
			half.Mul(r, kernel)
			inside.Mul(kernel.T(), &half)
			inverse, err := pseudoInverse(&inside)
			if err != nil {
				return nil, 0, err
			}
			var t, schur mat.Dense
			t.Mul(inverse, &cross)
			schur.Mul(cross.T(), &t)
			s.Sub(s, &schur)
		}
	}
	for i := range rank {
		s.Set(i, i, s.At(i, i)+values[n-rank+i])
	}
	inverse, err := pseudoInverse(s)
	if err != nil {
		return nil, 0, err
	}
	var half, out mat.Dense
	half.Mul(v, inverse)
	out.Mul(&half, v.T())
	return &out, rank, nil
}

// eigenRange is the eigendecomposition of a positive semidefinite matrix,
// ascending, and the number of eigenvalues above rounding, n eps of the largest.
func eigenRange(k *mat.SymDense) (values []float64, vectors *mat.Dense, rank int, err error) {
	n := k.SymmetricDim()
	var eig mat.EigenSym
	if !eig.Factorize(k, true) {
		return nil, nil, 0, fmt.Errorf("vjp: the eigenvalues of the %d x %d system of the implicit derivative did not converge", n, n)
	}
	values, vectors = eig.Values(nil), new(mat.Dense)
	eig.VectorsTo(vectors)
	for rank < n && values[n-1-rank] > float64(n)*0x1p-52*values[n-1] {
		rank++
	}
	return values, vectors, rank, nil
}

// pseudoInverse is k^+ of a symmetric positive semidefinite matrix.
func pseudoInverse(k *mat.Dense) (mat.Matrix, error) {
	n, _ := k.Dims()
	sym := mat.NewSymDense(n, nil)
	for i := range n {
		for c := i; c < n; c++ {
			sym.SetSym(i, c, (k.At(i, c)+k.At(c, i))/2)
		}
	}
	values, vectors, rank, err := eigenRange(sym)
	if err != nil {
		return nil, err
	}
	half := mat.NewDense(n, max(rank, 1), nil)
	for c := range rank {
		from := n - 1 - c
		for i := range n {
			half.Set(i, c, vectors.At(i, from)/math.Sqrt(values[from]))
		}
	}
	var inverse mat.SymDense
	inverse.SymOuterK(1, half)
	return &inverse, nil
}

// factorBlocks is factor for a J that is invertible on the coordinates it does not
// ignore, as that of a group penalty is: with S where J's diagonal is not 0,
//
//	D mu_hat w = A_S K^+ A_S* w,   K = A_S*A_S + (J_SS^{-1} - I)/eta.
//
// It returns false, having done nothing, where the system is large, J is singular
// on S, or A cannot restrict itself to columns.
func (l *implicit) factorBlocks() (bool, error) {
	dev, n := l.p.Device, l.dim
	if _, can := l.p.A.(linops.Restrictor); !can || n > maxFactored {
		return false, nil
	}
	square := dev.Alloc(n, n)
	defer square.Free()
	setIdentity(square)
	l.j.Apply(square, square)
	jacobian := square.ToHost()
	var set []int
	for i := range n {
		if jacobian[i*n+i] > 0 {
			set = append(set, i)
		}
	}
	s := len(set)
	if s == 0 {
		l.dim = 0
		return true, nil
	}
	block := mat.NewSymDense(s, nil)
	for i, from := range set {
		for c := i; c < s; c++ {
			block.SetSym(i, c, (jacobian[from*n+set[c]]+jacobian[set[c]*n+from])/2)
		}
	}
	var chol mat.Cholesky
	var inverse mat.SymDense
	if !chol.Factorize(block) || chol.Cond() > 1e12 || chol.InverseTo(&inverse) != nil {
		return false, nil
	}
	columns := linops.Restrict(l.p.A, set)
	if columns == nil {
		return false, nil
	}
	l.columns, l.op, l.dim = columns, columns, s
	g := gram(dev, columns)
	rest := make([]float64, s*s)
	for i := range s {
		for c := range s {
			one := 0.0
			if i == c {
				one = 1
			}
			rest[i*s+c] = (inverse.At(i, c) - one) / l.eta
		}
	}
	small, _, err := invertSystem(g, rest, s)
	if err != nil {
		return false, err
	}
	l.keep(small)
	l.traceOf(small, g)
	return true, nil
}

// maxDense bounds p where J is neither diagonal nor A a matrix of columns and the
// system is factored all the same: its eigenvalues take a few milliseconds.
const maxDense = 256

// factorDense is factor for any J. With J = Q diag(j) Q* on its range,
//
//	D mu_hat w = A Q K^+ Q* A* w,   K = Q* A*A Q + diag(1/j - 1)/eta.
func (l *implicit) factorDense() error {
	dev, n := l.p.Device, l.dim
	square := dev.Alloc(n, n)
	defer square.Free()
	setIdentity(square)
	l.j.Apply(square, square)
	host := square.ToHost()
	jacobian := mat.NewSymDense(n, nil)
	for i := range n {
		for c := i; c < n; c++ {
			jacobian.SetSym(i, c, (host[i*n+c]+host[c*n+i])/2)
		}
	}
	var eig mat.EigenSym
	if !eig.Factorize(jacobian, true) {
		return fmt.Errorf("vjp: the eigenvalues of the %d x %d derivative of the proximal operator did not converge", n, n)
	}
	j := eig.Values(nil)
	var vectors mat.Dense
	eig.VectorsTo(&vectors)
	first := 0
	for first < n && j[first] <= float64(n)*0x1p-50 {
		first++
	}
	r := n - first
	if r == 0 {
		l.dim = 0
		return nil
	}
	q := vectors.Slice(0, n, first, n)
	var half, k, inverse mat.Dense
	g := gram(dev, l.p.A)
	half.Mul(mat.NewDense(n, n, g), q)
	k.Mul(q.T(), &half)
	rest := make([]float64, r*r)
	for i := range r {
		rest[i*r+i] = math.Max(1/j[first+i]-1, 0) / l.eta
	}
	small, _, err := invertSystem(k.RawMatrix().Data, rest, r)
	if err != nil {
		return err
	}
	half.Reset()
	half.Mul(q, small)
	inverse.Mul(&half, q.T())
	l.keep(&inverse)
	l.traceOf(&inverse, g)
	return nil
}

// Kind is "implicit".
func (l *implicit) Kind() string { return "implicit" }

// Bytes counts the prox derivative and A's columns in its support.
func (l *implicit) Bytes() int64 {
	bytes := l.mask.Bytes() + l.inverse.Bytes()
	if l.j != nil {
		bytes += l.j.Bytes()
	}
	if l.curved != nil {
		bytes += l.curved.Bytes()
	}
	if l.joint != nil {
		bytes += l.joint.Bytes()
	}
	if l.columns != nil {
		bytes += l.columns.Bytes()
	}
	if own, ok := l.p.A.(linops.Restricted); ok && l.owned != nil {
		bytes += own.Bytes()
	}
	return bytes
}

// ProbeBytes counts five vectors on the support, seven where K or A*A takes its own, and two
// of length d.
func (l *implicit) ProbeBytes() int64 {
	d, _ := l.p.A.Dims()
	vectors := int64(5)
	if _, squares := l.op.(linops.NormalMap); squares || l.curved != nil {
		vectors = 7
	}
	return 8 * (vectors*int64(l.dim) + 2*int64(d))
}

// own hands the problem's operator and regularizer over to the linearization.
func (l *implicit) own(release func()) {
	l.owned = release
	if l.columns != nil {
		// Neither is needed any more.
		release()
		l.owned = nil
	}
}

// Release frees the prox derivative and the columns.
func (l *implicit) Release() {
	if l.j != nil {
		l.j.Release()
	}
	if l.curved != nil {
		l.curved.Release()
	}
	if l.joint != nil {
		l.joint.Release()
	}
	l.mask.Free()
	l.inverse.Free()
	if l.columns != nil {
		l.columns.Release()
	}
	if l.owned != nil {
		l.owned()
	}
}

// Report tells the largest number of steps that a probe has taken and how many
// probes stopped short of their tolerance.
func (l *implicit) Report() (steps, failed int) {
	return int(l.steps.Load()), int(l.failed.Load())
}

// VJP sets dst_i = D mu_hat v_i, to a relative residual of 1e-7.
func (l *implicit) VJP(ctx context.Context, dst, v array.Batch) error {
	return l.solve(ctx, dst, v, l.images)
}

// Forms sets dst_i to an approximation of D mu_hat v_i whose quadratic form
// <v_i, dst_i> is off by about 1e-5 of itself.
func (l *implicit) Forms(ctx context.Context, dst, v array.Batch) error {
	return l.solve(ctx, dst, v, l.forms)
}

// Span stops at a residual of spanTol.
func (l *implicit) Span(ctx context.Context, dst, v array.Batch) error {
	return l.solve(ctx, dst, v, l.span)
}

// enough says when a probe is done: of its residual's J-norm, relative to the first,
// squared, and of what the quadratic form still lacks, relative to the form.
type enough func(residual2, lacking float64) bool

func (l *implicit) images(residual2, _ float64) bool { return residual2 <= l.tol*l.tol }

func (l *implicit) forms(residual2, lacking float64) bool {
	return l.images(residual2, lacking) || lacking <= l.form && residual2 <= 1e-6
}

func (l *implicit) span(residual2, _ float64) bool { return residual2 <= spanTol*spanTol }

// apply sets jr = J r and, now and then, takes from r what J does not see: that
// grows by a small factor a step and costs half as much again as J. Where there is K
// it sets jr to its preconditioner's image and kr = K jr.
func (l *implicit) apply(jr, kr, r array.Batch, step int) {
	switch {
	case l.curved != nil:
		l.curved.Precondition(jr, kr, r)
	case !l.mask.IsZero():
		l.p.Device.Mul(jr, r, l.mask)
	case step%projectEvery == 0:
		prox.ApplyRange(l.seen, jr, r, r)
	default:
		l.seen.Apply(jr, r)
	}
}

// solve runs conjugate gradients on every probe. A probe that has converged is
// frozen: its coefficients are 0 and its bits stay, whatever the others do.
func (l *implicit) solve(ctx context.Context, dst, w array.Batch, enough enough) error {
	dev := l.p.Device
	d, _ := l.p.A.Dims()
	k := w.K()
	if dst.K() != k || dst.N() != d || w.N() != d {
		panic(fmt.Sprintf("vjp: VJP of %s into %s with d = %d", w, dst, d))
	}
	dev.Fill(dst, 0)
	if k == 0 || l.dim == 0 {
		return dev.Err()
	}
	if !l.inverse.IsZero() {
		t, x := dev.Alloc(k, l.dim), dev.Alloc(k, l.dim)
		defer t.Free()
		defer x.Free()
		l.op.Adjoint(t, w)
		dev.Gemm(false, false, 1, t, l.inverse, 0, x)
		l.op.Forward(dst, x)
		return dev.Err()
	}
	r, dir, jdir, t := dev.Alloc(k, l.dim), dev.Alloc(k, l.dim), dev.Alloc(k, l.dim), dev.Alloc(k, l.dim)
	// A J x is summed direction by direction, or x is where A*A does without A.
	sumOf, q := dst, array.Batch{}
	square, squares := l.op.(linops.NormalMap)
	if squares {
		sumOf, q = dev.Alloc(k, l.dim), dev.Alloc(k, l.dim)
		defer sumOf.Free()
		dev.Fill(sumOf, 0)
	} else {
		q = dev.Alloc(k, d)
	}
	defer func() {
		for _, b := range []array.Batch{r, dir, jdir, t, q} {
			b.Free()
		}
	}()
	// The direction's image is summed from that of the residual, or from r itself.
	image := r
	if l.curved != nil {
		image = dev.Alloc(k, l.dim)
		defer image.Free()
	}
	l.op.Adjoint(r, w)
	dev.Lin(r, l.eta, r, 0, array.Batch{})
	l.apply(jdir, image, r, 0)
	dev.Copy(dir, image)

	numbers := make([]float64, 10*k)
	next := func() []float64 {
		n := numbers[:k:k]
		numbers = numbers[k:]
		return n
	}
	rho, start, sum, curvature, jj, qq, alpha, beta, ones, best := next(), next(), next(), next(), next(), next(), next(), next(), next(), next()
	for i := range ones {
		ones[i] = 1
	}
	dev.Dot(rho, r, jdir)
	copy(start, rho)
	copy(best, rho)
	active := 0
	done := make([]bool, k)
	for i, v := range rho {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("vjp: implicit derivative: probe %d gives a right-hand side that is not finite", i)
		}
		if done[i] = v <= 0; !done[i] {
			active++
		}
	}
	for step := 1; active > 0; step++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		// <N dir, J dir> = <dir, J dir> - ||J dir||^2 + eta ||A J dir||^2; with K it is
		// <K dir, dir> + ||A dir||^2, and dir holds K dir.
		if squares {
			square.ApplyNormal(q, jdir)
		} else {
			l.op.Forward(q, jdir)
		}
		dev.Dot(curvature, dir, jdir)
		if l.curved == nil {
			dev.Dot(jj, jdir, jdir)
		} else {
			clear(jj)
		}
		if squares {
			dev.Dot(qq, q, jdir)
		} else {
			dev.Dot(qq, q, q)
		}
		for i := range alpha {
			alpha[i] = 0
			if done[i] {
				continue
			}
			c := math.Max(curvature[i]-jj[i], 0) + l.eta*qq[i]
			if !(c > 0) {
				// A direction that neither J nor A sees: the system is solved on the rest.
				done[i] = true
				active--
				continue
			}
			alpha[i] = rho[i] / c
		}
		if squares {
			dev.LinEach(sumOf, ones, sumOf, alpha, jdir)
			dev.Lin(t, l.eta, q, 1, dir)
		} else {
			dev.LinEach(dst, ones, dst, alpha, q)
			l.op.Adjoint(t, q)
			dev.Lin(t, l.eta, t, 1, dir)
		}
		if l.curved == nil {
			dev.Lin(t, 1, t, -1, jdir) // N dir
		}
		for i := range alpha {
			alpha[i] = -alpha[i]
		}
		dev.LinEach(r, ones, r, alpha, t)
		l.apply(t, image, r, step)
		dev.Dot(jj, r, t)
		for i := range beta {
			beta[i] = 0
			if done[i] {
				continue
			}
			gain := -alpha[i] * rho[i]
			sum[i] += gain
			next := math.Max(jj[i], 0)
			if math.IsNaN(jj[i]) {
				return fmt.Errorf("vjp: implicit derivative: probe %d is not finite after %d steps", i, step)
			}
			beta[i] = next / rho[i]
			// What is left of the form is about the next gains, a geometric series.
			left := gain * beta[i] / math.Max(1-beta[i], 0.1)
			stop := enough(next/start[i], left/sum[i])
			best[i] = math.Min(best[i], next)
			stop = stop || best[i] <= lost*lost*start[i] && next >= regrown*regrown*best[i]
			if !stop && step >= maxSteps {
				l.failed.Add(1)
				stop = true
			}
			rho[i] = next
			if stop {
				done[i] = true
				active--
			}
		}
		l.noteSteps(step)
		dev.LinEach(dir, ones, image, beta, dir)
		dev.LinEach(jdir, ones, t, beta, jdir)
		if err := dev.Err(); err != nil {
			return err
		}
	}
	if squares {
		l.op.Forward(dst, sumOf)
	}
	return dev.Err()
}

func (l *implicit) noteSteps(n int) {
	for {
		old := l.steps.Load()
		if int64(n) <= old || l.steps.CompareAndSwap(old, int64(n)) {
			return
		}
	}
}
