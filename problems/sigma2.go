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

// MethodAuto lets EstimateSigma2 choose the method that suits the problem.
const MethodAuto = "auto"

// Sigma2Methods lists the methods that EstimateSigma2 knows.
func Sigma2Methods() []string {
	return []string{MethodAuto, noise.MethodMAD, noise.MethodMedianSingularValue, noise.MethodOLSResidual}
}

// EstimateSigma2 estimates the variance of the noise in the data of the named problem, or of their
// specification, by one of [Sigma2Methods]. MethodAuto takes
//
//	the residual variance of        where the operator is a matrix: ols, ridge, lasso,
//	full-rank OLS                   elastic-net
//	the median singular value       where y is a matrix under a nuclear norm: svt, robust-pca.
//	                                Entries of the sparse part count as noise unless they
//	                                are few. The same for a selection of the entries of a
//	                                matrix under a nuclear norm, matrix-completion, if no
//	                                entry is missing; otherwise it is refused
//	the MAD of the finest wavelet   where y is another sequence or image: tv1d, whose rows are
//	details                         sequences
//
// and rejects other selections, whose y is not a signal. With Data.Intercept the least-squares fit
// has a column of ones beside the matrix, and one residual degree of freedom less.
//
// The error is a [noise.Refusal] where the method does not apply.
func EstimateSigma2(method, name string, data Data) (noise.Estimate, error) {
	if !slices.Contains(Sigma2Methods(), method) {
		return noise.Estimate{}, fmt.Errorf("sigma2 by %q, expected one of %s", method, strings.Join(Sigma2Methods(), ", "))
	}
	spec, err := data.specification(name)
	if err != nil {
		return noise.Estimate{}, err
	}
	shape := data.YShape
	if shape == nil {
		shape = []int{len(data.Y)}
	}
	if len(shape) == 3 && shape[2] <= mostChannels {
		return sigma2OfChannels(method, name, data, shape)
	}
	if method == MethodAuto {
		if method, err = spec.sigma2Method(shape); err != nil {
			return noise.Estimate{}, err
		}
	}
	switch method {
	case noise.MethodOLSResidual:
		return spec.olsResidual(data)
	case noise.MethodMedianSingularValue:
		return spec.medianSingularValue(data.Y, shape)
	}
	switch {
	case len(shape) != 2:
		return noise.MADSignal(data.Y)
	case spec.regularizer.kind == "tv1d" && !spec.images:
		return rowsMAD(data.Y, shape[1])
	}
	return noise.MADImage(data.Y, shape[0], shape[1])
}

// sigma2Method is the method that suits the specification: see EstimateSigma2.
func (s *Spec) sigma2Method(shape []int) (string, error) {
	switch {
	case s.operator.matrix != nil && s.synthesis == nil:
		return noise.MethodOLSResidual, nil
	case s.operator.sampled != nil && s.synthesis == nil && s.regularizer.kind == "nuclear":
		return noise.MethodMedianSingularValue, nil
	case s.operator.selects():
		return "", &noise.Refusal{Method: MethodAuto, Reason: "y is a selection of entries, neither a signal nor a matrix"}
	case len(shape) == 2 && !s.images && s.regularizer.nuclear():
		return noise.MethodMedianSingularValue, nil
	}
	return noise.MethodMAD, nil
}

// olsResidual is the residual variance of the least-squares fit by all columns, and with an
// intercept by a column of ones too.
func (s *Spec) olsResidual(data Data) (noise.Estimate, error) {
	refuse := func(format string, args ...any) (noise.Estimate, error) {
		return noise.Estimate{}, &noise.Refusal{Method: noise.MethodOLSResidual, Reason: fmt.Sprintf(format, args...)}
	}
	x, err := s.designMatrix()
	if err != nil {
		return noise.Estimate{}, err
	}
	d, p := x.Dims()
	if d != len(data.Y) {
		return refuse("y has %d values and X %d rows", len(data.Y), d)
	}
	if !data.Intercept {
		return noise.OLSResidual(x, data.Y)
	}
	if d <= p+1 {
		return refuse("X is %d x %d and there is an intercept, expected d > p + 1: the least-squares fit leaves no residual", d, p)
	}
	// Centered columns span the same space together with the ones, and are nearer to orthogonal.
	c, _, _ := centeredColumns(x)
	for j := range p {
		if mat.Norm(c.ColView(j), math.Inf(1)) == 0 {
			return refuse("column %d of X is constant, and so is the intercept: leave one of them out", j)
		}
	}
	with := mat.NewDense(d, p+1, nil)
	for i := range d {
		row := with.RawRowView(i)
		copy(row, c.RawRowView(i))
		row[p] = 1
	}
	return noise.OLSResidual(with, data.fitted())
}

// medianSingularValue is the estimate from the singular values of y, or of the matrix whose entries
// y lists in full.
func (s *Spec) medianSingularValue(y []float64, shape []int) (noise.Estimate, error) {
	if s.operator.sampled != nil && s.synthesis == nil {
		places, whole, err := s.operator.sampled(s)
		if err != nil {
			return noise.Estimate{}, s.at(s.operator.line, err)
		}
		if len(whole) == 2 && len(places) == len(y) {
			return noise.Completion(y, places, whole[0], whole[1])
		}
	}
	if len(shape) == 2 {
		return noise.MedianSingularValue(y, shape[0], shape[1])
	}
	return noise.Estimate{}, &noise.Refusal{Method: noise.MethodMedianSingularValue, Reason: fmt.Sprintf("y has shape %s and is not a matrix", formatShape(shape))}
}

// rowsMAD is the MAD estimate for sequences of n values that are the rows of a matrix. The rows are
// joined end to end, because they may be too short for estimates of their own. This affects the
// details across the joints, but these are few among n and hardly change a median.
func rowsMAD(y []float64, n int) (noise.Estimate, error) {
	if n < 16 {
		return noise.Estimate{}, &noise.Refusal{Method: noise.MethodMAD, Reason: fmt.Sprintf("the sequences have %d values each, expected at least 16", n)}
	}
	return noise.MADSignal(y)
}

// designMatrix is the operator's matrix as a dense one.
func (s *Spec) designMatrix() (*mat.Dense, error) {
	x, sparse := s.design()
	if sparse != nil {
		return denseOf(sparse)
	}
	if x == nil || x.IsEmpty() {
		return nil, &noise.Refusal{Method: noise.MethodOLSResidual, Reason: "there is no design matrix"}
	}
	return x, nil
}

func denseOf(s *dataio.Sparse) (*mat.Dense, error) {
	const most = 1 << 27
	if s.Rows <= 0 || s.Cols <= 0 || float64(s.Rows)*float64(s.Cols) > most {
		return nil, &noise.Refusal{Method: noise.MethodOLSResidual, Reason: fmt.Sprintf("the sparse X of %d x %d is too large to be stored dense", s.Rows, s.Cols)}
	}
	x := mat.NewDense(s.Rows, s.Cols, nil)
	for i := range s.Rows {
		for u := s.IndPtr[i]; u < s.IndPtr[i+1]; u++ {
			x.Set(i, s.Indices[u], s.Values[u])
		}
	}
	return x, nil
}
