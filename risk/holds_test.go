package risk_test

import (
	"math"
	"testing"

	"surepipe/risk"
	"surepipe/risk/warning"
)

// GCV is marked where leave-one-out is well above it, by more than its errors, and only there.
func TestGCVIsMarkedWhereLeveragesSpread(t *testing.T) {
	holds := risk.GCV.Rule().Holds
	spread := risk.LeveragesOf([]float64{0.1, 0.9, 0.5, 1}, []bool{false, false, false, true})
	if math.Abs(spread.Mean-0.5) > 1e-15 || math.Abs(spread.SD-math.Sqrt(0.32/3)) > 1e-15 || spread.NearOne != 0 {
		t.Errorf("%+v", spread)
	}
	for _, c := range []struct {
		gcv, alo, stdErr float64
		known, marked    bool
	}{
		{0.21, 0.98, 0.11, true, true},
		{0.21, 0.98, 0.11, false, false}, // without leverages nothing is known
		{0.95, 0.98, 0.11, true, false},
		{0.5, 0.98, 0.4, true, false}, // within the errors
		{0.98, 0.5, 0.01, true, false},
	} {
		f := risk.Fitted{Criteria: risk.Criteria{GCV: c.gcv, ALO: c.alo, ALOStdErr: c.stdErr}}
		if c.known {
			f.Leverages = spread
		}
		if w := holds(f); (len(w) > 0) != c.marked || c.marked && !w[0].Is(warning.GCVLeverages) {
			t.Errorf("%+v: %v", c, w)
		}
	}
}

// An error of prediction that is smaller than its own bar, or rests on leverages near 1, is not small for being right.
func TestUnsureValues(t *testing.T) {
	for _, c := range []struct {
		by                  risk.Criterion
		value, stdErr, near float64
		want                bool
	}{
		{risk.ALO, 0.05, 18, 0, true}, {risk.ALO, 1, 0.1, 0, false}, {risk.GCV, 1, 0.1, 0.6, true},
		{risk.SURE, 446, 1e4, 1, false}, {risk.ALO, 1, math.NaN(), 0, false},
	} {
		if got := c.by.Rule().Unsure(c.value, c.stdErr, c.near, true); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	// The mean loss of counts is no distance from 0.
	counts := risk.ALO.Rule()
	if counts.Unsure(-0.4, 0.5, 0, false) || !counts.Unsure(-0.4, 0.5, 0.6, false) {
		t.Error("a loss that is not 0 at a perfect fit is judged by its bar, or not by its leverages")
	}
}
