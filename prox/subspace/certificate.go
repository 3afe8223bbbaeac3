package subspace

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
)

// BelowThreshold reports whether no singular value of the m x n matrix x exceeds tau: whether tau^2
// I minus its smaller Gram matrix has a Cholesky factor.
func BelowThreshold(ctx context.Context, x array.Batch, tau float64) (bool, error) {
	g, n, err := smallerGram(ctx, x)
	if err != nil {
		return false, err
	}
	return GramBelow(g, n, tau), nil
}

// GramBelow is [BelowThreshold] by the upper triangle of the n x n matrix g, the smaller of x*x and
// x x*. It is false where g is not finite.
func GramBelow(g []float64, n int, tau float64) bool {
	c := make([]float64, n*n)
	for i := range n {
		for j := i; j < n; j++ {
			c[i*n+j] = -g[i*n+j]
		}
		c[i*n+i] += tau * tau
	}
	_, ok := lapack64.Potrf(blas64.Symmetric{N: n, Stride: n, Data: c, Uplo: blas.Upper})
	return ok
}

// ExcessWithin reports whether [Excess] is known to be at most distance: at most n values exceed
// tau, n being the smaller side, so it suffices that none exceeds tau by more than
// distance/sqrt(n).
func ExcessWithin(ctx context.Context, x array.Batch, tau, distance float64) (bool, error) {
	return BelowThreshold(ctx, x, tau+distance/math.Sqrt(float64(min(x.K(), x.N()))))
}

// Excess is the Euclidean norm of the vector of the excesses max(sigma - tau, 0) of x's singular
// values sigma.
func Excess(ctx context.Context, x array.Batch, tau float64) (float64, error) {
	g, n, err := smallerGram(ctx, x)
	if err != nil {
		return 0, err
	}
	return GramExcess(g, n, tau)
}

// GramExcess is [Excess] by the upper triangle of the smaller Gram matrix, which it overwrites.
func GramExcess(g []float64, n int, tau float64) (float64, error) {
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

const (
	// certificateProbes random vectors miss a value above the bound with probability
	// (certificateShare sqrt(2/pi))^certificateProbes, 1e-21.
	certificateProbes = 10
	certificateShare  = 0.01
	// certificateSteps is the number of powers that are tried.
	certificateSteps = 120
)

// Certify reports whether no singular value of the matrix x other than the first r of t exceeds
// tau, by products with x: t is what [Iteration.AdvanceAll] returned for x. The probability of a
// wrong certificate is below 1e-18.
//
// With U, S, V the triplets beyond the first r, E = X V - U S and X' = X with all triplets
// projected out on either side, the rest of x is, in orthonormal bases, the matrix [S 0; E X'],
// which has no singular value above tau if ||X'|| <= mu < tau and
//
//	tau^2 I - S^2 - E*E tau^2/(tau^2 - mu^2)  is positive definite.
//
// mu comes from powers: for a Gaussian vector w the length of (X'*X')^s w is at least ||X'||^2s |g|
// with g a standard normal number, so that it is below 0.01 ||X'||^2s with a probability of 0.01,
// and for all of ten vectors with one of 10^-20 (Halko, Martinsson and Tropp, SIAM Review 53, 2011,
// section 4).
func (t *Triplets) Certify(ctx context.Context, x Product, r int, tau float64) (bool, error) {
	dev, m, n := t.U.Device(), t.U.K(), t.V.K()
	rest := len(t.Sigma) - r
	// E*E
	var ee []float64
	if rest > 0 {
		u, v := t.U.Cols(r, r+rest), t.V.Cols(r, r+rest)
		e, us := dev.Alloc(m, rest), dev.Alloc(m, rest)
		from := dev.Alloc(n, rest)
		dev.Copy(from, v)
		x(false, e, from)
		ScaleColumns(us, u, t.Sigma[r:])
		dev.Lin(e, 1, e, -1, us)
		ee = hostGram(e)
		array.Free(e, us, from)
	}
	w, z := dev.Alloc(n, certificateProbes), dev.Alloc(n, certificateProbes)
	y := dev.Alloc(m, certificateProbes)
	defer func() {
		array.Free(w, z, y)
	}()
	rng := rand.New(rand.NewPCG(0x636572, 0x74696679))
	host := lists.Make(n*certificateProbes, func(int) float64 { return rng.NormFloat64() })
	dev.Upload(w, host)
	t.outside(w, t.V)
	logs := make([]float64, certificateProbes)
	for step := 1; step <= certificateSteps; step++ {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		x(false, y, w)
		t.outside(y, t.U)
		x(true, z, y)
		t.outside(z, t.V)
		g := hostGram(z)
		scale := make([]float64, certificateProbes)
		largest := math.Inf(-1)
		for j := range scale {
			norm := math.Sqrt(g[j*certificateProbes+j])
			if norm-norm != 0 {
				return false, Error{"a certificate that is not finite"}
			}
			logs[j] += math.Log(norm)
			largest = math.Max(largest, logs[j])
			if norm > 0 {
				scale[j] = 1 / norm
			}
		}
		ScaleColumns(w, z, scale)
		mu := math.Exp((largest - math.Log(certificateShare)) / float64(2*step))
		if !(mu < tau) {
			continue
		}
		c := make([]float64, rest*rest)
		factor := 1 / ((1 - mu/tau) * (1 + mu/tau))
		for i := range rest {
			for j := i; j < rest; j++ {
				c[i*rest+j] = -factor * ee[i*rest+j]
			}
			s := t.Sigma[r+i]
			c[i*rest+i] += (tau - s) * (tau + s)
		}
		if _, ok := lapack64.Potrf(blas64.Symmetric{N: rest, Stride: max(rest, 1), Data: c, Uplo: blas.Upper}); ok {
			return true, dev.Err()
		}
	}
	return false, dev.Err()
}

// outside projects the columns of w on the orthogonal complement of the span of q's orthonormal
// columns.
func (t *Triplets) outside(w, q array.Batch) {
	dev := w.Device()
	c := dev.Alloc(q.N(), w.N())
	dev.Gemm(true, false, 1, q, w, 0, c)
	dev.Gemm(false, false, -1, q, c, 1, w)
	c.Free()
}

// smallerGram returns the upper triangle of x* x, or of x x* where that is smaller, on the host.
func smallerGram(ctx context.Context, x array.Batch) ([]float64, int, error) {
	dev := x.Device()
	tall := x.K() >= x.N()
	n := min(x.K(), x.N())
	g := dev.Alloc(n, n)
	defer g.Free()
	dev.Fill(g, 0)
	for i, j := range parallel.Panels(n) {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		if tall {
			dev.Gemm(true, false, 1, x.Cols(i, j), x.Cols(i, n), 0, g.Rows(i, j).Cols(i, n))
		} else {
			dev.Gemm(false, true, 1, x.Rows(i, j), x.Rows(i, n), 0, g.Rows(i, j).Cols(i, n))
		}
	}
	host := g.ToHost()
	for _, v := range host {
		if v-v != 0 {
			return nil, 0, Error{"a residual that is not finite"}
		}
	}
	return host, n, dev.Err()
}
