package pipeline_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/vjp"
)

// The error of mu_hat has the norm of the loss, and warnings hold it against the noise in that
// norm: weights of 1e4 throughout, with the penalty scaled alike, change nothing.
func TestWarningsHaveTheUnitsOfTheWeights(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		c := newCurve(t, dev)
		d := len(c.y)
		weights := func(w func(i int) float64) *loss.Weighted {
			values := make([]float64, d)
			for i := range values {
				values[i] = w(i)
			}
			l, err := loss.WeightedSquared(dev, values)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.Release)
			return l
		}
		const factor = 1e4
		uniform := weights(func(int) float64 { return factor })
		at := func(l loss.Loss, lambda, tol float64) pipeline.Risk {
			problem := c.Problem
			problem.Loss, problem.R = l, prox.NewL1(lambda)
			s, err := vjp.NewSolver(t.Context(), "fista", problem, vjp.Options{Sigma2: 1, Tol: tol})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			p, err := pipeline.New(s, pipeline.Options{Sigma2: 1})
			if err != nil {
				t.Fatal(err)
			}
			risk, err := p.Estimate(t.Context(), c.y)
			if err != nil {
				t.Fatal(err)
			}
			return risk
		}
		// The tolerance leaves an error of mu_hat near what is allowed: with weights it is above a
		// hundredth of sigma sqrt(d).
		plain, scaled := at(nil, 0.1*c.max, 1e-4), at(uniform, factor*0.1*c.max, 1e-4)
		if math.Abs(scaled.SURE-plain.SURE) > 1e-3*plain.StdErr {
			t.Errorf("SURE %g with weights, %g without", scaled.SURE, plain.SURE)
		}
		for _, r := range []pipeline.Risk{plain, scaled} {
			if !r.Converged || !r.Trusted() || len(r.Warnings()) > 0 {
				t.Errorf("converged %v, mu_hat's error %g: %v", r.Converged, r.Convergence.Error, r.Warnings())
			}
		}
		if scaled.MeanWeight != factor || !strings.Contains(scaled.String(), "sqrt(w) mu_hat within") ||
			strings.Contains(plain.String(), "sqrt(w)") {
			t.Errorf("mean weight %g\n%v", scaled.MeanWeight, scaled)
		}
		halves := at(weights(func(i int) float64 { return factor * float64(i%2) }), factor*0.05*c.max, 1e-4)
		if halves.MeanWeight != factor/2 || !halves.Trusted() || len(halves.Warnings()) > 0 {
			t.Errorf("every other observation left out: mean weight %g, %v", halves.MeanWeight, halves.Warnings())
		}

		swept := c
		swept.Problem.Loss = uniform
		swept.Settings = vjp.Options{Sigma2: 1, Tol: 1e-4}
		grid := [][]float64{axis(factor*0.02*c.max, factor*0.9*c.max, 6)}
		for _, p := range collect(t, swept, grid, pipeline.SweepOptions{Refine: 3}) {
			if !p.Trusted() {
				t.Errorf("lambda %v: %v", p.Weights, p.Warnings())
			}
		}
	})
}

// SURE needs a derivative: a solver made without one fails the sample, and a sweep of such solvers
// does not start.
func TestASolverWithoutADerivativeIsRefused(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		c := newCurve(t, dev)
		p := c.Problem
		p.R = prox.NewL1(0.1 * c.max)
		s, err := vjp.NewSolver(t.Context(), "fista", p, vjp.Options{Derivative: vjp.None})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		arraytest.NoLeak(t, dev)
		failed := 0
		ys := func(yield func([]float64, error) bool) {
			for range 2 {
				if !yield(c.y, nil) {
					return
				}
			}
		}
		for risk, err := range newPipeline(t, s, pipeline.Options{KeepGoing: true}).Stream(t.Context(), ys) {
			own := (*pipeline.SampleError)(nil)
			if !errors.As(err, &own) || risk.Index != failed ||
				!strings.Contains(err.Error(), `solver "fista" has no derivative, expected`) {
				t.Errorf("sample %d: %v", risk.Index, err)
			}
			failed++
		}
		if failed != 2 {
			t.Errorf("%d outcomes, expected 2", failed)
		}
		c.Settings.Derivative = vjp.None
		for _, err := range pipeline.Sweep(t.Context(), c.y, c.Family, [][]float64{{1}},
			pipeline.SweepOptions{Options: pipeline.Options{Sigma2: 1}}) {
			option := (*pipeline.OptionError)(nil)
			if !errors.As(err, &option) || option.Option != "Settings" ||
				!strings.Contains(err.Error(), `derivative "none", expected one of`) {
				t.Errorf("a sweep: %v", err)
			}
		}
	})
}
