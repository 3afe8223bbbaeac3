package problems_test

import (
	"context"
	"math"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// At its maximum the weight gives a constant, just below it does not.
func TestTotalVariationIsConstantFromItsMaximumOn(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		data := generated(t, 2)["tv1d"]
		rows := data
		rows.YShape = []int{3, 100}
		for _, data := range []problems.Data{data, rows} {
			for _, c := range []struct {
				factor   float64
				constant bool
			}{{1 + 1e-6, true}, {1 - 1e-3, false}} {
				p, err := problems.New("tv1d", dev, data, problems.Hyper{Lambda: problems.OfMax(c.factor)})
				if err != nil {
					t.Fatal(err)
				}
				b, n := solve(t, dev, p, data.Y), data.YShape[len(data.YShape)-1]
				constant := true
				for i := range b {
					constant = constant && b[i] == b[i/n*n]
				}
				if constant != c.constant {
					t.Errorf("%v at %g of the maximum: constant is %t", data.YShape, c.factor, constant)
				}
				p.Release()
			}
		}
	})
}

// Rows are sequences of their own, and the divergence is the number of pieces.
func TestRowsAreSequencesOfTheirOwn(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		data := generated(t, 3)["tv1d"]
		data.YShape = []int{3, 100}
		p, err := problems.New("tv1d", dev, data, problems.Hyper{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release()
		all := solve(t, dev, p, data.Y)
		pieces := 0
		for i := range 3 {
			one := data
			one.Y, one.YShape, one.Mu = data.Y[100*i:][:100], []int{100}, nil
			q, err := problems.New("tv1d", dev, one, problems.Hyper{})
			if err != nil {
				t.Fatal(err)
			}
			for j, b := range solve(t, dev, q, one.Y) {
				if b != all[100*i+j] {
					t.Fatalf("row %d, value %d: %g alone, %g together", i, j, b, all[100*i+j])
				}
				if j == 0 || b != all[100*i+j-1] {
					pieces++
				}
			}
			q.Release()
		}
		solver, err := vjp.NewSolver(context.Background(), p.DefaultSolver, p.Solve(), vjp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer solver.Release()
		pipe, err := pipeline.New(solver, pipeline.Options{Sigma2: 2})
		if err != nil {
			t.Fatal(err)
		}
		risk, err := pipe.Estimate(context.Background(), data.Y)
		if err != nil {
			t.Fatal(err)
		}
		// In closed form, as that of one sequence is: no probe was spent.
		if !risk.Trace.Exact || risk.Trace.Queries != 0 || risk.Trace.StdErr != 0 {
			t.Errorf("the trace is %+v, expected the closed form", risk.Trace)
		}
		if math.Abs(risk.Trace.Trace-float64(pieces)) > 1e-9 || math.Abs(risk.Trace.Frobenius2-float64(pieces)) > 1e-9 {
			t.Errorf("divergence %g, %d pieces", risk.Trace.Trace, pieces)
		}
	})
}
