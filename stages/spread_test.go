package stages_test

import (
	"slices"
	"testing"

	"surepipe/risk"
	"surepipe/risk/warning"
	"surepipe/stages"
)

// A large spread of leave-one-out is told, and is no reason to doubt the other numbers.
func TestFewObservationsAreTold(t *testing.T) {
	// A perfect fit to counts has a loss of its own, to a class none.
	poisson := &stages.LossTerms{Name: "poisson", Value: -60, Deviance: 40, Likelihood: true}
	logistic := &stages.LossTerms{Name: "logistic", Value: 20, Deviance: 40, Likelihood: true}
	for _, c := range []struct {
		alo, spread float64
		loss        *stages.LossTerms
		told        bool
	}{{3, 0.2, nil, false}, {3, 0.7, nil, true}, {3, 0.2, logistic, false}, {3, 0.7, logistic, true},
		{-1, 0.2, poisson, false}, {1, 0.7, poisson, false}} {
		r := stages.Risk{D: 20, Sigma2: 1, LossTerms: c.loss}
		r.Converged = true
		r.Criteria = risk.Criteria{ALO: c.alo, ALOStdErr: 3 * c.spread}
		told := slices.ContainsFunc(r.Warnings(),
			func(w stages.Warning) bool { return w.Is(warning.FewObservations) })
		without := r
		without.ALOStdErr = 0
		if told != c.told || r.Trusted() != without.Trusted() {
			t.Errorf("spread %g: told %t, trusted %t: %v", c.spread, told, r.Trusted(), r.Warnings())
		}
	}
}

// Counts that vary more about the fit than the likelihood has it are told, not those by chance or about large fits.
func TestOverdispersionIsTold(t *testing.T) {
	for _, c := range []struct {
		ratio, bar, divergence float64
		told                   bool
	}{{3, 0.1, 5, true}, {1.4, 0.01, 5, false}, {1.46, 0.01, 5, true}, {1.7, 0.15, 5, false}, {3, 0.1, 30, false},
		{0, 0, 5, false}} {
		r := stages.Risk{D: 100, LossTerms: &stages.LossTerms{Name: "poisson", Value: 20, Deviance: 40, Likelihood: true,
			Dispersion: c.ratio, DispersionErr: c.bar}}
		r.Converged, r.Trace.Trace = true, c.divergence
		told := slices.ContainsFunc(r.Warnings(),
			func(w stages.Warning) bool { return w.Is(warning.Overdispersed) })
		if told != c.told || !r.Trusted() {
			t.Errorf("%+v: told %t, trusted %t", c, told, r.Trusted())
		}
	}
}
