package verify

import "testing"

// Several kinks within the first step once made the differences at h and h/2 agree by chance, to
// 0.0012, where the one-sided ones were 0.039 apart: the printed form, which the right difference
// of the next step agrees with, is no error.
func TestKinksThatCancelAreAnError(t *testing.T) {
	large := form{printed: 0.92362, low: 0.94330, high: 0.98233, bar: 0.00121, resolved: true}
	small := form{printed: 0.92362, low: 0.92363, high: 0.92957, bar: 0.018, resolved: true}
	for _, f := range []form{large, small} {
		if f.wide() || f.bars() > 1 {
			t.Errorf("%+v: wide %t, %.3g bars", f, f.wide(), f.bars())
		}
	}
	// An error is still one.
	wrong := form{printed: 0.90, low: 0.92362, high: 0.92363, bar: 0.001, resolved: true}
	if wrong.bars() <= Limit {
		t.Errorf("a form that is off by 0.024 is off by %.3g bars", wrong.bars())
	}
}
