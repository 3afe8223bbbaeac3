package pipeline_test

import (
	"testing"

	"surepipe/pipeline"
	"surepipe/risk"
)

// A point whose error exceeds its value competes by the sum of both, and cannot be told from nothing.
func TestUnsurePointsAreNotChosenForBeingSmall(t *testing.T) {
	points := []pipeline.SweepValue{
		{Weights: []float64{3}, Value: 2, StdErr: 0.1, Trusted: true},
		{Weights: []float64{2}, Value: 1.5, StdErr: 0.1, Trusted: true},
		{Weights: []float64{1}, Value: 0.05, StdErr: 18, Unsure: true, Trusted: true},
	}
	o := pipeline.SweepOptions{Criterion: risk.ALO, Known: points}
	c, _, err := pipeline.Choose([][]float64{{1, 2, 3}}, o)
	if err != nil {
		t.Fatal(err)
	}
	if c.Minimizer != 1 || len(c.Alike) != 1 {
		t.Errorf("the minimizer is %d, alike %v", c.Minimizer, c.Alike)
	}
	o.Known[2].Unsure = false
	if c, _, err = pipeline.Choose([][]float64{{1, 2, 3}}, o); err != nil || c.Minimizer != 2 {
		t.Errorf("%+v: %v", c, err)
	}
}
