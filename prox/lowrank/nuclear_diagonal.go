package lowrank

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/numerics"
)

// negligible is the share of the largest eigenvalue of beta below which one counts as 0: those of such matrices fall
// exponentially.
const negligible = 1e-9

// diagonal is that of J, m x n, nil where eigenvalues do not converge. With d for D, sums over i <= r and
// over all l but where they are restricted, and beta_il = beta_li for i <= r < l, that of the entry (x, y) is
//
//	sum_i d_i (U_xi^2 + V_yi^2 (1 - sum_{l<=r} U_xl^2)) + sum_il alpha_li U_xi^2 V_yl^2
//	+ sum_{i, l>r} alpha_li U_xl^2 V_yi^2 + sum_{i,l} beta_il U_xi V_yi U_xl V_yl.
//
// The last one is a sum of squares (sum_l U_xl w_l V_yl)^2 over the eigenvectors w of beta, of which few count.
func (j *nuclearDerivative) diagonal() []float64 {
	m, n, r, q := j.m, j.n, j.r, j.q
	ut, vt, alpha, beta := j.ut.ToHost(), j.vt.ToHost(), j.alpha.ToHost(), j.beta.ToHost()
	squares := func(x []float64) []float64 { return floats.MulTo(make([]float64, len(x)), x, x) }
	u2, v2, at := squares(ut), squares(vt), general(q, r, alpha)
	sums := general(q, n, make([]float64, q*n))
	first := general(r, n, sums.Data[:r*n])
	rest, along, out := make([]float64, m), make([]float64, n), make([]float64, m*n)
	for x := range rest {
		rest[x] = 1
	}
	for i, d := range j.d {
		floats.AddConst(d, sums.Data[i*n:(i+1)*n])
		floats.AddScaled(along, d, v2[i*n:(i+1)*n])
		floats.Sub(rest, u2[i*m:(i+1)*m])
	}
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, at, general(q, n, v2), 1, first)
	if q > r {
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, general(q-r, r, alpha[r*r:]), general(r, n, v2[:r*n]), 0,
			general(q-r, n, sums.Data[r*n:]))
	}
	for x, s := range rest {
		floats.ScaleTo(out[x*n:(x+1)*n], s, along)
	}
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, general(q, m, u2), sums, 1, general(m, n, out))
	symmetric := mat.NewSymDense(q, nil)
	for l := range q {
		for i := range min(l+1, r) {
			symmetric.SetSym(i, l, beta[l*r+i])
		}
	}
	values, vectors, err := numerics.Eigen(symmetric)
	if err != nil {
		return nil
	}
	scaled, forms := make([]float64, q*m), make([]float64, m*n)
	least := negligible * max(math.Abs(values[0]), math.Abs(values[q-1]))
	for e, value := range values {
		if math.Abs(value) <= least {
			continue
		}
		for l := range q {
			floats.ScaleTo(scaled[l*m:(l+1)*m], vectors.At(l, e), ut[l*m:(l+1)*m])
		}
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, general(q, m, scaled), general(q, n, vt), 0, general(m, n, forms))
		for x, f := range forms {
			out[x] += value * f * f
		}
	}
	return out
}

func general(rows, cols int, data []float64) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: data}
}
