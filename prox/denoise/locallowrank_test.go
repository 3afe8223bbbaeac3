package denoise_test

import (
	"math"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox"
	"surepipe/prox/denoise"
	"surepipe/prox/lowrank"
	"surepipe/prox/proxtest"
)

func TestLocalLowRankConforms(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		one, two := prox.Series{Frames: 3, Rows: 4, Cols: 3, Patch: 2, Stride: 2},
			prox.Series{Frames: 2, Rows: 3, Cols: 4, Patch: 2, Stride: 1}
		tall := prox.Series{Frames: 5, Rows: 2, Cols: 2, Patch: 2, Stride: 2}
		for name, c := range map[string]struct {
			s      prox.Series
			lambda float64
			steps  []float64
		}{
			"one tiling":   {one, 0.8, []float64{0.3, 1, 1.7}},
			"four tilings": {two, 0.7, []float64{1, 2}},
			"tall patches": {tall, 1.1, []float64{0.5, 1}},
			"no threshold": {one, 0, []float64{1, 2}},
			"nothing left": {two, math.Inf(1), []float64{1, 2}},
		} {
			p := denoise.NewLocalLowRank(c.s, c.lambda)
			if err := proxtest.Check(dev, p, p.Dim(), proxtest.Steps(c.steps...)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A patch of all pixels is the nuclear norm of frames x pixels.
func TestLocalLowRankOfOnePatchIsTheNuclearNorm(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	for _, s := range []prox.Series{{Frames: 4, Rows: 3, Cols: 3, Patch: 3, Stride: 3},
		{Frames: 12, Rows: 2, Cols: 3, Patch: 3, Stride: 3}} {
		n := s.Len()
		v, got, want := dev.Put(normal(5, n), 1, n), dev.Alloc(1, n), dev.Alloc(1, n)
		local := denoise.NewLocalLowRank(s, 1.2)
		whole := lowrank.NewNuclear(array.Shape{Rows: s.Frames, Cols: s.Rows * s.Cols}, 1.2)
		a, err := local.Linearize(got, v, 0.9)
		if err != nil {
			t.Fatal(err)
		}
		b, err := whole.Linearize(want, v, 0.9)
		if err != nil {
			t.Fatal(err)
		}
		near(t, got.ToHost(), want.ToHost(), 1e-12)
		z := dev.Put(normal(6, n), 1, n)
		a.Apply(got, z)
		b.Apply(want, z)
		near(t, got.ToHost(), want.ToHost(), 1e-11)
		a.Release()
		b.Release()
	}
}

func near(t *testing.T, got, want []float64, tol float64) {
	t.Helper()
	for i, v := range got {
		if !(math.Abs(v-want[i]) <= tol) {
			t.Fatalf("entry %d is %v, want %v", i, v, want[i])
		}
	}
}

// The trace of the derivative is that of its matrix, and the maps add up to it.
func TestLocalLowRankTrace(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	for _, s := range []prox.Series{
		{Frames: 5, Rows: 7, Cols: 6, Patch: 3, Stride: 3}, {Frames: 3, Rows: 6, Cols: 5, Patch: 4, Stride: 2},
		{Frames: 10, Rows: 4, Cols: 4, Patch: 2, Stride: 1},
	} {
		n := s.Len()
		p := denoise.NewLocalLowRank(s, 1.5)
		x := normal(7, n)
		v, b := dev.Put(x, 1, n), dev.Alloc(1, n)
		j, err := p.Linearize(b, v, 1)
		if err != nil {
			t.Fatal(err)
		}
		unit, image := dev.Alloc(n, n), dev.Alloc(n, n)
		dev.Fill(unit, 0)
		dev.Fill(unit.Diagonal(), 1)
		j.Apply(image, unit)
		trace, square := 0.0, 0.0
		for i, c := range image.ToHost() {
			square += c * c
			if i%(n+1) == 0 {
				trace += c
			}
		}
		got, got2, ok := j.Model().Curvature.Trace()
		if !ok || math.Abs(got-trace) > 1e-10*trace || math.Abs(got2-square) > 1e-10*square {
			t.Errorf("%+v: trace %v and squared norm %v, want %v and %v", s, got, got2, trace, square)
		}
		maps, err := prox.StructureOf(p).Local(x)
		if err != nil {
			t.Fatal(err)
		}
		sum, patches := 0.0, 0.0
		for _, d := range maps.DegreesOfFreedom {
			sum += d
		}
		for _, d := range maps.PatchDivergence {
			patches += d
		}
		if math.Abs(sum-trace) > 1e-10*trace || (s.Patch == s.Stride) != (math.Abs(patches-trace) < 1e-10*trace) {
			t.Errorf("%+v: the maps add up to %v and %v, want %v", s, sum, patches, trace)
		}
		if len(maps.PatchDivergence) != maps.PatchRows*maps.PatchCols {
			t.Errorf("%d patches, %d x %d", len(maps.PatchDivergence), maps.PatchRows, maps.PatchCols)
		}
		j.Release()
	}
}

func TestSeriesAreChecked(t *testing.T) {
	for want, s := range map[string]prox.Series{
		"expected some":         {Frames: 0, Rows: 2, Cols: 2, Patch: 1, Stride: 1},
		"a side of 1 to 3":      {Frames: 1, Rows: 2, Cols: 3, Patch: 4, Stride: 1},
		"a divisor of the side": {Frames: 1, Rows: 4, Cols: 4, Patch: 4, Stride: 3},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
