package problems

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/input"
	"surepipe/internal/noise"
	"surepipe/linops/additive"
	"surepipe/problems/spec"
)

// MethodGCVResidual is the residual variance of a fit, RSS/(d - df) at the minimum of GCV
// (risk.Terms.Sigma2DF): a method that takes fits, which is the caller's to compute.
const MethodGCVResidual = noise.MethodGCVResidual

// ErrNeedsFits is the error of EstimateSigma2 where the method is MethodGCVResidual.
var ErrNeedsFits = noise.ErrNeedsFits

// Sigma2Methods lists the methods that EstimateSigma2 knows.
func Sigma2Methods() []string { return noise.Names() }

// EstimateSigma2 estimates the variance of the noise in the data of the named problem, or of their
// specification, by one of [Sigma2Methods], rows of a table in
// internal/noise that knows what suits. Auto takes
//
//	the residual variance of         where the operator is a matrix of more rows than columns:
//	full-rank OLS                    ols, ridge, lasso, elastic-net
//	the entries that are left of     where y is a matrix of low rank and a sparse one:
//	a low rank and of outliers       robust-pca
//	the median singular value, or    where y is a matrix under a nuclear norm: svt. Texture only
//	smooth blocks where that is      adds to the one, and rank only to the other, so that the
//	less by more than its error      least is the nearest
//	smooth blocks                    where y is another image or a volume, or at least half of the pixels of one;
//	                                 the MAD where it has no gaps and is smaller than 24 pixels
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
	s, _, err := checked(name, &data)
	if err != nil {
		return noise.Estimate{}, input.Bad(err)
	}
	if outcomesOf(s.LossOf(data), data) > 0 {
		return sigma2OfColumns(method, s, data)
	}
	o, err := observed(s, data)
	if err != nil {
		return noise.Estimate{}, err
	}
	return noise.Choose(method, o)
}

// ImageOf is y as an image, with or without gaps, of which its blocks tell how its noise is; ok is false where it is
// none.
func ImageOf(name string, data Data) (m *NoiseImage, ok bool) {
	o, ok := observedBy(name, data)
	if ok && o.Gapped() {
		return noise.Gapped(data.Y, o.Places, o.Whole), true
	}
	if !ok || len(data.YShape) < 2 {
		return m, false
	}
	m = noise.Planes(data.Y, data.YShape)
	o.Shape = []int{m.Rows, m.Columns}
	return m, o.Pixels() && len(m.Y) == m.Rows*m.Columns*m.Channels
}

// LowRankOf is y as a matrix of low rank with noise, and whether a sparse one is added; ok is false where it is none.
func LowRankOf(name string, data Data) (m NoiseMatrix, sparse, ok bool) {
	o, ok := observedBy(name, data)
	if !ok || !o.Matrix() {
		return m, false, false
	}
	return NoiseMatrix{Y: data.Y, Rows: data.YShape[0], Columns: data.YShape[1]}, o.Sparse, true
}

// sparsestSequence is the number of places for each value of a sequence up to which it is looked at: beyond, hardly a
// value has a neighbour.
const sparsestSequence = 64

// SequenceOf is y as a sequence in its order, NaN where a value is missing; ok is false where it is none.
func SequenceOf(name string, data Data) (y []float64, ok bool) {
	o, ok := observedBy(name, data)
	if ok && o.Sequence() && data.At == nil && data.Indices == nil {
		return data.Y, true
	}
	if !ok || !o.Selected() || len(o.Whole) != 1 || o.Whole[0] > sparsestSequence*len(o.Places) {
		return nil, false
	}
	y = slices.Repeat([]float64{math.NaN()}, o.Whole[0])
	for k, at := range o.Places {
		y[at] = o.Y[k]
	}
	return y, true
}

func observedBy(name string, data Data) (o noise.Observed, ok bool) {
	s, _, err := specification(name, data)
	if err != nil {
		return o, false
	}
	o, err = observed(s, data)
	return o, err == nil
}

func observed(s *spec.Spec, data Data) (o noise.Observed, err error) {
	o = noise.Observed{
		Y: data.Y, Shape: data.YShape, Regression: s.Regression(), Selection: s.Selects(), Unordered: s.Unordered(),
		LowRank: s.LowRank(), Sparse: s.BesideSparse(), Sequences: s.Sequences(), Image: s.Images(),
		Whitened: s.Noise() != "" && !s.Counts(),
	}
	if o.Places, o.Whole, _, err = s.Sampled(); err != nil {
		return o, err
	}
	if s.Regression() && s.Line("synthesis") == 0 {
		x := s.Design()
		if o.Rows, o.Columns = x.Dims(); data.Intercept && o.Rows > 0 {
			o.Columns++
		}
		o.Design = func() (*mat.Dense, []float64, error) { return regressors(x, data) }
	}
	return o, nil
}

// regressors are the columns of the matrix and, with an intercept, a column of ones, and y.
func regressors(design Matrix, data Data) (*mat.Dense, []float64, error) {
	refuse := func(format string, args ...any) (*mat.Dense, []float64, error) {
		return nil, nil, &noise.Refusal{Method: noise.MethodOLSResidual, Reason: fmt.Sprintf(format, args...)}
	}
	if design.Empty() || design.Stored != nil {
		return refuse("there is no design matrix")
	}
	const most = 1 << 27
	if d, p := design.Dims(); design.Sparse != nil && float64(d)*float64(p) > most {
		return refuse("the sparse X of %d x %d is too large to be stored dense", d, p)
	}
	x := withoutColumns(design.ToDense(), redundant(data))
	d, p := x.Dims()
	if d != len(data.Y) {
		return refuse("y has %d values and X %d rows", len(data.Y), d)
	}
	if !data.Intercept {
		return x, data.Y, nil
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
	y, _, _ := additive.CenterColumns(mat.NewDense(d, 1, data.Y))
	return withOnes(c), y.RawMatrix().Data, nil
}

// sigma2OfColumns is the mean of the estimates from the columns of a y with several.
func sigma2OfColumns(method string, s *spec.Spec, data Data) (noise.Estimate, error) {
	columns := data.YShape[len(data.YShape)-1]
	y := mat.NewDense(len(data.Y)/columns, columns, data.Y)
	return noise.MeanOf(columns, func(k int) (noise.Estimate, error) {
		one := data
		one.YShape, one.Y = data.YShape[:len(data.YShape)-1], mat.Col(nil, k, y)
		o, err := observed(s, one)
		if err != nil {
			return noise.Estimate{}, err
		}
		return noise.Choose(method, o)
	})
}
