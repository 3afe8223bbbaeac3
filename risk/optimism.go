package risk

import (
	"cmp"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"surepipe/internal/lists"
	"surepipe/internal/numerics"
)

// Optimism is an estimate of how much a minimum that was looked for understates, with its standard
// error. Both are NaN where it is not known.
type Optimism struct {
	Value, StdErr float64
	// LeavesOut says how near the estimate is, and what it does not count.
	LeavesOut string
}

const (
	// Measured in docs/accuracy.md.
	sureLeavesOut = "an estimate to first order, 0.9 to 1.5 times the true one in simulations; it leaves out weights " +
		"that were looked at outside this sweep"
	lossesLeaveOut = "rough, mostly within a factor of 3 of the true one in simulations; it leaves out that other " +
		"data give other fits, and weights that were looked at outside this sweep"
)

// optimismDraws is the number of draws from which it is estimated, whose own error is then about 2%
// of the spread of SURE's differences.
const optimismDraws = 2000

// mostSpreads is how many standard deviations above the minimum a fit may be: those beyond have no
// chance to be it.
const mostSpreads = 6

// Optimism estimates by how much the least value of all, that of fits[best], is too small because it was looked for:
// for SURE, and AIC with a known sigma2, from the covariances of SURE's errors, else from the errors of predicting what
// was left out ([Rule].LeftOut) where digests have them. Fits that are not comparable are skipped; there must be two.
func (c Comparison) Optimism(fits []Fit, best int) Optimism {
	rule := c.Criterion.Rule()
	switch unit := rule.unit(c.Sigma2); {
	case fits[best].Digest == nil:
	case unit > 0:
		return c.optimismOfSURE(fits, best, unit)
	case rule.LeftOut != nil:
		return resampled(rule.LeftOut, fits, best)
	}
	return unknownOptimism
}

var unknownOptimism = Optimism{Value: math.NaN(), StdErr: math.NaN()}

// optimismOfSURE estimates E[loss - SURE] at the fit that has the least SURE of all, fits[best]: SURE at
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
func (c Comparison) optimismOfSURE(fits []Fit, best int, unit float64) Optimism {
	values, rows := c.near(fits, best, c.factors)
	switch {
	case values == nil:
		return unknownOptimism
	case len(values) < 2:
		return Optimism{LeavesOut: sureLeavesOut}
	}
	from := fits[best].Residual.Len()
	all, allErr := simulate(values, covariance(rows, 0))
	jumps, jumpsErr := simulate(values, covariance(rows, from))
	stdErr := math.Hypot((all-jumps)/2, math.Hypot(allErr, jumpsErr)/2)
	return Optimism{(all + jumps) / 2 / unit, stdErr / unit, sureLeavesOut}
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

const (
	// fewestUnits is the number of observations, or of units that are left out together, from which there is something
	// to draw from.
	fewestUnits = 10
	// resamples is how often they are drawn.
	resamples = 50
	// ofItself is the share of itself by which the value varies from one sample to another.
	ofItself = 2. / 3
)

// resampled estimates the optimism of a mean of errors of prediction by the bootstrap (Tsamardinos, Greasidou and
// Borboudakis 2018, "Bootstrapping the out-of-sample predictions for efficient and accurate cross-validation"): as many
// observations as there are, or units that are left out together, are drawn with replacement, the fit with the least
// mean error on these is chosen, and its errors at those that were not drawn are compared with those of fits[best]
// there. The mean over the draws is the value.
//
// The errors stand for the same fits at other observations: that these fits would be others with other observations is
// left out.
func resampled(leftOut func(*Digest) []float64, fits []Fit, best int) Optimism {
	of := func(f Fit) []float64 {
		if f.Digest == nil {
			return nil
		}
		errs := leftOut(f.Digest)
		if !means(errs, f.Value) {
			return nil
		}
		return errs
	}
	at := of(fits[best])
	if len(at) < fewestUnits {
		return unknownOptimism
	}
	compared, rows := 0, [][]float64(nil)
	for k, f := range fits {
		more := of(f)
		if k == best || len(more) != len(at) {
			continue
		}
		compared++
		floats.Sub(more, at)
		if mean, deviation := stat.MeanStdDev(more, nil); mean*math.Sqrt(float64(len(at))) <= mostSpreads*deviation {
			rows = append(rows, more)
		}
	}
	if compared == 0 {
		return unknownOptimism
	}
	mean, stdErr := resample(rows, len(at))
	return Optimism{mean, math.Hypot(stdErr, ofItself*mean), lossesLeaveOut}
}

// means reports that the value is the mean of errors: it is another where some of them do not count.
func means(errs []float64, value float64) bool {
	const rounding = 1e-5 // errors are kept as numbers of 32 bits
	return math.Abs(floats.Sum(errs)-value*float64(len(errs))) <= rounding*floats.Norm(errs, 1)
}

// resample is the mean over draws of what is lost, at the observations that are not drawn, by the choice of the least
// mean over those that are, with its standard error. Each row has the errors of a fit less those of the one that
// other fits are compared with.
func resample(rows [][]float64, n int) (mean, stdErr float64) {
	rng := rand.New(rand.NewPCG(1, 2))
	times, costs := make([]float64, n), make([]float64, 0, resamples)
	for range resamples {
		clear(times)
		for range n {
			times[rng.IntN(n)]++
		}
		var chosen []float64
		least := 0.0
		for _, row := range rows {
			if sum := floats.Dot(times, row); sum < least {
				chosen, least = row, sum
			}
		}
		sum, left := 0.0, 0
		for i, v := range chosen {
			if times[i] == 0 {
				sum += v
				left++
			}
		}
		costs = append(costs, sum/float64(max(left, 1)))
	}
	mean, deviation := stat.MeanStdDev(costs, nil)
	return mean, deviation / math.Sqrt(resamples)
}

// leftOut are the errors of predicting each unit, nil where the digest has their projection alone.
func (d *Digest) leftOut() []float64 {
	if d.Losses == nil || d.Losses.Len() != cmp.Or(d.Units, d.D) {
		return nil
	}
	return lists.Make(d.Losses.Len(), d.Losses.At)
}

// ofAlikeLeverages are the squared errors of which GCV is the mean, by residuals of leverages that are all alike.
func (d *Digest) ofAlikeLeverages() []float64 {
	if d.Residual == nil || d.Residual.Len() != d.D {
		return nil
	}
	return lists.Make(d.D, func(i int) float64 {
		e := d.share() * d.Residual.At(i)
		return e * e
	})
}
