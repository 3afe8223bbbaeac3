package risk

// Regret is what the choice of a fit by its least value is likely to cost: the loss ||mu_hat - mu||^2 at the fit that
// is chosen over that at the best of the fits, less 1.
type Regret struct {
	// Mean is its mean, and Beyond the probability that it exceeds [Tolerable].
	Mean, Beyond float64
}

// Tolerable is the regret that is taken as none.
const Tolerable = 0.1

// Regret estimates what the choice of fits[best] costs. With Z as in [Comparison.Optimism], and the errors of sigma2
// and of the noise's correlation as two more normal numbers in it, each draw chooses the minimizer of SURE + Z, and its
// regret is SURE there less the least: the observed values stand for the losses, as in the bootstrap. The loss at the
// best fit, which SURE knows only up to the error that all fits share, is taken as its variance,
//
//	sigma2 tr C D D* <= sigma2 Most ||D mu_hat||_F^2.
//
// It is for SURE, and nil where that has no such errors.
func (c Comparison) Regret(fits []Fit, best int) *Regret {
	values, rows := c.near(fits, best, func(a, b *Digest) []float64 {
		return append(c.factors(a, b), 2*c.Sigma2*c.RelStdErr*(a.covarianceTrace()-b.covarianceTrace()),
			2*c.Sigma2*(a.ByRho-b.ByRho))
	})
	if values == nil {
		return nil
	}
	at := fits[best].Digest
	frobenius := size(at.Images)
	loss := c.most() * frobenius * frobenius / float64(at.Probes)
	if !(loss > 0) {
		return nil
	}
	out := &Regret{}
	known := each(values, covariance(rows, 0), func(least int, _ float64) {
		regret := values[least] / loss
		out.Mean += regret / optimismDraws
		if regret > Tolerable {
			out.Beyond += 1. / optimismDraws
		}
	})
	if !known {
		return nil
	}
	return out
}
