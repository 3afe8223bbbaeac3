package stages_test

import (
	"slices"
	"testing"

	"surepipe/risk"
	"surepipe/stages"
)

// A large spread of leave-one-out is told, and is no reason to doubt the other numbers.
func TestFewObservationsAreTold(t *testing.T) {
	for _, c := range []struct {
		spread float64
		told   bool
	}{{0.2, false}, {0.7, true}} {
		r := stages.Risk{D: 20, Sigma2: 1}
		r.Converged = true
		r.Criteria = risk.Criteria{ALO: 3, ALOStdErr: 3 * c.spread}
		told := slices.ContainsFunc(r.Warnings(), func(w stages.Warning) bool { return w.Code == stages.FewObservations })
		without := r
		without.ALOStdErr = 0
		if told != c.told || r.Trusted() != without.Trusted() {
			t.Errorf("spread %g: told %t, trusted %t: %v", c.spread, told, r.Trusted(), r.Warnings())
		}
	}
}
