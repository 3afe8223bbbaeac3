package vjp

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/array"
)

// product sets dst = X w, or X* w when trans is set, for a matrix X known by that: w
// and dst are matrices with one row for each of X's columns and rows, or the other way
// round.
type product func(trans bool, dst, w array.Batch)

// subspace follows the leading singular vectors of a matrix that changes little from
// one decomposition to the next: block subspace iteration with a Rayleigh-Ritz step,
//
//	Q R = X V,   Z = X* Q,   Z*Z = P S^2 P*,   U = Q P,   V <- Z P S^{-1},
//
// started at the V of the last time. X* U = V S holds to rounding, whatever V was: what
// can be wrong is X V - U S alone. (Halko, Martinsson and Tropp, SIAM Review 53, 2011.)
//
// The next start is not V but (X*X - s) V with s half the square of the smallest
// value of the block. The values outside the block then shrink relative to those inside by
// 1/(2 sigma^2/sigma_k^2 - 1) a time instead of (sigma_k/sigma)^2, at the price of one
// small product.
type subspace struct {
	dev  array.Device
	m, n int
	v    array.Batch // n x k, independent columns
	rng  *rand.Rand
}

// newSubspace starts at k random vectors, the same ones every time.
func newSubspace(dev array.Device, shape array.Shape, k int) *subspace {
	s := &subspace{dev: dev, m: shape.Rows, n: shape.Cols, rng: rand.New(rand.NewPCG(0x6c6f77, 0x72616e6b))}
	s.v = dev.Alloc(s.n, k)
	s.random(s.v)
	return s
}

func (s *subspace) free() { s.v.Free() }

// random fills the n x k matrix dst with vectors of unit length, on the average.
func (s *subspace) random(dst array.Batch) {
	host := make([]float64, s.n*dst.N())
	scale := 1 / math.Sqrt(float64(s.n))
	for i := range host {
		host[i] = scale * s.rng.NormFloat64()
	}
	s.dev.Upload(dst, host)
}

// grow adds random vectors to the block.
func (s *subspace) grow(k int) {
	old := s.v
	s.v = s.dev.Alloc(s.n, k)
	s.dev.Copy(s.v.Cols(0, old.N()), old)
	s.random(s.v.Cols(old.N(), k))
	old.Free()
}

// triplets are the leading singular values of a matrix that exceed some bound, in
// decreasing order, and their vectors.
type triplets struct {
	sigma []float64
	u, v  array.Batch // m x max(r, 1) and n x max(r, 1); zero where r = 0
}

func (t *triplets) free() {
	t.u.Free()
	t.v.Free()
}

// errSmall is the error of small factorizations that fail.
type errSmall struct{ what string }

func (e errSmall) Error() string { return "vjp: partial SVD: " + e.what }

// tiniest is the smallest singular value, relative to the largest, whose vector is
// carried on: below it the vectors come out of the squares too inaccurate.
const tiniest = 1e-6

// advance does one iteration. It returns the triplets with values above tau; the next
// block has as many vectors as size says, given their number and that of all
// values there are.
func (s *subspace) advance(x product, tau float64, size func(active, all int) int) (_ triplets, err error) {
	dev, k := s.dev, s.v.N()
	y := dev.Alloc(s.m, k)
	x(false, y, s.v)
	q, b, err := orthonormalize(y)
	if err != nil {
		y.Free()
		return triplets{}, err
	}
	if q != y {
		y.Free()
	}
	defer q.Free()
	kq := q.N()
	if kq == 0 {
		return s.nothing(size(0, 0)), nil
	}
	z := dev.Alloc(s.n, kq)
	defer z.Free()
	x(true, z, q)
	p, values, err := eigenGram(z)
	if err != nil {
		return triplets{}, err
	}
	sigma := make([]float64, kq)
	for i := range sigma {
		sigma[i] = math.Sqrt(math.Max(values[i], 0))
	}
	r, carried := 0, 0
	for carried < kq && sigma[carried] > tiniest*sigma[0] {
		if carried == r && sigma[r] > tau {
			r++
		}
		carried++
	}
	want := size(r, carried)

	// The triplets.
	out := triplets{sigma: sigma[:r], u: dev.Alloc(s.m, max(r, 1)), v: dev.Alloc(s.n, max(r, 1))}
	if r == 0 {
		dev.Fill(out.u, 0)
		dev.Fill(out.v, 0)
	} else {
		multiply(out.u, q, columns(p, kq, r, func(i int) float64 { return 1 }), 0)
		multiply(out.v, z, columns(p, kq, r, func(i int) float64 { return 1 / sigma[i] }), 0)
	}

	// The next block.
	keep := min(carried, want)
	shift := 0.0
	if keep > 0 && kq > 1 {
		shift = sigma[carried-1] * sigma[carried-1] / 2
	}
	next := dev.Alloc(s.n, want)
	head := next.Cols(0, keep)
	if keep > 0 {
		multiply(head, z, columns(p, kq, keep, func(i int) float64 { return sigma[i] / (sigma[i]*sigma[i] - shift) }), 0)
		// V R^{-1} P S is what Z P S^{-1} becomes when nothing changes any more.
		back := make([]float64, k*keep)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1,
			blas64.General{Rows: k, Cols: kq, Stride: kq, Data: b},
			blas64.General{Rows: kq, Cols: keep, Stride: keep, Data: columns(p, kq, keep, func(i int) float64 {
				return -sigma[i] * shift / (sigma[i]*sigma[i] - shift)
			})}, 0, blas64.General{Rows: k, Cols: keep, Stride: keep, Data: back})
		multiply(head, s.v, back, 1)
	}
	if keep < want {
		s.random(next.Cols(keep, want))
	}
	s.v.Free()
	s.v = next
	return out, nil
}

