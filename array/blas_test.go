package array_test

import (
	"testing"

	"surepipe/array"
)

func TestKernelsAreDescribed(t *testing.T) {
	for _, c := range []struct {
		report array.BLASReport
		want   string
	}{
		{array.BLASReport{Name: "gonum"}, ""},
		{array.BLASReport{Name: "MKL", Path: "libmkl_rt.so"}, ""},
		{array.BLASReport{Name: "OpenBLAS", Core: "SkylakeX"}, "SkylakeX"},
		{array.BLASReport{Name: "OpenBLAS", Core: "SkylakeX", OwnCore: "Prescott"},
			"SkylakeX, set by surepipe: OpenBLAS chose Prescott by itself, which is slow for this processor"},
		{array.BLASReport{Name: "OpenBLAS", Core: "Prescott", Advice: "slow: set it"}, "Prescott, slow: set it"},
	} {
		if got := c.report.Kernels(); got != c.want {
			t.Errorf("the kernels are %q, expected %q", got, c.want)
		}
	}
}
