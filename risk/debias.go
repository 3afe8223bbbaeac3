package risk

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// ErrNotIdentified says that the columns of X depend on each other, or are not fewer than the rows.
var ErrNotIdentified = errors.New("the coefficients are not identified")

// Debias removes the bias of a penalized estimate b of least squares from each of its coefficients:
// for y = X beta + noise of variance sigma^2, X of d x p and residual = y - X b,
//
//	debiased_j = b_j + shift_j,   shift_j = <z_j, residual> / <z_j, x_j>
//	variance of debiased_j = sigma^2 variance_j,   variance_j = ||z_j||^2 / <z_j, x_j>^2
//
// (Zhang and Zhang, "Confidence intervals for low dimensional parameters in high dimensional linear
// models", 2014), where z_j is what the other columns leave of x_j. Then z_j is orthogonal to the
// other columns, so that the debiased coefficient is unbiased whatever b is: it is that of least
// squares with all columns. Its distribution is exact for normal noise and fixed X, for a
// coefficient that is chosen before y is seen; it says nothing of coefficients that are reported
// because they were selected. The factor 1/(1 - df/d) of Bellec and Zhang ("De-biasing the lasso
// with degrees-of-freedom adjustment", 2022) belongs to scores z_j that are not orthogonal to the
// other columns: see [DebiasByScores].
//
// With noise whose variance differs between observations the variance of debiased_j is, without that of the noise being
// known,
//
//	robust_j = sum_i a_ij^2 e_i^2/(1 - h_i)^2,   a_j = z_j/<z_j, x_j>
//
// from the residuals e of least squares with all columns and their leverages h (HC3: MacKinnon and White, "Some
// heteroskedasticity-consistent covariance matrix estimators with improved finite sample properties", 1985). An
// observation of leverage 1, as the only one of a level, tells nothing of its noise: e^2/(1 - h)^2 is then that of all,
// sum e^2 / sum (1 - h).
//
// The columns, and the residual, should be centered where there is an intercept, whose leverage, 1/d, is then that of a
// constant. The error is ErrNotIdentified where X has not more rows than columns or is not of full column rank. The
// cost is a QR factorization.
func Debias(x *mat.Dense, residual []float64, ofConstant float64) (b Debiased, err error) {
	d, p := x.Dims()
	if len(residual) != d {
		panic(fmt.Sprintf("risk: X is %d x %d, and the residual has %d values", d, p, len(residual)))
	}
	if d <= p {
		return b, fmt.Errorf("%w: X is %d x %d, expected more rows than columns", ErrNotIdentified, d, p)
	}
	// Columns of norm 1, whose units do not decide about the rank.
	q, norms := mat.DenseCopyOf(x), make([]float64, p)
	for j := range p {
		if norms[j] = mat.Norm(x.ColView(j), 2); norms[j] == 0 {
			return b, fmt.Errorf("%w: column %d of X is zero", ErrNotIdentified, j)
		}
	}
	for i := range d {
		for j, row := 0, q.RawRowView(i); j < p; j++ {
			row[j] /= norms[j]
		}
	}
	var qr mat.QR
	qr.Factorize(q)
	if c := qr.Cond(); !(c*float64(d)*0x1p-52 < 1) {
		return b, fmt.Errorf("%w: the columns of X depend on each other (condition number %.1e)",
			ErrNotIdentified, c)
	}
	var solved mat.VecDense
	if err := qr.SolveVecTo(&solved, false, mat.NewVecDense(d, residual)); err != nil && solved.Len() != p {
		return b, fmt.Errorf("%w: %w", ErrNotIdentified, err)
	}
	var r mat.Dense
	qr.RTo(&r)
	upper := mat.NewTriDense(p, mat.Upper, nil)
	for i := range p {
		for j := i; j < p; j++ {
			upper.SetTri(i, j, r.At(i, j))
		}
	}
	var inverse mat.TriDense
	if err := inverse.InverseTri(upper); err != nil {
		var near mat.Condition
		if !errors.As(err, &near) || math.IsInf(float64(near), 1) {
			return b, fmt.Errorf("%w: %w", ErrNotIdentified, err)
		}
	}
	b = Debiased{Shift: make([]float64, p), Variance: make([]float64, p),
		Residual: slices.Clone(residual), Leverages: make([]float64, d)}
	var left mat.VecDense // of the residual
	left.MulVec(q, &solved)
	var orthogonal, a mat.Dense
	orthogonal.Mul(q, &inverse)
	a.Mul(&orthogonal, inverse.T())
	for i := range d {
		row := orthogonal.RawRowView(i)
		b.Residual[i] -= left.AtVec(i)
		b.Leverages[i] = floats.Dot(row, row) + ofConstant
	}
	b.Robust = robust(&a, b.Residual, b.Leverages)
	for j := range b.Robust {
		b.Robust[j] /= norms[j] * norms[j]
	}
	for j := range p {
		b.Shift[j] = solved.AtVec(j) / norms[j]
		for k := j; k < p; k++ {
			v := inverse.At(j, k) / norms[j]
			b.Variance[j] += v * v
		}
	}
	return b, nil
}

// leastFree is the least that a leverage leaves of an observation for its residual to tell of its noise.
const leastFree = 1e-8

// robust are the sums of the squares of the columns of a, of which each observation's is weighed by its residual over
// what its leverage leaves. An observation that the fit meets in any case has the variance of all.
func robust(a *mat.Dense, residual, leverages []float64) []float64 {
	_, p := a.Dims()
	squares, free := 0.0, 0.0
	for i, e := range residual {
		squares, free = squares+e*e, free+1-leverages[i]
	}
	sums := make([]float64, p)
	for i, e := range residual {
		e /= 1 - leverages[i]
		if 1-leverages[i] < leastFree {
			e = math.Sqrt(squares / free)
		}
		for j, v := range a.RawRowView(i) {
			sums[j] += v * e * v * e
		}
	}
	return sums
}

// Debiased is what [Debias] makes of a fit: Shift and Variance of its coefficients, and Robust, which needs no variance
// of the noise. Residual and Leverages are those of least squares with all columns.
type Debiased struct{ Shift, Variance, Robust, Residual, Leverages []float64 }

// DebiasByScores is the same for one coefficient with a score z that need not be orthogonal to the
// other columns, such as the residual of a LASSO of x_j on them, where p may exceed d:
//
//	shift = <z, residual> / ((1 - df/d) <z, x_j>)
//	variance of the debiased coefficient = ||residual||^2 / (d (1 - df/d)^2)  ||z||^2 / <z, x_j>^2
//
// with df the degrees of freedom of the LASSO, the divergence (Bellec and Zhang 2022, who assume
// normal rows of X and a sparse regression of x_j on the other columns; the noise's variance is not
// needed). standardError is the square root of that variance. Both are NaN where df >= d.
func DebiasByScores(z, x, residual []float64, df float64) (shift, standardError float64) {
	d := float64(len(residual))
	if !(df < d) {
		return math.NaN(), math.NaN()
	}
	zx, zr, zz, rr := 0.0, 0.0, 0.0, 0.0
	for i, v := range z {
		zx += v * x[i]
		zr += v * residual[i]
		zz += v * v
		rr += residual[i] * residual[i]
	}
	left := 1 - df/d
	return zr / (left * zx), math.Sqrt(rr/d*zz) / (left * math.Abs(zx))
}
