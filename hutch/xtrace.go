package hutch

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/numerics"
)

// xTrace is XTrace: half of the queries for the sketch, half for its basis.
type xTrace struct{}

func (xTrace) Name() string      { return XTrace }
func (xTrace) First(float64) int { return 0 }

func (xTrace) layout(queries int) (Layout, string) {
	if queries < 4 || queries%2 != 0 {
		return Layout{}, "xtrace takes an even number (half for the sketch, half for its basis), at least 4"
	}
	return Layout{Sketch: queries / 2, Basis: SketchBasis, SketchNeeds: Images, Needs: Images, Keeps: true}, ""
}

func (xTrace) estimate(r *Run) (Estimate, error) {
	return r.combined(func(s array.Batch) (Estimate, error) {
		return xtrace(s, r.sketch, r.basis.Rows(0, r.rank), r.images, r.sketchLeft, r.basisLeft), nil
	})
}

// xtrace is the mean of m Hutch++ estimates, each with m-1 of the probes for its
// sketch and the one left out, s_i, for its residual. With P_i the projector on
// the span of the images of all but s_i,
//
//	t_i = tr(P_i M) + s_i* (I - P_i) M (I - P_i) s_i,
//	f_i = ||M P_i||_F^2 + ||M (I - P_i) s_i||^2
//
// have the expectations tr M and ||M||_F^2 (Epperly, Tropp and Webber 2024,
// section 2). All of them come from one basis Q of all images: P_i = QQ* - u_i u_i*
// where u_i, in the span of Q, is the unit vector orthogonal to the images of
// the other probes. If the image of s_i depends on the others there is none, and P_i = QQ*.
//
// The standard error has about 3(m-2)/2 degrees of freedom. By simulation, with 2000 seeds each on
// the Jacobians of a LASSO, a matrix completion and a robust PCA, twice the squared mean of
// its square over the variance of its square was 3.0 to 3.6 with m = 4, 4.9 to 6.6 with 6, 8.3
// to 14 with 10, 17 to 31 with 18 and 24 to 55 with 30.
//
// With a truncated oracle the t_i are unbiased up to its error in the images: with e_i
// that of M s_i, E that of MQ, v_i the coordinates of P_i s_i and x_i = s_i - P_i s_i,
//
//	tr(Q*E) - u_i*E u_i + x_i*(e_i - E v_i),
//
// which the bounds yLeft and zLeft of their squared norms bound.
func xtrace(s, y, q, z array.Batch, yLeft, zLeft []float64) Estimate {
	if q.K() == 0 {
		return Estimate{} // all images are 0
	}
	// Coordinates in the basis, a column for each probe.
	r, w := products(q, y), products(q, s) // of y_i, and of QQ* s_i
	t := products(z, s)                    // Q* M* s_i
	h, n := products(q, z), products(z, z) // Q*MQ and Q*M*MQ
	u := complements(r)                    // of u_i
	v := mat.DenseCopyOf(w)                // of P_i s_i
	for i := range s.K() {
		for j, c := 0, columnDot(u, w, i); j < q.K(); j++ {
			v.Set(j, i, v.At(j, i)-c*u.At(j, i))
		}
	}
	hu, nu, hv, nv := mul(h, u), mul(n, u), mul(h, v), mul(n, v)
	traces, norms := make([]float64, s.K()), make([]float64, s.K())
	for i := range traces {
		traces[i] = mat.Trace(h) - columnDot(u, hu, i) +
			columnDot(w, r, i) - columnDot(v, r, i) - columnDot(t, v, i) + columnDot(v, hv, i)
		norms[i] = mat.Trace(n) - columnDot(u, nu, i) +
			columnDot(r, r, i) - 2*columnDot(r, hv, i) + columnDot(v, nv, i)
	}
	var e Estimate
	for i := range traces {
		around := math.Sqrt(yLeft[i])
		for j, left := range zLeft[:q.K()] {
			e.Truncation += (left + math.Abs(u.At(j, i))*math.Sqrt(left)) / float64(len(traces))
			around += math.Abs(v.At(j, i)) * math.Sqrt(left)
		}
		e.Truncation += math.Sqrt(float64(s.N())) * around / float64(len(traces))
	}
	gram, hhu, uw, ut := mul(u.T(), u), mul(u.T(), hu), mul(u.T(), w), mul(u.T(), t)
	uhw, huw := mul(u.T(), mul(h, w)), mul(hu.T(), w)
	e.Trace, e.StdErr = exchangeable(traces, 3*(s.K()-2)/2, func(i, k int) float64 {
		// Without s_k another direction, u_k, leaves the basis, and P_i s_i becomes
		// w_i - a u_i - b u_k; the image of s_i is orthogonal to u_k.
		c, wi, wk := gram.At(i, k), uw.At(i, i), uw.At(k, i)
		det := 1 - c*c
		if gram.At(i, i) == 0 || gram.At(k, k) == 0 || det < 1e-8 {
			return 0
		}
		a, b := (wi-c*wk)/det, (wk-c*wi)/det
		cross := hhu.At(i, k) + hhu.At(k, i)
		basis := (hhu.At(i, i)+hhu.At(k, k)-c*cross)/det - hhu.At(i, i)
		linear := (a-wi)*(columnDot(u, r, i)+ut.At(i, i)-uhw.At(i, i)-huw.At(i, i)) +
			b*(ut.At(k, i)-uhw.At(k, i)-huw.At(k, i))
		square := (a*a-wi*wi)*hhu.At(i, i) + a*b*cross + b*b*hhu.At(k, k)
		return basis - linear - square
	})
	e.Frobenius2, _ = meanAndError(norms)
	return e
}

// complements returns for each column of r, a matrix of full row rank, the unit
// vector orthogonal to all other columns: column i of the pseudo-inverse of R*,
// normalized. It is zero where the other columns span the whole space.
func complements(r *mat.Dense) *mat.Dense {
	rank, m := r.Dims()
	scaled := mat.DenseCopyOf(r) // the complements do not depend on the columns' lengths
	for i := range m {
		if norm := math.Sqrt(columnDot(r, r, i)); norm > 0 {
			for j := range rank {
				scaled.Set(j, i, r.At(j, i)/norm)
			}
		}
	}
	c := mat.NewDense(rank, m, nil)
	left, sigma, right, err := numerics.SVD(scaled)
	if err != nil {
		c.Set(0, 0, math.NaN()) // not finite, and reported as such
		return c
	}
	x := mat.NewVecDense(rank, nil)
	for i := range m {
		leverage := 0.0
		for l := range rank {
			leverage += right.At(i, l) * right.At(i, l)
			x.SetVec(l, right.At(i, l)/sigma[l])
		}
		if leverage < independent {
			continue
		}
		var column mat.VecDense
		column.MulVec(left, x)
		column.ScaleVec(1/mat.Norm(&column, 2), &column)
		c.SetCol(i, column.RawVector().Data)
	}
	return c
}
