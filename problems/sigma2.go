package problems

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/noise"
)

// MethodAuto asks EstimateSigma2 for the method that suits the problem.
const MethodAuto = "auto"

// Sigma2Methods lists the methods that EstimateSigma2 knows.
func Sigma2Methods() []string {
	return []string{MethodAuto, noise.MethodMAD, noise.MethodMedianSingularValue, noise.MethodOLSResidual}
}

// EstimateSigma2 estimates the variance of the noise in data of the named problem,
// or of their specification's, by one of [Sigma2Methods]. MethodAuto is
//
//	ols, ridge, lasso, elastic-net     the residual variance of full-rank OLS
//	svt, robust-pca                    the median singular value; entries of the sparse
//	                                   part count as noise unless they are few
//	matrix-completion                  the same where no entry is missing, else refused
//	tv1d                               MAD of the finest wavelet details
//	a specification whose operator is
//	  dense or csr                     the residual variance of full-rank OLS
//	  another, y a sequence or image   MAD of the finest wavelet details
//	  another, y a matrix under a      the median singular value
//	  nuclear norm
//	  a selection                      refused: its y is no signal
//
// With Data.Intercept the regressions' fit has a column of ones beside X, and a degree of
// freedom less.
//
// The error is a [noise.Refusal] where the method does not apply.
func EstimateSigma2(method, name string, data Data) (noise.Estimate, error) {
	if !slices.Contains(Sigma2Methods(), method) {
		return noise.Estimate{}, fmt.Errorf("sigma2 by %q, expected one of %s", method, strings.Join(Sigma2Methods(), ", "))
	}
	if method == MethodAuto {
		var err error
		if method, err = sigma2Method(name, data); err != nil {
			return noise.Estimate{}, err
		}
	}
	shape := data.YShape
	if shape == nil {
		shape = []int{len(data.Y)}
	}
	switch {
	case method == noise.MethodOLSResidual:
		x, err := designMatrix(data)
		if err != nil {
			return noise.Estimate{}, err
		}
		d, p := x.Dims()
		if d != len(data.Y) {
			return noise.Estimate{}, &noise.Refusal{Method: method, Reason: fmt.Sprintf("y has %d values and X %d rows", len(data.Y), d)}
		}
		if !data.Intercept {
			return noise.OLSResidual(x, data.Y)
		}
		if d <= p+1 {
			return noise.Estimate{}, &noise.Refusal{Method: method, Reason: fmt.Sprintf("X is %d x %d and there is an intercept, expected d > p + 1: the least-squares fit leaves no residual", d, p)}
		}
		// The span of X and the constants, by columns that are nearer to orthogonal.
		c, _, _ := centeredColumns(x)
		for j := range p {
			if mat.Norm(c.ColView(j), math.Inf(1)) == 0 {
				return noise.Estimate{}, &noise.Refusal{Method: method, Reason: fmt.Sprintf("column %d of X is constant, and so is the intercept: leave one of them out", j)}
			}
		}
		with := mat.NewDense(d, p+1, nil)
		for i := range d {
			row := with.RawRowView(i)
			copy(row, c.RawRowView(i))
			row[p] = 1
		}
		return noise.OLSResidual(with, data.fitted())
	case method == noise.MethodMedianSingularValue && data.Indices != nil && len(data.Shape) == 2:
		return noise.Completion(data.Y, data.Indices, data.Shape[0], data.Shape[1])
	case method == noise.MethodMedianSingularValue && len(shape) == 2:
		return noise.MedianSingularValue(data.Y, shape[0], shape[1])
	case method == noise.MethodMedianSingularValue:
		return noise.Estimate{}, &noise.Refusal{Method: method, Reason: fmt.Sprintf("y has shape %s and is no matrix", formatShape(shape))}
	case len(shape) == 2 && name == "tv1d":
		return rowsMAD(data.Y, shape[1])
	case len(shape) == 2:
		return noise.MADImage(data.Y, shape[0], shape[1])
	}
	return noise.MADSignal(data.Y)
}

// rowsMAD is the MAD of sequences that are the rows of a matrix. The sequences may
// have nothing to do with each other: where they are too short for an estimate of
// their own their ends are joined, which spoils the details across the joints, and
// these, one in n/2 or so, do not move a median far.
func rowsMAD(y []float64, n int) (noise.Estimate, error) {
	if n < 16 {
		return noise.Estimate{}, &noise.Refusal{Method: noise.MethodMAD, Reason: fmt.Sprintf("the sequences have %d values each, expected at least 16", n)}
	}
	return noise.MADSignal(y)
}

// sigma2Method is the method that suits the problem.
func sigma2Method(name string, data Data) (string, error) {
	if data.Spec != nil {
		return data.Spec.sigma2Method(data)
	}
	switch name {
	case "ols", "ridge", "lasso", "elastic-net":
		return noise.MethodOLSResidual, nil
	case "svt", "robust-pca", "matrix-completion":
		return noise.MethodMedianSingularValue, nil
	case "tv1d":
		return noise.MethodMAD, nil
	}
	return "", fmt.Errorf("problem %q is unknown, expected one of %s", name, strings.Join(Names(), ", "))
}

// designMatrix is X, written down where it is sparse.
func designMatrix(data Data) (*mat.Dense, error) {
	x, sparse := data.X, data.Sparse
	if data.Spec != nil {
		x, sparse = data.Spec.design()
	}
	if sparse == nil {
		if x == nil || x.IsEmpty() {
			return nil, &noise.Refusal{Method: noise.MethodOLSResidual, Reason: "there is no design matrix"}
		}
		return x, nil
	}
	return denseOf(sparse)
}

func denseOf(s *dataio.Sparse) (*mat.Dense, error) {
	const most = 1 << 27
	if s.Rows <= 0 || s.Cols <= 0 || float64(s.Rows)*float64(s.Cols) > most {
		return nil, &noise.Refusal{Method: noise.MethodOLSResidual, Reason: fmt.Sprintf("the sparse X of %d x %d is too large to be written down", s.Rows, s.Cols)}
	}
	x := mat.NewDense(s.Rows, s.Cols, nil)
	for i := range s.Rows {
		for u := s.IndPtr[i]; u < s.IndPtr[i+1]; u++ {
			x.Set(i, s.Indices[u], s.Values[u])
		}
	}
	return x, nil
}
