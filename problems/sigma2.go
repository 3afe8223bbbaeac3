package problems

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/noise"
	"surepipe/linops/additive"
)

// MethodAuto lets EstimateSigma2 choose the method that suits the problem.
const MethodAuto = "auto"

// MethodGCVResidual is the residual variance of a fit, RSS/(d - df) at the minimum of GCV
// (risk.Terms.Sigma2DF): a method that takes fits, which is the caller's to compute.
const MethodGCVResidual = "gcv-residual"

// ErrNeedsFits is the error of EstimateSigma2 where the method is MethodGCVResidual.
var ErrNeedsFits = errors.New("sigma2 follows from fits at several weights, by " + MethodGCVResidual)

// Sigma2Methods lists the methods that EstimateSigma2 knows.
func Sigma2Methods() []string {
	return []string{MethodAuto, noise.MethodOLSResidual, noise.MethodMedianSingularValue, noise.MethodRobustLowRank,
		noise.MethodSmoothBlocks, noise.MethodMAD, MethodGCVResidual}
}

// EstimateSigma2 estimates the variance of the noise in the data of the named problem, or of their
// specification, by one of [Sigma2Methods]. MethodAuto takes
//
//	the residual variance of         where the operator is a matrix of more rows than columns:
//	full-rank OLS                    ols, ridge, lasso, elastic-net
//	the entries that are left of     where y is a matrix of low rank and a sparse one:
//	a low rank and of outliers       robust-pca
//	the median singular value, or    where y is a matrix under a nuclear norm: svt. Texture only
//	smooth blocks where that is      adds to the one, and rank only to the other, so that the
//	less by more than its error      least is the nearest
//	smooth blocks                    where y is another image; the MAD where it is smaller than
//	                                 8 blocks
//	the MAD of the finest wavelet    where y is another sequence: tv1d, whose rows are sequences
//	details
//	MethodGCVResidual                elsewhere: where a matrix has no more rows than columns, and
//	                                 where entries are missing, as in matrix-completion
//
// With Data.Intercept the least-squares fit has a column of ones beside the matrix, and one residual
// degree of freedom less.
//
// The error is a [noise.Refusal] where the method does not apply, and ErrNeedsFits for
// MethodGCVResidual.
func EstimateSigma2(method, name string, data Data) (noise.Estimate, error) {
	if !slices.Contains(Sigma2Methods(), method) {
		return noise.Estimate{}, fmt.Errorf("sigma2 by %q, expected one of %s", method,
			strings.Join(Sigma2Methods(), ", "))
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
		method = spec.sigma2Method(shape, data.Intercept)
	}
	switch method {
	case MethodGCVResidual:
		return noise.Estimate{}, ErrNeedsFits
	case noise.MethodOLSResidual:
		return spec.olsResidual(data)
	case noise.MethodMedianSingularValue:
		return spec.medianSingularValue(data.Y, shape)
	case noise.MethodRobustLowRank:
		return spec.robustLowRank(data.Y, shape)
	case leastOfBoth:
		return spec.leastVariance(data.Y, shape)
	}
	if err := spec.ordered(method); err != nil {
		return noise.Estimate{}, err
	}
	switch {
	case method == noise.MethodSmoothBlocks && len(shape) != 2:
		return noise.Estimate{}, &noise.Refusal{Method: method,
			Reason: fmt.Sprintf("y has shape %s and is not an image", formatShape(shape))}
	case method == noise.MethodSmoothBlocks:
		return noise.SmoothBlocks(data.Y, shape[0], shape[1])
	case len(shape) != 2:
		return noise.MADSignal(data.Y)
	case spec.sequences():
		return rowsMAD(data.Y, shape[1])
	}
	return noise.MADImage(data.Y, shape[0], shape[1])
}

// leastOfBoth stands for the least of two methods, see leastVariance.
const leastOfBoth = "least"

// leastSide is the side of an image from which it has blocks enough for their method.
const leastSide = 24

// sigma2Method is the method that suits the specification: see EstimateSigma2.
func (s *Spec) sigma2Method(shape []int, intercept bool) string {
	switch {
	case s.noise != nil:
		return MethodGCVResidual
	case s.operator.matrix != nil && s.synthesis == nil:
		if d, p, known := s.designDims(); known && intercept && d <= p+1 || known && d <= p {
			return MethodGCVResidual
		}
		return noise.MethodOLSResidual
	case s.operator.sampled != nil && s.synthesis == nil && s.regularizer.kind == "nuclear":
		places, whole, err := s.operator.sampled(s)
		if err == nil && len(whole) == 2 && len(places) < whole[0]*whole[1] {
			return MethodGCVResidual
		}
		return noise.MethodMedianSingularValue
	case s.operator.selects() || s.operator.matrix != nil || s.operator.contains("fourier"):
		return MethodGCVResidual
	case len(shape) != 2 || s.sequences():
		return noise.MethodMAD
	case !s.images && s.regularizer.besideSparse():
		return noise.MethodRobustLowRank
	case !s.images && s.regularizer.nuclear():
		return leastOfBoth
	case min(shape[0], shape[1]) < leastSide:
		return noise.MethodMAD
	}
	return noise.MethodSmoothBlocks
}

// sequences reports whether a matrix y is one of sequences side by side, its rows.
func (s *Spec) sequences() bool { return s.regularizer.kind == "tv1d" && !s.images }

