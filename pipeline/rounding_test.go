package pipeline_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/vjp"
)

// Of an image of rounded values SURE is that of the image before it was rounded, within its error bar: where equal
// pixels leave the number of flat regions open, and at weights below the step, at which ties that rounding has
// made look like flat regions. mu_hat is that of the rounded image.
func TestRoundedImagesHaveTheRiskOfWhatWasRounded(t *testing.T) {
	const side, d, sigma = 64, 64 * 64, 0.1
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	rng := rand.New(rand.NewPCG(5, 34))
	smooth := make([]float64, d)
	for i := range smooth {
		smooth[i] = math.Sin(float64(i%side)/20) + math.Floor(float64(i/side)/20) + sigma*rng.NormFloat64()
	}
	for _, c := range []struct {
		levels, weight float64
	}{
		{32, 0.05}, {32, 0.002}, {16, 0.002},
	} {
		rounded := make([]float64, d)
		for i, v := range smooth {
			rounded[i] = math.Round(c.levels*v) / c.levels
		}
		risk := func(y []float64) pipeline.Risk {
			p := vjp.Problem{Device: dev, A: linops.Identity(d), R: prox.NewL1(c.weight),
				K: imaging.NewGradient([]int{side, side}, nil, imaging.Reflecting)}
			s, err := vjp.NewSolver(t.Context(), solve.Default(p), p, vjp.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			pipe, err := pipeline.New(s, pipeline.Options{Sigma2: sigma * sigma})
			if err != nil {
				t.Fatal(err)
			}
			r, err := pipe.Estimate(t.Context(), y)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		want, got := risk(smooth), risk(rounded)
		e := 2 * sigma * sigma * (got.Trace.Trace - want.Trace.Trace)
		if !(math.Abs(e) < got.StdErr) || !got.Trusted() || len(got.Warnings()) > 0 {
			t.Errorf("%+v: SURE %g ± %g, by the divergence of what was rounded it changes by %g, %v", c, got.SURE,
				got.StdErr, -e,
				got.Warnings())
		}
		moved := 0.0
		for i, v := range rounded {
			moved += (v - got.MuHat[i]) * (v - got.MuHat[i])
		}
		if math.Abs(moved-got.Residual) > 1e-9*got.Residual {
			t.Errorf("%+v: the residual is %g, of mu_hat %g", c, got.Residual, moved)
		}
	}
}
