package hutch

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/numerics"
)

type xNysTrace struct{}

func (xNysTrace) Name() string      { return XNysTrace }
func (xNysTrace) First(float64) int { return 0 }

func (xNysTrace) layout(queries int) (Layout, string) {
	if queries < 2 {
		return Layout{}, "xnystrace takes 2 or more: fewer have no standard error"
	}
	return Layout{Sketch: queries, SketchNeeds: Images, Keeps: true}, ""
}

func (xNysTrace) estimate(r *Run) (Estimate, error) {
	return r.combined(func(s array.Batch) (Estimate, error) { return xnystrace(s, r.sketch, r.sketchLeft) })
}

// nystromShift is the least multiple of the identity, relative to the size of M estimated from the
// probes, that is added to M and later subtracted: far above rounding, so that S*MS is definite,
// and without influence on the estimate.
const nystromShift = 0x1p-38

// xnystrace is the mean of m estimates, each of which takes the Nystrom
// approximation F_i = Y (S*Y)^{-1} Y* of M from all probes but s_i, and samples
// the remainder by s_i:
//
//	t_i = tr F_i + s_i* (M - F_i) s_i,
//	f_i = ||F_i||_F^2 + s_i* (M^2 - F_i^2) s_i
//
// have the expectations tr M and ||M||_F^2 (Epperly, Tropp and Webber 2024,
// section 2.3). With H = S*MS = CC* and F = BB* of all probes, in an orthonormal
// basis of the images, F_i = F - b_i b_i* and s_i* (M - F_i) s_i = 1/|c_i|^2,
// where c_i is column i of C^{-1} and b_i = B c_i / |c_i|.
//
// M is positive semidefinite and so is H, but it may be singular. A multiple of
// the identity is added, M + nu I, for which everything above holds with any nu, and
// subtracted in the end. nu grows with the asymmetry of H, which is the oracle's error.
//
// The standard error has about 2(m-3) degrees of freedom: by simulation with 2000 seeds each on the Jacobians
// of a LASSO, a matrix completion and a robust PCA, as twice the squared mean of its square over the variance of
// its square: 9.4 to 10
// with m = 8, 16 to 17 with 12, 31 to 37 with 20, 79 to 86 with 36 where the rank is larger, and
// 94 to 114 with 60.
//
// With a truncated oracle F_i is still a matrix that does not depend on s_i, and t_i is unbiased up
// to the error of s_i* M s_i, at most left_i, and up to taking H as symmetric in 1/|c_i|^2: with D
// = (S*Y - Y*S)/2, d_i its row i and G = H^{-1}, that changes t_i by no more than
//
//	2 sum_j |d_ij G_ij|/G_ii + d_i G d_i*.
func xnystrace(s, y array.Batch, left []float64) (Estimate, error) {
	dev, m, d := y.Device(), y.K(), float64(y.N())
	raw := products(s, y)
	size, skew := 0.0, 0.0
	for i := range m {
		for j := range m {
			size = math.Hypot(size, raw.At(i, j))
			skew = math.Hypot(skew, raw.At(i, j)-raw.At(j, i))
		}
	}
	switch {
	case math.IsNaN(size) || math.IsInf(size, 0):
		return Estimate{}, errors.New("hutch: xnystrace: an image M s holds a NaN or an infinity")
	case size == 0:
		return Estimate{}, nil
	}
	nu := math.Max(nystromShift*size, 4*skew) / d

	shifted, q := dev.Alloc(m, y.N()), dev.Alloc(m, y.N())
	defer array.Free(shifted, q)
	dev.Lin(shifted, 1, y, nu, s)
	rank, err := Orthonormalize(q, shifted)
	if err != nil {
		return Estimate{}, err
	}
	r := products(q.Rows(0, rank), shifted)
	gram := products(s, s)
	h := mat.NewSymDense(m, nil)
	for i := range m {
		for j := range i + 1 {
			h.SetSym(i, j, (raw.At(i, j)+raw.At(j, i))/2+nu*gram.At(i, j))
		}
	}
	inverse, leverage, err := inverseRoot(h, nu*d*0x1p-10)
	if err != nil {
		return Estimate{}, err
	}

	b := mul(r, inverse)              // F = QBB*Q*
	bb := mul(b.T(), b)               // B*B
	c := mat.DenseCopyOf(inverse.T()) // column i is c_i
	bc := mul(b, c)                   // column i is b_i |c_i|
	bbc := mul(bb, c)                 // column i is B* b_i |c_i|
	traces, norms := make([]float64, m), make([]float64, m)
	for i := range m {
		traces[i], norms[i] = mat.Trace(bb), inner(bb, bb)
		// Where s_i depends on the other probes F_i = F, and F s_i = M s_i.
		if leverage[i] > independent {
			c2, b2 := columnDot(c, c, i), columnDot(bc, bc, i)
			traces[i] += 1/c2 - b2/c2
			norms[i] += (b2/c2)*(b2/c2) - 2*columnDot(bbc, bbc, i)/c2 + 2*columnDot(r, bc, i)/c2 - b2/(c2*c2)
		}
		traces[i] -= nu * d
		norms[i] -= 2*nu*traces[i] + nu*nu*d
	}
	var e Estimate
	g, p := mul(c.T(), c), mul(bc.T(), bc) // H^{-1} and H^{-1} Y*Y H^{-1}
	e.Trace, e.StdErr = exchangeable(traces, 2*(m-3), func(i, k int) float64 {
		// Without s_k, by a Schur complement in H^{-1}; the trace is traces[i] - change.
		gi, gk, f := g.At(i, i), g.At(k, k), g.At(i, k)/g.At(k, k)
		gik := gi - f*g.At(i, k)
		if leverage[i] <= independent || leverage[k] <= independent || gik < 1e-10*gi {
			return 0
		}
		pi, pk := p.At(i, i), p.At(k, k)
		pik := pi - 2*f*p.At(i, k) + f*f*pk
		return (1-pi)/gi - (1-pik)/gik + pk/gk
	})
	e.Frobenius2, _ = meanAndError(norms)
	e.Truncation = nystromTruncation(raw, g, left)
	return e, nil
}