// ordered refuses a method for which y must be a signal or an image, whose neighbours are alike.
func (s *Spec) ordered(method string) error {
	switch {
	case s.operator.matrix != nil:
		return &noise.Refusal{Method: method, Reason: "the rows of a regression may be in any order, so that the " +
			"differences of neighbours hold signal as well as noise; expected a sequence or an image. Use auto: " +
			noise.MethodOLSResidual + " where d > p, else " + MethodGCVResidual}
	case s.operator.contains("fourier"):
		return &noise.Refusal{Method: method, Reason: "y are samples of a Fourier transform, whose neighbours are " +
			"not alike; expected a sequence or an image. Use auto, or " + MethodGCVResidual}
	case s.operator.selects():
		return &noise.Refusal{Method: method, Reason: "y is a selection of entries, and its neighbours need not " +
			"be neighbours there; expected a sequence or an image. Use auto, or " + MethodGCVResidual}
	}
	return nil
}

// leastVariance is the median singular value's estimate, or that of smooth blocks if that is less by
// more than two standard errors of the former: a picture has no low rank, and the median singular
// value takes its texture for noise. Either errs upwards where its assumption fails, which is most
// of the error of smooth blocks. What the median singular value exceeds the other by counts as part
// of its error.
func (s *Spec) leastVariance(y []float64, shape []int) (noise.Estimate, error) {
	rank, err := s.medianSingularValue(y, shape)
	blocks, refused := noise.SmoothBlocks(y, shape[0], shape[1])
	if err != nil || refused != nil {
		return rank, err
	}
	if rank.Sigma2-blocks.Sigma2 > 2*rank.Sigma2*rank.RelStdErr {
		return blocks, nil
	}
	rank.RelStdErr = math.Hypot(rank.RelStdErr, max(rank.Sigma2-blocks.Sigma2, 0)/rank.Sigma2)
	return rank, nil
}

// designDims are the rows and columns of the operator's matrix, where its array is known.
func (s *Spec) designDims() (d, p int, known bool) {
	if ref := s.operator.matrix; ref != nil && s.synthesis == nil {
		if a := s.loaded[ref]; a != nil && a.mapped != nil {
			return a.mapped.Rows, a.mapped.Cols, true
		}
	}
	x, sparse := s.design()
	switch {
	case sparse != nil:
		return sparse.Rows, sparse.Cols, true
	case x == nil || x.IsEmpty():
		return 0, 0, false
	}
	d, p = x.Dims()
	return d, p, true
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
	x = withoutColumns(x, data.redundant())
	d, p := x.Dims()
	if d != len(data.Y) {
		return refuse("y has %d values and X %d rows", len(data.Y), d)
	}
	if !data.Intercept {
		return noise.OLSResidual(x, data.Y)
	}
	if d <= p+1 {
		return refuse("X is %d x %d and there is an intercept, expected d > p + 1: the least-squares fit leaves "+
			"no residual", d, p)
	}
	// Centered columns span the same space together with the ones, and are nearer to orthogonal.
	c, _, _ := additive.CenterColumns(x)
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
	return noise.Estimate{}, &noise.Refusal{Method: noise.MethodMedianSingularValue,
		Reason: fmt.Sprintf("y has shape %s and is not a matrix", formatShape(shape))}
}

// robustLowRank is the estimate from the entries of y that a low rank and a few outliers leave.
func (s *Spec) robustLowRank(y []float64, shape []int) (noise.Estimate, error) {
	switch {
	case s.operator.matrix != nil || s.operator.sampled != nil || s.operator.selects():
		return noise.Estimate{}, &noise.Refusal{Method: noise.MethodRobustLowRank,
			Reason: "y is not the matrix of low rank itself, with noise"}
	case len(shape) != 2:
		return noise.Estimate{}, &noise.Refusal{Method: noise.MethodRobustLowRank,
			Reason: fmt.Sprintf("y has shape %s and is not a matrix", formatShape(shape))}
	}
	return noise.RobustLowRank(y, shape[0], shape[1])
}

// rowsMAD is the MAD estimate for sequences of n values that are the rows of a matrix. The rows are
// joined end to end, because they may be too short for estimates of their own. This affects the
// details across the joints, but these are few among n and hardly change a median.
func rowsMAD(y []float64, n int) (noise.Estimate, error) {
	if n < 16 {
		return noise.Estimate{}, &noise.Refusal{Method: noise.MethodMAD,
			Reason: fmt.Sprintf("the sequences have %d values each, expected at least 16", n)}
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
		return nil, &noise.Refusal{Method: noise.MethodOLSResidual,
			Reason: fmt.Sprintf("the sparse X of %d x %d is too large to be stored dense", s.Rows, s.Cols)}
	}
	x := mat.NewDense(s.Rows, s.Cols, nil)
	for i := range s.Rows {
		for u := s.IndPtr[i]; u < s.IndPtr[i+1]; u++ {
			x.Set(i, s.Indices[u], s.Values[u])
		}
	}
	return x, nil
}

// design is the dense or sparse matrix of an operator that is a matrix; both are nil for other
// operators.
func (s *Spec) design() (*mat.Dense, *dataio.Sparse) {
	if s.operator.matrix == nil || s.synthesis != nil {
		return nil, nil
	}
	a := s.loaded[s.operator.matrix]
	switch {
	case a == nil:
		return nil, nil
	case a.sparse != nil:
		return nil, a.sparse
	case a.mapped != nil:
		return nil, nil
	case a.dense != nil:
		return a.dense, nil
	}
	x, err := a.matrix()
	if err != nil {
		return nil, nil
	}
	return mat.DenseCopyOf(x), nil
}
