package risk

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/numerics"
)

// Optimism is an estimate of how much a minimum that was looked for understates, with its standard
// error. Both are NaN where it is not known.
type Optimism struct{ Value, StdErr float64 }

// optimismDraws is the number of draws from which it is estimated, whose own error is then about 2%
// of the spread of SURE's differences.
const optimismDraws = 2000

// mostSpreads is how many standard deviations above the minimum a fit may be: those beyond have no
// chance to be it.
const mostSpreads = 6

// Optimism estimates E[loss - SURE] at the fit that has the least SURE of all, fits[best]: SURE at
// each fit is unbiased, the least of them is too small (Tibshirani and Rosset 2019, "Excess
// optimism: how biased is the apparent error of an estimator tuned by SURE?").
//
// The errors Z_k = SURE_k - loss_k, less that of fits[best], are jointly normal to first order, with
// the covariances (see [Comparison.Difference])
//
//	4 sigma2 <h_k, h_l> + 4 sigma2^2 <D h_k, D h_l>,     h_k = mu_hat_k - mu_hat_best,
//
// which follow from the projections. If SURE_k + Z*_k has its minimum at k*, for such a draw Z*, the
// optimism is the mean of -Z*_k*: the observed values stand for the expected ones, as in the
// bootstrap. Yet the values themselves vary with less than all of Z_k: Stein's lemma gives
//
//	Cov(Z_k, SURE_l) ~ 4 sigma2 <h_k, (I - J_l) h_l> + 4 sigma2^2 <D h_k, D h_l>,
//
// up to the misfit mu_hat - mu, for regularizers with symmetric Jacobians, and 0 <= (I - J_l) <= I
// is not known. (On a LASSO's support J_l h_l = h_l: there the loss moves against Z and SURE not at
// all.) The value is the mean of the two extremes, and half their distance is part of the error.
// What is left out is the bootstrap's own bias, up to a third of it downwards, and the minimum between
// the given fits, which may be a little lower. In simulations of LASSO, matrix completion, robust PCA
// and singular value thresholding it was 0.9 to 1.5 times the true optimism.
//
// Fits that are not comparable are skipped; there must be two. It is for SURE, and AIC with a
// known sigma2.
func (c Comparison) Optimism(fits []Fit, best int) Optimism {
	none := Optimism{math.NaN(), math.NaN()}
	values, rows := c.near(fits, best, c.factors)
	switch {
	case values == nil:
		return none
	case len(values) < 2:
		return Optimism{}
	}
	from, unit := fits[best].Residual.Len(), c.Criterion.Rule().unit(c.Sigma2)
	all, allErr := simulate(values, covariance(rows, 0))
	jumps, jumpsErr := simulate(values, covariance(rows, from))
	return Optimism{(all + jumps) / 2 / unit, math.Hypot((all-jumps)/2, math.Hypot(allErr, jumpsErr)/2) / unit}
}

// near are the fits that have a chance of being the best one: their SURE less that of fits[best], and rows of a matrix
// F with F F* the covariance of Z. It is nil unless two fits are comparable.
func (c Comparison) near(fits []Fit, best int, factors func(a, b *Digest) []float64) (values []float64,
	rows [][]float64) {
	unit, at := c.Criterion.Rule().unit(c.Sigma2), fits[best]
	if !(unit > 0) || at.Digest == nil {
		return nil, nil
	}
	compared := 0
	for _, f := range fits {
		if f.Digest == nil || math.IsNaN(f.Value) || math.IsNaN(c.ofSURE(f.Digest, at.Digest)) {
			continue
		}
		compared++
		value, row := (f.Value-at.Value)*unit, factors(f.Digest, at.Digest)
		if value <= mostSpreads*floats.Norm(row, 2) {
			values, rows = append(values, value), append(rows, row)
		}
	}
	if compared < 2 {
		return nil, nil
	}
	return values, rows
}

func covariance(rows [][]float64, from int) *mat.SymDense {
	c := mat.NewSymDense(len(rows), nil)
	for k, a := range rows {
		for l, b := range rows[:k+1] {
			c.SetSym(k, l, floats.Dot(a[from:], b[from:]))
		}
	}
	return c
}

// factors is a row of a matrix F with F F* = the covariance.
func (c Comparison) factors(a, b *Digest) []float64 {
	row := make([]float64, 0, a.Residual.Len()+a.Images.Len())
	for i := range a.Residual.Len() {
		row = append(row, 2*math.Sqrt(c.most())*(a.Residual.At(i)-b.Residual.At(i)))
	}
	weight := 2 * c.most() / math.Sqrt(float64(a.Probes))
	for i := range a.Images.Len() {
		row = append(row, weight*(a.Images.At(i)-b.Images.At(i)))
	}
	return row
}

// simulate is the mean of -Z at the minimum of values + Z, with its standard error, for normal Z of
// this covariance.
func simulate(values []float64, covariance *mat.SymDense) (mean, stdErr float64) {
	squares := 0.0
	known := each(values, covariance, func(_ int, z float64) {
		mean -= z / optimismDraws
		squares += z * z / optimismDraws
	})
	if !known {
		return math.NaN(), math.NaN()
	}
	return mean, math.Sqrt(max(0, squares-mean*mean) / optimismDraws)
}

// each calls f with the place of the minimum of values + Z, and Z there, for draws of normal Z of this covariance. It
// reports whether that could be factored.
func each(values []float64, covariance *mat.SymDense, f func(least int, z float64)) bool {
	variances, root, err := numerics.Eigen(covariance)
	if err != nil {
		return false
	}
	n := len(values)
	for j, v := range variances {
		v = math.Sqrt(max(v, 0))
		for k := range n {
			root.Set(k, j, v*root.At(k, j))
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	g := make([]float64, n)
	for range optimismDraws {
		for i := range g {
			g[i] = rng.NormFloat64()
		}
		at, least, z := 0, math.Inf(1), 0.0
		for k, v := range values {
			if sum := floats.Dot(root.RawRowView(k), g); v+sum < least {
				at, least, z = k, v+sum, sum
			}
		}
		f(at, z)
	}
	return true
}