// nystromTruncation is the mean of xnystrace's bounds of the errors of its terms.
func nystromTruncation(raw, g *mat.Dense, left []float64) (mean float64) {
	m := len(left)
	skew := mat.NewDense(m, m, nil)
	skew.Apply(func(i, j int, v float64) float64 { return (v - raw.At(j, i)) / 2 }, raw)
	product := mul(skew, g)
	for i := range m {
		sum := left[i]
		for j := range m {
			if g.At(i, i) > 0 {
				sum += 2 * math.Abs(skew.At(i, j)*g.At(i, j)) / g.At(i, i)
			}
			sum += math.Max(0, product.At(i, j)*skew.At(i, j))
		}
		mean += sum / float64(m)
	}
	return mean
}

// inverseRoot returns X, with a row for each row of h, such that XX* is the inverse of the positive
// definite h. Eigenvalues below floor count as zero, and the inverse is the pseudo-inverse;
// leverage_i is the squared length of the projection of e_i on the remaining space.
func inverseRoot(h *mat.SymDense, floor float64) (x *mat.Dense, leverage []float64, err error) {
	lambda, w, err := numerics.Eigen(h)
	if err != nil {
		return nil, nil, fmt.Errorf("hutch: xnystrace, S*MS: %w", err)
	}
	m := len(lambda)
	first := 0
	for first < m && lambda[first] < floor {
		first++
	}
	// Rounding errors are of the size of the floor; an eigenvalue far below -floor is not one.
	if first == m || lambda[0] < -0.1*lambda[m-1] {
		return nil, nil, fmt.Errorf("hutch: xnystrace is for positive semidefinite matrices, but S*MS has "+
			"eigenvalues from %g to %g", lambda[0], lambda[m-1])
	}
	x, leverage = mat.NewDense(m, m-first, nil), make([]float64, m)
	for i := range m {
		for l := first; l < m; l++ {
			leverage[i] += w.At(i, l) * w.At(i, l)
			x.Set(i, l-first, w.At(i, l)/math.Sqrt(lambda[l]))
		}
	}
	return x, leverage, nil
}
