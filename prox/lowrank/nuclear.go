package lowrank

import (
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
)

// nuclear is r(B) = lambda ||B||_*.
type nuclear struct {
	shape  array.Shape
	lambda float64
	work   sync.Pool // of *svd
	prox.Known
}

// NewNuclear returns the nuclear norm penalty r(B) = lambda ||B||_*, the sum of B's singular
// values, on vectors that are matrices of the given shape, row-major. Its proximal operator is the
// singular value threshold: with V = sum_i sigma_i u_i v_i* and tau = t lambda,
//
//	prox_{t r}(V) = sum_i max(sigma_i - tau, 0) u_i v_i*.
//
// Where sigma_1/tau is not so large that squares lose accuracy, the singular vectors come from the
// smaller Gram matrix; the host computes its eigenvalues and the device all else, and only a matrix
// of the size of the shorter side is transferred. Elsewhere the SVD is LAPACK's, on the host, and V
// and its singular vectors are transferred. Along the iterates of a solve ([prox.Follower]) a partial
// SVD is used where the rank of the result is low. The derivative needs no gap between singular
// values, neither between two of them nor between one and tau, and treats a rank-deficient, wide or
// tall V like any other. Applying it to one direction takes about 8 m n r flops, r being the rank
// of the result. See [prox.Derivative]; a sigma_i equal to tau counts as below.
//
// lambda = 0 gives the identity and lambda = +Inf gives 0, without an SVD. Otherwise a NaN or
// infinite entry of V and an SVD that does not converge are errors. NewNuclear panics if lambda is
// negative or NaN or the shape is empty.
func NewNuclear(shape array.Shape, lambda float64) prox.Prox {
	vector.CheckLambda("the nuclear norm's lambda", lambda)
	if shape.Rows <= 0 || shape.Cols <= 0 {
		panic(fmt.Sprintf("prox: nuclear norm of %d x %d matrices", shape.Rows, shape.Cols))
	}
	p := &nuclear{shape: shape, lambda: lambda}
	p.Is = prox.Structure{
		Value: p.value, Nuclear: prox.Number{Value: lambda, Known: true}, Shape: shape, DualScale: p.dualScale,
		FenchelGap: p.fenchelGap, Follow: p.follow,
	}
	return p
}

func (p *nuclear) Dim() int { return p.shape.Len() }

// svd is one thin singular value decomposition of an m x n matrix with the memory that it is
// computed in; q = min(m, n).
type svd struct {
	m, n, q int
	s       []float64 // q, decreasing
	staging []float64 // what goes to the device

	// The memory of LAPACK's SVD, allocated when it is first used.
	a    []float64 // m x n, destroyed by the decomposition
	u    []float64 // m x q, one left vector a column
	vt   []float64 // q x n, one right vector a row
	work []float64

	gram, eigenWork []float64 // q x q, and what its eigenvalues take
}

func (p *nuclear) getSVD() *svd {
	if w, ok := p.work.Get().(*svd); ok {
		return w
	}
	m, n := p.shape.Rows, p.shape.Cols
	q := min(m, n)
	return &svd{m: m, n: n, q: q, s: make([]float64, q)}
}

func (w *svd) call(job lapack.SVDJob, work []float64, lwork int) bool {
	return lapack64.Gesvd(job, job,
		blas64.General{Rows: w.m, Cols: w.n, Stride: w.n, Data: w.a},
		blas64.General{Rows: w.m, Cols: w.q, Stride: w.q, Data: w.u},
		blas64.General{Rows: w.q, Cols: w.n, Stride: w.n, Data: w.vt},
		w.s, work, lwork)
}

// factor decomposes the one matrix in v.
func (w *svd) factor(job lapack.SVDJob, v array.Batch) error {
	if w.a == nil {
		w.a, w.u, w.vt = make([]float64, w.m*w.n), make([]float64, w.m*w.q), make([]float64, w.q*w.n)
		var size [1]float64
		w.call(lapack.SVDStore, size[:], -1)
		w.work = make([]float64, int(size[0]))
	}
	dev := v.Device()
	dev.Download(w.a, v)
	if err := dev.Err(); err != nil {
		return fmt.Errorf("prox: nuclear norm: %w", err)
	}
	for i, x := range w.a {
		if x-x != 0 {
			return fmt.Errorf("prox: nuclear norm: entry (%d, %d) of the matrix is %v", i/w.n, i%w.n, x)
		}
	}
	if !w.call(job, w.work, len(w.work)) {
		return fmt.Errorf("prox: nuclear norm: the SVD of the %d x %d matrix did not converge", w.m, w.n)
	}
	return nil
}

