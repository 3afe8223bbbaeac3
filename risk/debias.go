package risk

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/lists"
	"surepipe/internal/parallel"
)

// ErrNotIdentified says that the columns of X depend on each other, or are not fewer than the rows.
var ErrNotIdentified = errors.New("the coefficients are not identified")

// LeastSquares are the regressions of any y on all of some columns of X, and an intercept where these are centered.
type LeastSquares struct {
	// Leverages are those of the rows.
	Leverages []float64

	x       *mat.Dense
	columns []int
	norms   []float64
	upper   *mat.TriDense // X'X = U'U of columns of norm 1
	buffer  []float64
	// ofConstant is the leverage of an intercept.
	ofConstant float64
}

// NewLeastSquares factors the given columns of X. ofConstant is the leverage of an intercept, 1/d, or 0. The error is
// ErrNotIdentified where X has not more rows than columns or is not of full column rank.
func NewLeastSquares(x *mat.Dense, columns []int, ofConstant float64) (*LeastSquares, error) {
	d, _ := x.Dims()
	n := len(columns)
	if d <= n {
		return nil, fmt.Errorf("%w: X is %d x %d, expected more rows than columns", ErrNotIdentified, d, n)
	}
	l := &LeastSquares{x: x, columns: columns, norms: make([]float64, n), ofConstant: ofConstant,
		buffer: make([]float64, min(d, parallel.Panel)*n)}
	for k, j := range columns { // columns of norm 1, whose units do not decide about the rank
		if l.norms[k] = mat.Norm(x.ColView(j), 2); l.norms[k] == 0 {
			return nil, fmt.Errorf("%w: column %d of X is zero", ErrNotIdentified, j)
		}
	}
	if err := l.factor(); err != nil {
		return nil, err
	}
	l.Leverages = make([]float64, 0, d)
	l.rows(func(_ int, rows *mat.Dense) {
		blas64.Trsm(blas.Right, blas.NoTrans, 1, l.upper.RawTriangular(), rows.RawMatrix())
		for i := range rows.RawMatrix().Rows {
			row := rows.RawRowView(i)
			l.Leverages = append(l.Leverages, floats.Dot(row, row)+ofConstant)
		}
	})
	return l, nil
}

// mostCondition is the condition number of the Gram matrix up to which its root is that of X.
const mostCondition = 1e8

// rows calls f with a copy of some rows after the other, of columns of norm 1, and the place of the first.
func (l *LeastSquares) rows(f func(first int, rows *mat.Dense)) {
	n := len(l.columns)
	for first, end := range parallel.Panels(l.x.RawMatrix().Rows) {
		rows := mat.NewDense(end-first, n, l.buffer[:(end-first)*n])
		for i := range end - first {
			row, all := rows.RawRowView(i), l.x.RawRowView(first+i)
			for k, j := range l.columns {
				row[k] = all[j] / l.norms[k]
			}
		}
		f(first, rows)
	}
}

// factor takes the root of the Gram matrix, or where that is ill-conditioned a QR factorization.
func (l *LeastSquares) factor() error {
	n := len(l.columns)
	gram := mat.NewSymDense(n, nil)
	l.rows(func(_ int, rows *mat.Dense) { blas64.Syrk(blas.Trans, 1, rows.RawMatrix(), 1, gram.RawSymmetric()) })
	l.upper = mat.NewTriDense(n, mat.Upper, nil)
	var root mat.Cholesky
	if root.Factorize(gram) && root.Cond() <= mostCondition {
		root.UTo(l.upper)
		return nil
	}
	d := l.x.RawMatrix().Rows
	all := mat.NewDense(d, n, nil)
	l.rows(func(first int, rows *mat.Dense) {
		all.Slice(first, first+rows.RawMatrix().Rows, 0, n).(*mat.Dense).Copy(rows)
	})
	var qr mat.QR
	qr.Factorize(all)
	if c := qr.Cond(); !(c*float64(d)*0x1p-52 < 1) {
		return fmt.Errorf("%w: the columns of X depend on each other (condition number %.1e)", ErrNotIdentified, c)
	}
	var r mat.Dense
	qr.RTo(&r)
	for i := range n {
		for j := i; j < n; j++ {
			l.upper.SetTri(i, j, r.At(i, j))
		}
	}
	return nil
}

// images are X b, of columns of norm 1.
func (l *LeastSquares) images(b []float64) []float64 {
	d, p := l.x.Dims()
	all, out := make([]float64, p), make([]float64, d)
	for k, j := range l.columns {
		all[j] = b[k] / l.norms[k]
	}
	blas64.Gemv(blas.NoTrans, 1, l.x.RawMatrix(), vector(all), 0, vector(out))
	return out
}

