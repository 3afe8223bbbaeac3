package figure

import (
	"slices"
	"strings"
	"testing"
)

// Single wild values, and values that did not converge and lie far off, do not set the scale.
func TestSettled(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		closed []bool
		want   []float64
	}{
		"a curve":             {[]float64{5, 2, 1, 2, 3, 6}, nil, []float64{5, 2, 1, 2, 3, 6}},
		"exponential growth":  {[]float64{1, 4, 16, 64, 256, 1024}, nil, []float64{1, 4, 16, 64, 256, 1024}},
		"a wild one above":    {[]float64{2, 1, 100, 2, 3, 2}, nil, []float64{2, 1, 2, 3, 2}},
		"a wild one below":    {[]float64{2, 1, -100, 2, 3, 2}, nil, []float64{2, 1, 2, 3, 2}},
		"two of six":          {[]float64{2, 1, 100, 2, 100, 2}, nil, []float64{2, 1, 100, 2, 100, 2}},
		"too few to tell":     {[]float64{2, 1, 100}, nil, []float64{2, 1, 100}},
		"equal but for one":   {[]float64{1, 1, 1, 1, 1, 7}, nil, []float64{1, 1, 1, 1, 1, 7}},
		"not converged, far":  {[]float64{2, 1, 3, 50}, []bool{true, true, true, false}, []float64{2, 1, 3}},
		"not converged, near": {[]float64{2, 1, 3, 4.5}, []bool{true, true, true, false}, []float64{2, 1, 3, 4.5}},
		"nothing converged":   {[]float64{2, 1, 50}, []bool{false, false, false}, []float64{2, 1, 50}},
		"only one has":        {[]float64{2, 1, 50}, []bool{true, false, false}, []float64{2, 1, 50}},
		"one of all":          {[]float64{4}, nil, []float64{4}},
		"wild and unconverged": {[]float64{2, 1, 1e9, 2, 3, 2, -1e9}, []bool{true, true, true, true, true, true,
			false}, []float64{2, 1, 2, 3, 2}},
	} {
		if got := settled(c.values, c.closed, c.values); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v set the scale, want %v", name, got, c.want)
		}
	}
}

// A point beyond the frame is named in the legend.
func TestLegendsOfWhatIsBeyond(t *testing.T) {
	s := Sweep{Lambda: []float64{1, 2, 3, 4, 5, 6}, SURE: []float64{2, 1, 1.5, 400, 2, 2.5}}
	b, err := s.block()
	if err != nil {
		t.Fatal(err)
	}
	if top := b.panels[0].Y.Max; top > 3 {
		t.Errorf("the axis reaches %g", top)
	}
	if got := svg(t, s); !strings.Contains(got, "beyond the frame, up to 400") {
		t.Errorf("texts %s", got)
	}
}