func (w *svd) active(tau float64) int {
	r := 0
	for r < w.q && w.s[r] > tau {
		r++
	}
	return r
}

func (w *svd) stage(n int) []float64 {
	if cap(w.staging) < n {
		w.staging = make([]float64, n)
	}
	return w.staging[:n]
}

// threshold sets dst = U1 diag(sigma - tau) V1* for r > 0 active values; v1t is V1* on the device,
// r x n. It overwrites the staging memory.
func (w *svd) threshold(dst, v1t array.Batch, r int, tau float64) {
	dev := dst.Device()
	uf := w.stage(w.m * r)
	for i := range w.m {
		u := w.u[i*w.q:][:r]
		for j, x := range u {
			uf[i*r+j] = x * (w.s[j] - tau)
		}
	}
	a := dev.Alloc(w.m, r)
	dev.Upload(a, uf)
	dev.Gemm(false, false, 1, a, v1t.Reshape(r, w.n), 0, dst.Reshape(w.m, w.n))
	a.Free()
}

func nothing(dst, v array.Batch) {
	dst.Device().Lin(dst, 0, v, 0, array.Batch{})
}

func (p *nuclear) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("nuclear norm", p.Dim(), dst, v, t)
	dev := dst.Device()
	switch {
	case p.lambda == 0:
		dev.Copy(dst, v)
		return nil
	case math.IsInf(p.lambda, 1):
		nothing(dst, v)
		return nil
	}
	for i := range v.K() {
		if _, err := p.evalOne(dst.Rows(i, i+1), v.Rows(i, i+1), t*p.lambda); err != nil {
			return err
		}
	}
	return nil
}

// evalOne sets dst to the singular value threshold of the one matrix in v and returns its rank.
func (p *nuclear) evalOne(dst, v array.Batch, tau float64) (r int, err error) {
	w := p.getSVD()
	defer p.work.Put(w)
	if r, ok := w.thresholdByGram(dst, v, tau); ok {
		return r, nil
	}
	if err := w.factor(lapack.SVDStore, v); err != nil {
		return 0, err
	}
	dev := dst.Device()
	if r = w.active(tau); r == 0 {
		dev.Fill(dst, 0)
		return 0, nil
	}
	v1t := dev.Alloc(1, r*w.n)
	defer v1t.Free()
	dev.Upload(v1t, w.vt[:r*w.n])
	w.threshold(dst, v1t, r, tau)
	return r, nil
}

// gramRange is the largest sigma_1/tau for which the Gram matrix is used: the threshold has an
// error of about eps sigma_1 (sigma_1/tau)^2.
const gramRange = 300

// thresholdByGram sets dst to the singular value threshold of the one matrix X in v by the
// eigenvalues of the smaller Gram matrix,
//
//	prox(X) = X V1 diag(1 - tau/sigma) V1*,   X*X = V diag(sigma^2) V*,
//
// or its mirror image by X X*. That costs a third of an SVD or less, and only the Gram matrix goes
// to the host and only active vectors come back. The function of X*X that is applied is Lipschitz
// with the constant 1/(2 tau^2), so that squares are accurate enough unless sigma_1/tau is large.
// Where it is, or where the squares leave the range of float64, it returns false and does nothing;
// else it returns the rank.
func (w *svd) thresholdByGram(dst, v array.Batch, tau float64) (r int, ok bool) {
	if !w.gramEigen(v, tau, gramRange) {
		return 0, false
	}
	dev := dst.Device()
	q := w.q
	tall := w.m >= w.n
	x := array.Shape{Rows: w.m, Cols: w.n}
	for r < q && w.s[q-1-r] > tau*tau {
		r++
	}
	if r == 0 {
		dev.Fill(dst, 0)
		return 0, true
	}
	host := w.stage(2 * r * q)
	vt, scaled := host[:r*q], host[r*q:]
	for k := range r {
		j := q - 1 - k
		f := 1 - tau/math.Sqrt(w.s[j])
		for i := range q {
			g := w.gram[i*q+j]
			vt[k*q+i] = g
			scaled[k*q+i] = f * g
		}
	}
	both := dev.Alloc(1, 2*r*q)
	defer both.Free()
	dev.Upload(both, host)
	v1t, s1t := both.Cols(0, r*q), both.Cols(r*q, 2*r*q)
	rq := array.Shape{Rows: r, Cols: q}
	inner := dev.Alloc(1, r*max(w.m, w.n))
	defer inner.Free()
	if tall {
		// (X V1) (diag V1*)
		dev.GemmEach(false, true, 1, v, x, v1t, rq, 0, inner)
		dev.GemmEach(false, false, 1, inner, array.Shape{Rows: w.m, Cols: r}, s1t, rq, 0, dst)
	} else {
		// (U1 diag) (U1* X)
		dev.GemmEach(false, false, 1, v1t, rq, v, x, 0, inner)
		dev.GemmEach(true, false, 1, s1t, rq, inner, array.Shape{Rows: r, Cols: w.n}, 0, dst)
	}
	return r, true
}

