package pipeline_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/vjp"
)

// completionFamily is a completion whose tangent space is large at weights from 2 to 3.
func completionFamily(t *testing.T, dev array.Device) curve {
	t.Helper()
	data, err := problems.GenerateMatrixCompletion(130, 70, 3)
	if err != nil {
		t.Fatal(err)
	}
	shape := array.Shape{Rows: 130, Cols: 70}
	a, err := linops.NewSelection(dev, shape.Len(), data.Indices)
	if err != nil {
		t.Fatal(err)
	}
	f := pipeline.Family{
		Problem:     vjp.Problem{A: a, Device: dev},
		Regularizer: func(w []float64) (prox.Prox, error) { return lowrank.NewNuclear(shape, w[0]), nil },
		Solver:      "fista",
	}
	return curve{Family: f, y: data.Y, mu: data.Mu}
}

// sameNumbers compares points to the last bit. A number may be NaN.
func sameNumbers(a, b []pipeline.SweepPoint) bool {
	numbers := func(p pipeline.SweepPoint) string {
		return fmt.Sprint(p.Trace, p.SURE, p.GCV, p.ALO, p.Loss, p.InnerSteps, p.Iterations)
	}
	return slices.EqualFunc(a, b, func(p, q pipeline.SweepPoint) bool {
		return numbers(p) == numbers(q) && reflect.DeepEqual(p.Digest, q.Digest)
	})
}

// Along a path of completions the divergence is that of each point alone, within the bounds, and its bits do
// not depend on batches, on Parallel, or on where a sweep was interrupted.
func TestTracesOfCompletionsDoNotDependOnThePath(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		if arraytest.Emulated(t, dev) {
			t.Skip("slow there")
		}
		arraytest.NoLeak(t, dev)
		c := completionFamily(t, dev)
		t.Run("one factor eliminated", func(t *testing.T) { checkPath(t, c, axis(2, 3, 13)) })
		t.Run("on the tangent space", func(t *testing.T) { checkPath(t, c, axis(7, 11, 13)) })
	})
}

func checkPath(t *testing.T, c curve, weights []float64) {
	t.Helper()
	points := len(weights)
	grid := [][]float64{weights}
	o := pipeline.SweepOptions{Mu: c.mu, Chain: points, Refine: -1, Options: pipeline.Options{Seed: 3, Queries: 10,
		Estimator: "hutchinson"}}
	whole := part(t, c, grid, o, 0, points)
	cold := o
	cold.Chain = 1
	for i, alone := range part(t, c, grid, cold, 0, points) {
		along := whole[i]
		// What the two solves differ by moves the trace by up to 1e-7 of it.
		within := along.Trace.Truncation + alone.Trace.Truncation + 1e-7*alone.Trace.Trace
		if off := math.Abs(along.Trace.Trace - alone.Trace.Trace); off > within {
			t.Errorf("point %d: trace %g along the path and %g alone, bounds %g and %g", i, along.Trace.Trace,
				alone.Trace.Trace, along.Trace.Truncation, alone.Trace.Truncation)
		}
	}
	again, on := o, points/2
	again.Batch, again.Parallel = 3, 2
	again.Known = known(whole[:on])
	if rest := part(t, c, grid, again, 0, points); !sameNumbers(rest, whole[on:]) {
		t.Errorf("a sweep that goes on at point %d differs", on)
	}
	for _, begin := range []int{1, points - 2} {
		if rest := part(t, c, grid, o, begin, points); !sameNumbers(rest, whole[begin:]) {
			t.Errorf("a part that begins at point %d differs", begin)
		}
	}
}
