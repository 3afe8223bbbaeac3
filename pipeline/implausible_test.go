package pipeline_test

import (
	"context"
	"math"
	"testing"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/vjp"
)

type unsettled struct{ given }

func (u unsettled) Solve(ctx context.Context, y array.Batch) (*vjp.Solution, error) {
	s, err := u.given.Solve(ctx, y)
	if err == nil {
		s.Linearization = iterations{s.Linearization}
	}
	return s, err
}

type iterations struct{ vjp.Linearization }

func (iterations) Kind() string { return string(vjp.Unrolled) }

// The derivative of iterations whose trace is outside [0, d] says nothing, and neither does what follows from it.
func TestAnImplausibleDivergenceIsUnknown(t *testing.T) {
	const d = 40
	dev := array.NewHost()
	for _, c := range []struct{ times, nearest float64 }{{-6.9e8, 0}, {50, d}} {
		m := dev.Alloc(d, d)
		dev.Fill(m, 0)
		dev.Fill(m.Diagonal(), c.times)
		p, err := pipeline.New(unsettled{given{jacobian: m}}, pipeline.Options{Sigma2: 1, ALO: true})
		if err != nil {
			t.Fatal(err)
		}
		y := make([]float64, d)
		y[3] = 5
		r, err := p.Estimate(t.Context(), y)
		if err != nil {
			t.Fatal(err)
		}
		if r.Trusted() || !r.Implausible || r.Trace.Trace != c.nearest || r.Trace.Error() < d {
			t.Errorf("%g: divergence %g +- %g, trusted %v", c.times, r.Trace.Trace, r.Trace.Error(), r.Trusted())
		}
		for name, v := range map[string]float64{"SURE": r.SURE, "its bar": r.StdErr, "GCV": r.GCV, "ALO": r.ALO,
			"AIC": r.AIC, "BIC": r.BIC} {
			if !math.IsNaN(v) {
				t.Errorf("%g: %s is %g", c.times, name, v)
			}
		}
		m.Free()
	}
}