// gramEigen sets w.gram to the eigenvectors, a column each, of the smaller Gram matrix of the one
// matrix in v, and w.s to its eigenvalues, which ascend. It returns false when the squares leave
// the range of float64 or sigma_1 exceeds limit tau.
func (w *svd) gramEigen(v array.Batch, tau, limit float64) bool {
	dev := v.Device()
	q := w.q
	tall := w.m >= w.n
	x := array.Shape{Rows: w.m, Cols: w.n}
	gram := dev.Alloc(1, q*q)
	defer gram.Free()
	dev.GemmEach(tall, !tall, 1, v, x, v, x, 0, gram)
	if w.gram == nil {
		w.gram = make([]float64, q*q)
	}
	dev.Download(w.gram, gram)
	trace := 0.0
	for i := range q {
		trace += w.gram[i*q+i]
	}
	if !(trace > 0x1p-900 && trace < 0x1p900) || !(tau*tau > 0x1p-1000) {
		return false
	}
	for _, g := range w.gram {
		if g-g != 0 {
			return false
		}
	}
	sym := blas64.Symmetric{N: q, Stride: q, Data: w.gram, Uplo: blas.Upper}
	if w.eigenWork == nil {
		var size [1]float64
		lapack64.Syev(lapack.EVCompute, sym, w.s, size[:], -1)
		w.eigenWork = make([]float64, int(size[0]))
	}
	if !lapack64.Syev(lapack.EVCompute, sym, w.s, w.eigenWork, len(w.eigenWork)) {
		return false
	}
	return math.Sqrt(max(w.s[q-1], 0)) <= limit*tau
}

// gramFactorRange is gramRange for derivatives, whose vectors are off by about eps (sigma_1/tau)^2.
const gramFactorRange = 100

// gramFactors are singular vectors on the device, one a row: those of the shorter side, and their
// images by the matrix, which are sigma_k times those of the other side. The zero value is not
// given.
type gramFactors struct {
	basis array.Batch // q x q
	image array.Batch // q x max(m, n)
}

func (f gramFactors) free() {
	array.Free(f.basis, f.image)
}

// factorByGram decomposes the one matrix X in v by the eigenvectors of the smaller Gram matrix, at
// a third of an SVD's cost or less: where that is X*X = V diag(sigma^2) V*, u_k = X v_k/sigma_k
// with sigma_k = ||X v_k||. Only q x q matrices go to and from the device. It leaves the singular
// values in w.s, the active ones first, and returns false where the squares are not accurate.
//
// The vectors of inactive values much smaller than tau are neither accurate nor orthogonal, but in
// the derivative u_k has the factor sigma_k: it depends on X v_k, and on the v_k being a basis. The
// values themselves, which the trace needs, have an error of eps sigma_1, like those of an SVD; the
// roots of the eigenvalues have a larger one.
func (w *svd) factorByGram(v array.Batch, tau float64) (gramFactors, bool) {
	if !w.gramEigen(v, tau, gramFactorRange) {
		return gramFactors{}, false
	}
	dev, q := v.Device(), w.q
	host := w.stage(q * q)
	for k := range q {
		for i := range q {
			host[k*q+i] = w.gram[i*q+q-1-k]
		}
	}
	f := gramFactors{dev.Alloc(q, q), dev.Alloc(q, max(w.m, w.n))}
	dev.Upload(f.basis, host)
	dev.Gemm(false, w.m >= w.n, 1, f.basis, v.Reshape(w.m, w.n), 0, f.image)
	dev.Dot(w.s, f.image, f.image)
	for k, s := range w.s {
		w.s[k] = math.Sqrt(s)
	}
	splitAt(w.s, tau)
	return f, true
}

