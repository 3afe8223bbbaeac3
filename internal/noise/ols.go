package noise

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"
)

// OLSResidual estimates the variance of the noise of a regression, y = X b + noise, with
// X of d x p,
//
//	sigma2 = ||y - X b_ols||^2 / (d - p),
//
// from the least-squares fit with all p columns: exactly unbiased whatever b is, if the mean
// of y is in the span of X. If y and the columns of X were centered before, which uses a degree of
// freedom, the estimate is too small by a fraction 1 / (d - p).
//
// The relative standard error is sqrt(2 / (d - p)), exact for normal noise, as
// (d - p) sigma2 is sigma^2 times a chi-square of d - p degrees of freedom.
//
// It rejects d <= p, where the fit leaves no residual, X of deficient rank, NaN, Inf, and y that X
// fits up to rounding errors. It costs one QR factorization and one copy of X.
func OLSResidual(x *mat.Dense, y []float64) (Estimate, error) {
	d, p := x.Dims()
	if len(y) != d {
		panic(fmt.Sprintf("noise: X is %d x %d, y has %d values", d, p, len(y)))
	}
	if d <= p {
		return refuse(MethodOLSResidual, "X is %d x %d, expected more rows than columns: with d <= p the "+
			"least-squares fit leaves no residual", d, p)
	}
	if _, bad := largest(y); bad >= 0 {
		return refuse(MethodOLSResidual, "y holds %g at [%d], expected finite numbers", y[bad], bad)
	}
	// Columns of norm 1: their units do not matter for the rank.
	q := mat.DenseCopyOf(x)
	norms := make([]float64, p)
	for i := range d {
		row := q.RawRowView(i)
		if _, j := largest(row); j >= 0 {
			return refuse(MethodOLSResidual, "X holds %g at [%d, %d], expected finite numbers", row[j], i, j)
		}
		for j, v := range row {
			norms[j] = math.Hypot(norms[j], v)
		}
	}
	for j, norm := range norms {
		if norm == 0 {
			return refuse(MethodOLSResidual, "column %d of X is zero: X is not of full rank", j)
		}
	}
	for i := range d {
		row := q.RawRowView(i)
		for j := range row {
			row[j] /= norms[j]
		}
	}
	a := q.RawMatrix()
	tau := make([]float64, p)
	size := make([]float64, 1)
	lapack64.Geqrf(a, tau, size, -1)
	work := make([]float64, int(size[0]))
	lapack64.Geqrf(a, tau, work, len(work))
	r := blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: p, Stride: a.Stride, Data: a.Data}
	if c := lapack64.Trcon(lapack.MaxColumnSum, r, make([]float64, 3*p), make([]int, p)); !(c > float64(d)*epsilon) {
		return refuse(MethodOLSResidual, "X is not of full rank (its reciprocal condition number, columns scaled "+
			"to norm 1, is %.1e)", c)
	}
	// The last d - p entries of Q* y are the residual in a basis of its space.
	z := append([]float64(nil), y...)
	column := blas64.General{Rows: d, Cols: 1, Stride: 1, Data: z}
	lapack64.Ormqr(blas.Left, blas.Trans, a, tau, column, size, -1)
	work = make([]float64, int(size[0]))
	lapack64.Ormqr(blas.Left, blas.Trans, a, tau, column, work, len(work))
	residual := blas64.Nrm2(blas64.Vector{N: d - p, Inc: 1, Data: z[p:]})
	if total := blas64.Nrm2(blas64.Vector{N: d, Inc: 1, Data: y}); residual <= float64(d)*epsilon*total {
		return refuse(MethodOLSResidual, "X fits y up to rounding errors: there is no noise in y, or y is zero")
	}
	return estimate(MethodOLSResidual, residual*(residual/float64(d-p)), math.Sqrt(2/float64(d-p)))
}
