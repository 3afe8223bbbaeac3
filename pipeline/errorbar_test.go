package pipeline_test

import (
	"context"
	"math"
	"testing"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/vjp"
)

// For mu_hat = s y the bar is at least sigma2 sqrt(2 d) |1 - 2 s|, its expectation, whatever
// sigma2 is; it is 0 at s = 1/2, where SURE - loss has no spread, and there alone.
func TestErrorBarHasAFloor(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	y := []float64{1, 2, 2, 3, 1, 2, 2, 1}
	d := float64(len(y))
	for _, s := range []float64{0.9, 0.5, 0.1} {
		p := vjp.Problem{A: linops.Identity(len(y)), R: prox.NewSquaredL2(1/s - 1), Device: dev}
		solver, err := vjp.NewSolver(context.Background(), "ista", p, vjp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, sigma2 := range []float64{1e-3, 0.3, 1e6} {
			pipe, err := pipeline.New(solver, pipeline.Options{Sigma2: sigma2})
			if err != nil {
				t.Fatal(err)
			}
			risk, err := pipe.Estimate(context.Background(), y)
			if err != nil {
				t.Fatal(err)
			}
			unbiased2 := 4*sigma2*risk.Residual + 4*sigma2*sigma2*d*s*s - 2*sigma2*sigma2*d
			floor := sigma2 * math.Sqrt(2*d) * math.Abs(1-2*s) / 2
			want := math.Max(math.Sqrt(math.Max(unbiased2, 0)), floor)
			if math.Abs(risk.StdErr-want) > 1e-7*sigma2 {
				t.Errorf("s = %g, sigma2 = %g: the bar is %g, expected %g", s, sigma2, risk.StdErr, want)
			}
			if risk.Floored != (unbiased2 <= 0) || !risk.Trusted() {
				t.Errorf("s = %g, sigma2 = %g: floored %v with an estimate of the square of %g; %v", s, sigma2,
					risk.Floored, unbiased2, risk.Warnings())
			}
		}
		solver.Release()
	}
}