// splitAt adjusts values that decrease up to rounding so that the first r are above tau and the
// others are not, where r is the number that were above.
func splitAt(s []float64, tau float64) {
	r := 0
	for _, x := range s {
		if x > tau {
			r++
		}
	}
	above := math.Nextafter(tau, math.Inf(1))
	for k, x := range s {
		if k < r {
			s[k] = max(x, above)
		} else {
			s[k] = min(x, tau)
		}
	}
}

// vectors sets the singular vectors of a derivative.
func (w *svd) vectors(j *nuclearDerivative, f gramFactors) {
	dev, m, n, q := j.mem.Device(), j.m, j.n, j.q
	ut, vt := j.ut.Reshape(q, m), j.vt.Reshape(q, n)
	if f.basis.IsZero() {
		host := w.stage(q * m)
		transpose(host, w.u, m, w.q, q)
		dev.Upload(ut, host)
		dev.Upload(vt, w.vt[:q*n])
		return
	}
	basis, image := vt, ut
	if m < n {
		basis, image = ut, vt
	}
	inverse := w.stage(q)
	for k, s := range w.s[:q] {
		if inverse[k] = 0; s > 0 {
			inverse[k] = 1 / s
		}
	}
	dev.Copy(basis, f.basis.Rows(0, q))
	dev.LinEach(image, inverse, f.image.Rows(0, q), nil, array.Batch{})
}

func (w *svd) shrink(dst array.Batch, j *nuclearDerivative, tau float64) {
	dev, m, n, r := dst.Device(), j.m, j.n, j.r
	f := w.stage(r)
	for i, s := range w.s[:r] {
		f[i] = s - tau
	}
	u := dev.Alloc(r, m)
	defer u.Free()
	dev.LinEach(u, f, j.ut.Cols(0, r*m).Reshape(r, m), nil, array.Batch{})
	dev.Gemm(true, false, 1, u, j.vt.Cols(0, r*n).Reshape(r, n), 0, dst.Reshape(m, n))
}

func (p *nuclear) Linearize(dst, v array.Batch, t float64) (prox.Derivative, error) {
	vector.CheckLinearize("nuclear norm", p.Dim(), dst, v, t)
	switch {
	case p.lambda == 0:
		dst.Device().Copy(dst, v)
		return prox.NewMultiple(1, v, nil), nil
	case math.IsInf(p.lambda, 1):
		nothing(dst, v)
		return prox.NewMultiple(0, v, nil), nil
	}
	w := p.getSVD()
	defer p.work.Put(w)
	tau := t * p.lambda
	f, ok := w.factorByGram(v, tau)
	defer f.free()
	if !ok {
		if err := w.factor(lapack.SVDStore, v); err != nil {
			return nil, err
		}
	}
	r := w.active(tau)
	if r == 0 {
		dst.Device().Fill(dst, 0)
		margin := tau - w.s[0]
		return prox.NewMultiple(0, v, func(array.Batch) float64 { return margin }), nil
	}
	j := newNuclearDerivative(dst.Device(), w, r, tau)
	w.vectors(j, f)
	w.shrink(dst, j, tau)
	return prox.NewDerivative("nuclear norm", p.Dim(), j.apply, j.build, j.mem, j.swap), nil
}

// value returns lambda times the sum of b's singular values, NaN if they cannot be computed.
func (p *nuclear) value(b array.Batch) float64 {
	vector.CheckValue("nuclear norm", p.Dim(), b)
	w := p.getSVD()
	defer p.work.Put(w)
	if err := w.factor(lapack.SVDNone, b); err != nil {
		return math.NaN()
	}
	sum := 0.0
	for _, s := range w.s {
		sum += s
	}
	return vector.Times(p.lambda, sum)
}
