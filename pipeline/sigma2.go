package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"surepipe/risk"
)

// ResidualVariance is an estimate of sigma2 from the residuals of fits.
type ResidualVariance struct {
	// Sigma2 is RSS/(d - df) at the least GCV, and RelStdErr its standard error over its value:
	// see [EstimateSigma2].
	Sigma2, RelStdErr float64
	// Weight is that of the fit, DF its divergence, and D the number of observations.
	Weight float64
	DF     float64
	D      int
	// AtEnd reports that the least GCV was found at the last point that was tried, the end of the
	// grid or the last with df up to d/2, so that the minimum may lie beyond and the bias be large.
	AtEnd  bool
	Points int
}

const (
	// risen is the factor above the least GCV at which the search along the path ends, and crowded
	// the share of d that df may reach: beyond it GCV often falls again towards interpolation, where
	// it is the quotient of two small numbers.
	risen   = 1.2
	crowded = 0.5
)

// ErrNoResidual says that no fit leaves half of the degrees of freedom to the residual.
var ErrNoResidual = errors.New("no fit leaves half of the degrees of freedom to the residual, from which sigma2 " +
	"could be estimated")

// EstimateSigma2 estimates the variance of the noise from fits along a grid of one weight,
//
//	sigma2 = RSS / (d - df),   df = tr D mu_hat,
//
// at the weights of least GCV (as Reid, Tibshirani and Friedman, A study of error variance
// estimation in lasso regression, Statistica Sinica 2016, with cross-validation). It needs no sigma2,
// and serves where there is no other estimate: regressions with d <= p, matrices with missing
// entries. It is biased up, by the squared bias of the fit over d - df; a LASSO that chooses among
// far more columns than observations also fits noise that df does not count, which takes some off.
// Simulated, over draws of a LASSO of 200 x 500 with 10 coefficients, it had a mean of 0.90 to 0.97
// of sigma2 and a spread of 0.2, with 40 coefficients a mean of 1.75; over matrix completions of
// rank 3 a mean of 1.01 to 1.21 and a spread of 0.1.
//
// Options are those of [Sweep]; Sigma2, Criterion, Refine and Known are ignored. It does not refine
// the grid, and stops along the path where GCV has risen to 1.2 times its least value, or df exceeds
// d/2.
//
// The standard error has three parts: that of the residual for a fixed linear fit,
//
//	sqrt(2 (d - 2 df + ||D mu_hat||_F^2)) / (d - df),
//
// relative to sigma2; that of the trace, its error over d - df; and that of the weight, the root
// mean square of the relative differences to the estimates at the points whose GCV exceeds the least
// by at most a share sqrt(2/d). The bias is in none of them.
func EstimateSigma2(ctx context.Context, y []float64, f Family, grid [][]float64, o SweepOptions) (v ResidualVariance,
	err error) {
	if len(grid) != 1 {
		return v, fmt.Errorf("pipeline: a grid of %d axes, expected one, to estimate sigma2", len(grid))
	}
	o.Sigma2, o.Criterion, o.Refine, o.Known = 0, risk.GCV, -1, nil
	return residualVariance(Sweep(ctx, y, f, grid, o))
}

func residualVariance(points iter.Seq2[SweepPoint, error]) (v ResidualVariance, err error) {
	least, ended := math.Inf(1), true
	var best SweepPoint
	var passed []SweepPoint
	for point, err := range points {
		if err != nil {
			return v, err
		}
		if point.Stage == MinimizerStage || point.Trace.Trace > crowded*float64(point.D) {
			break
		}
		passed = append(passed, point)
		if point.Trusted() && point.GCV < least {
			best, least = point, point.GCV
		}
		if point.GCV > risen*least {
			ended = false
			break
		}
	}
	if math.IsInf(least, 1) {
		return v, fmt.Errorf("pipeline: %w", ErrNoResidual)
	}
	v = ResidualVariance{
		Sigma2: best.Sigma2DF, Weight: best.Weights[0], DF: best.Trace.Trace, D: best.D,
		AtEnd: ended && passed[len(passed)-1].Index == best.Index, Points: len(passed),
	}
	d := float64(best.D)
	t := best.Terms()
	left := t.ResidualDF()
	sampling := math.Sqrt(2*max(d-2*t.Divergence+t.Frobenius2, left*left/d)) / left
	// How far the estimate depends on where the minimum was found.
	squares, count := 0.0, 0.0
	for _, p := range passed {
		if p.Trusted() && p.GCV <= least*(1+math.Sqrt(2/d)) && p.Index != best.Index {
			e := p.Sigma2DF/v.Sigma2 - 1
			squares += e * e
			count++
		}
	}
	v.RelStdErr = math.Hypot(sampling, best.Trace.Error()/left)
	if count > 0 {
		v.RelStdErr = math.Hypot(v.RelStdErr, math.Sqrt(squares/count))
	}
	return v, nil
}