// nothing is the decomposition of 0.
func (s *subspace) nothing(want int) triplets {
	out := triplets{u: s.dev.Alloc(s.m, 1), v: s.dev.Alloc(s.n, 1)}
	s.dev.Fill(out.u, 0)
	s.dev.Fill(out.v, 0)
	s.v.Free()
	s.v = s.dev.Alloc(s.n, want)
	s.random(s.v)
	return out
}

// columns returns the first c columns of the row-major k x k matrix p, column i
// multiplied by f(i).
func columns(p []float64, k, c int, f func(i int) float64) []float64 {
	factor := make([]float64, c)
	for i := range factor {
		factor[i] = f(i)
	}
	out := make([]float64, k*c)
	for i := range k {
		for j, x := range factor {
			out[i*c+j] = p[i*k+j] * x
		}
	}
	return out
}

// multiply sets dst = a b + beta dst for a small matrix b on the host.
func multiply(dst, a array.Batch, b []float64, beta float64) {
	dev := a.Device()
	on := dev.Alloc(a.N(), dst.N())
	dev.Upload(on, b)
	dev.Gemm(false, false, 1, a, on, beta, dst)
	on.Free()
}

// hostGram returns z* z on the host, row-major.
func hostGram(z array.Batch) []float64 {
	dev, k := z.Device(), z.N()
	g := dev.Alloc(k, k)
	defer g.Free()
	dev.Gemm(true, false, 1, z, z, 0, g)
	return g.ToHost()
}

// eigenGram returns the eigenvectors of z* z, a column each and row-major, and its
// eigenvalues in decreasing order.
func eigenGram(z array.Batch) (p, values []float64, err error) {
	k := z.N()
	g := hostGram(z)
	values, err = eigenSym(lapack.EVCompute, g, k)
	if err != nil {
		return nil, nil, err
	}
	for i := range k {
		row := g[i*k:][:k]
		for a, b := 0, k-1; a < b; a, b = a+1, b-1 {
			row[a], row[b] = row[b], row[a]
		}
	}
	for a, b := 0, k-1; a < b; a, b = a+1, b-1 {
		values[a], values[b] = values[b], values[a]
	}
	return g, values, nil
}

// eigenSym returns the eigenvalues of the symmetric k x k matrix g in increasing order. It
// replaces g by the eigenvectors, a column each, where job asks for them.
func eigenSym(job lapack.EVJob, g []float64, k int) ([]float64, error) {
	for _, x := range g {
		if x-x != 0 {
			return nil, errSmall{fmt.Sprintf("a %d x %d Gram matrix that is not finite", k, k)}
		}
	}
	sym := blas64.Symmetric{N: k, Stride: k, Data: g, Uplo: blas.Upper}
	values := make([]float64, k)
	var size [1]float64
	lapack64.Syev(job, sym, values, size[:], -1)
	work := make([]float64, int(size[0]))
	if !lapack64.Syev(job, sym, values, work, len(work)) {
		return nil, errSmall{fmt.Sprintf("the eigenvalues of a %d x %d matrix did not converge", k, k)}
	}
	return values, nil
}

// leastPivot is the smallest pivot of a Gram matrix of unit vectors at which its
// Cholesky factor makes them orthonormal to rounding.
const leastPivot = 0.1