// solve sets b to (X'X)^-1 b, of columns of norm 1.
func (l *LeastSquares) solve(b []float64) {
	blas64.Trsv(blas.Trans, l.upper.RawTriangular(), vector(b))
	blas64.Trsv(blas.NoTrans, l.upper.RawTriangular(), vector(b))
}

func vector(v []float64) blas64.Vector { return blas64.Vector{N: len(v), Inc: 1, Data: v} }

// fit are the coefficients of y, for columns of norm 1, and the residuals.
func (l *LeastSquares) fit(y []float64) (b, residual []float64) {
	_, p := l.x.Dims()
	all := make([]float64, p)
	blas64.Gemv(blas.Trans, 1, l.x.RawMatrix(), vector(y), 0, vector(all))
	b = lists.Make(len(l.columns), func(k int) float64 { return all[l.columns[k]] / l.norms[k] })
	l.solve(b)
	residual = l.images(b)
	floats.SubTo(residual, y, residual)
	return b, residual
}

// Residuals are those of y, which is centered where there is an intercept.
func (l *LeastSquares) Residuals(y []float64) []float64 {
	_, residual := l.fit(y)
	return residual
}

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
// The residual should be centered where there is an intercept.
func (l *LeastSquares) Debias(residual []float64) Debiased {
	n := len(l.columns)
	b := Debiased{Robust: make([]float64, n), Variance: make([]float64, n)}
	b.Shift, b.Residual = l.fit(residual)
	noise := l.noise(b.Residual)
	l.rows(func(first int, rows *mat.Dense) {
		blas64.Trsm(blas.Right, blas.NoTrans, 1, l.upper.RawTriangular(), rows.RawMatrix())
		blas64.Trsm(blas.Right, blas.Trans, 1, l.upper.RawTriangular(), rows.RawMatrix())
		for i := range rows.RawMatrix().Rows {
			for k, v := range rows.RawRowView(i) {
				v /= l.norms[k]
				b.Variance[k] += v * v
				b.Robust[k] += v * v * noise[first+i]
			}
		}
	})
	for k, norm := range l.norms {
		b.Shift[k] /= norm
	}
	return b
}

// leastFree is the least that a leverage leaves of an observation for its residual to tell of its noise.
const leastFree = 1e-8

// noise are the squares of residuals, each over that of what its leverage leaves. An observation that the fit meets in
// any case has the variance of all.
func (l *LeastSquares) noise(residual []float64) []float64 {
	squares, free := 0.0, 0.0
	for i, e := range residual {
		squares, free = squares+e*e, free+1-l.Leverages[i]
	}
	return lists.Make(len(residual), func(i int) float64 {
		if left := 1 - l.Leverages[i]; left >= leastFree {
			return residual[i] * residual[i] / (left * left)
		}
		return squares / free
	})
}

// Debiased is what [LeastSquares.Debias] makes of a fit: Shift and Variance of its coefficients, and Robust, which
// needs no variance of the noise. Residual is that of least squares with all columns.
type Debiased struct{ Shift, Variance, Robust, Residual []float64 }

// DebiasByScores is the same for one coefficient with a score z that need not be orthogonal to the
// other columns, such as the residual of a LASSO of x_j on them, where p may exceed d:
//
//	shift = <z, residual> / ((1 - df/d) <z, x_j>)
//	variance of the debiased coefficient = ||residual||^2 / (d (1 - df/d)^2)  ||z||^2 / <z, x_j>^2
//
// with df the degrees of freedom of the LASSO, the divergence (Bellec and Zhang 2022, who assume
// normal rows of X and a sparse regression of x_j on the other columns; the noise's variance is not
// needed). standardError is the square root of that variance, and robust that of sum_i z_i^2 residual_i^2 in the place
// of ||residual||^2 ||z||^2/d, for noise whose variance differs. All are NaN where df >= d.
func DebiasByScores(z, x, residual []float64, df float64) (shift, standardError, robust float64) {
	d := float64(len(residual))
	if !(df < d) {
		return math.NaN(), math.NaN(), math.NaN()
	}
	zx, zr, zz, rr, both := 0.0, 0.0, 0.0, 0.0, 0.0
	for i, v := range z {
		zx += v * x[i]
		zr += v * residual[i]
		zz += v * v
		rr += residual[i] * residual[i]
		both += v * v * residual[i] * residual[i]
	}
	left := 1 - df/d
	return zr / (left * zx), math.Sqrt(rr/d*zz) / (left * math.Abs(zx)), math.Sqrt(both) / (left * math.Abs(zx))
}
