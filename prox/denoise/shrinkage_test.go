package denoise_test

import (
	"math"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/prox/denoise"
	"surepipe/prox/proxtest"
)

func undecimated(t *testing.T, rows, cols, channels, levels int) *imaging.Undecimated {
	t.Helper()
	f, err := imaging.NewUndecimated2D(rows, cols, channels, "db2", levels)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// each is one threshold for every band of details.
func each(f *imaging.Undecimated, c float64) []float64 {
	all := make([]float64, f.Bands())
	for band := range all {
		if _, averages := f.Level(band); !averages {
			all[band] = c
		}
	}
	return all
}

func TestShrinkageConforms(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		grey, colour := undecimated(t, 3, 4, 1, 2), undecimated(t, 2, 2, 3, 1)
		for name, p := range map[string]prox.Prox{
			"grey":         denoise.NewShrinkage(grey, each(grey, 0.3)),
			"colour":       denoise.NewShrinkage(colour, each(colour, 0.4)),
			"no threshold": denoise.NewShrinkage(grey, each(grey, 0)),
			"nothing left": denoise.NewShrinkage(grey, each(grey, math.Inf(1))),
		} {
			if err := proxtest.Check(dev, p, p.Dim(), proxtest.Steps(1, 2)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// The trace of J is the divergence: it is that of the matrix of J, and on a large image, where the
// squared norm is estimated, both agree with their estimates from other probes.
func TestShrinkageTrace(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	f := undecimated(t, 40, 37, 1, 3)
	n := f.Len()
	p := denoise.NewShrinkage(f, each(f, 0.25))
	v, b := dev.Put(normal(3, n), 1, n), dev.Alloc(1, n)
	j, err := p.Linearize(b, v, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Release()
	trace, frobenius2, ok := j.Model().Curvature.Trace()
	wantTrace, want2 := 0.0, 0.0
	unit, image := dev.Alloc(1, n), dev.Alloc(1, n)
	x := make([]float64, n)
	for i := range n {
		x[i] = 1
		dev.Upload(unit, x)
		x[i] = 0
		j.Apply(image, unit)
		column := image.ToHost()
		wantTrace += column[i]
		for _, c := range column {
			want2 += c * c
		}
	}
	if !ok || math.Abs(trace-wantTrace) > 1e-10*wantTrace {
		t.Errorf("trace %v, want %v", trace, wantTrace)
	}
	if math.Abs(frobenius2-want2) > 0.02*want2 {
		t.Errorf("squared norm %v, want about %v", frobenius2, want2)
	}
}