// orthonormalize returns q = y b with orthonormal columns that span those of y, and b,
// row-major, by Cholesky factors of Gram matrices: the columns scaled, twice where
// once is not accurate. Columns that depend on others are dropped. q is y itself where
// nothing was to be done.
func orthonormalize(y array.Batch) (q array.Batch, b []float64, err error) {
	dev, k := y.Device(), y.N()
	q = y
	b = make([]float64, k*k)
	for i := range k {
		b[i*k+i] = 1
	}
	kb := k
	for range 4 {
		t, kt, done, err := whitening(hostGram(q), kb)
		if err != nil {
			if q != y {
				q.Free()
			}
			return array.Batch{}, nil, err
		}
		next := dev.Alloc(y.K(), kt)
		if kt > 0 {
			multiply(next, q, t, 0)
		}
		product := make([]float64, k*kt)
		if kt > 0 {
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1,
				blas64.General{Rows: k, Cols: kb, Stride: kb, Data: b},
				blas64.General{Rows: kb, Cols: kt, Stride: kt, Data: t}, 0,
				blas64.General{Rows: k, Cols: kt, Stride: kt, Data: product})
		}
		if q != y {
			q.Free()
		}
		q, b, kb = next, product, kt
		if done || kt == 0 {
			break
		}
	}
	return q, b, nil
}

// whitening returns t, k x c, with t* g t = I, and whether that is accurate to rounding.
// c is less than k where g is singular.
func whitening(g []float64, k int) (t []float64, c int, done bool, err error) {
	scale := make([]float64, k)
	singular := false
	for i := range k {
		d := g[i*k+i]
		if d-d != 0 {
			return nil, 0, false, errSmall{"an iterate that is not finite"}
		}
		if scale[i] = 1 / math.Sqrt(d); d <= 0 || math.IsInf(scale[i], 0) {
			scale[i], singular = 0, true
		}
	}
	for i := range k {
		for j := range k {
			g[i*k+j] *= scale[i] * scale[j]
		}
	}
	if !singular {
		r := append([]float64(nil), g...)
		tri, ok := lapack64.Potrf(blas64.Symmetric{N: k, Stride: k, Data: r, Uplo: blas.Upper})
		least := math.Inf(1)
		for i := range k {
			least = math.Min(least, r[i*k+i])
		}
		if ok && least > 1e-5 && lapack64.Trtri(tri) {
			for i := range k {
				for j := range k {
					if j < i {
						r[i*k+j] = 0
					} else {
						r[i*k+j] *= scale[i]
					}
				}
			}
			return r, k, least > leastPivot, nil
		}
	}
	values, err := eigenSym(lapack.EVCompute, g, k)
	if err != nil {
		return nil, 0, false, err
	}
	first := 0
	for first < k && !(values[first] > 1e-12*values[k-1]) {
		first++
	}
	c = k - first
	t = make([]float64, k*c)
	for i := range k {
		for j := range c {
			t[i*c+j] = scale[i] * g[i*k+first+j] / math.Sqrt(values[first+j])
		}
	}
	return t, c, false, nil
}

// belowThreshold reports whether no singular value of the m x n matrix x exceeds
// tau: whether tau^2 I minus its smaller Gram matrix has a Cholesky factor.
func belowThreshold(ctx context.Context, x array.Batch, tau float64) (bool, error) {
	g, n, err := smallerGram(ctx, x)
	if err != nil {
		return false, err
	}
	for i := range n {
		for j := i; j < n; j++ {
			g[i*n+j] = -g[i*n+j]
		}
		g[i*n+i] += tau * tau
	}
	_, ok := lapack64.Potrf(blas64.Symmetric{N: n, Stride: n, Data: g, Uplo: blas.Upper})
	return ok, nil
}

// excess is the length of the vector of the x's singular values less tau, where
// positive.
func excess(ctx context.Context, x array.Batch, tau float64) (float64, error) {
	g, n, err := smallerGram(ctx, x)
	if err != nil {
		return 0, err
	}
	values, err := eigenSym(lapack.EVNone, g, n)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, v := range values {
		if e := math.Sqrt(math.Max(v, 0)) - tau; e > 0 {
			sum += e * e
		}
	}
	return math.Sqrt(sum), nil
}

// gramPanel is the number of rows of a large Gram matrix that are computed between two
// looks at the context.
const gramPanel = 256

// smallerGram returns the upper triangle of x* x, or of x x* where that is smaller,
// on the host.
func smallerGram(ctx context.Context, x array.Batch) ([]float64, int, error) {
	dev := x.Device()
	tall := x.K() >= x.N()
	n := min(x.K(), x.N())
	g := dev.Alloc(n, n)
	defer g.Free()
	dev.Fill(g, 0)
	for i := 0; i < n; i += gramPanel {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		j := min(i+gramPanel, n)
		if tall {
			dev.Gemm(true, false, 1, x.Cols(i, j), x.Cols(i, n), 0, g.Rows(i, j).Cols(i, n))
		} else {
			dev.Gemm(false, true, 1, x.Rows(i, j), x.Rows(i, n), 0, g.Rows(i, j).Cols(i, n))
		}
	}
	host := g.ToHost()
	for _, v := range host {
		if v-v != 0 {
			return nil, 0, errSmall{"a residual that is not finite"}
		}
	}
	return host, n, dev.Err()
}
