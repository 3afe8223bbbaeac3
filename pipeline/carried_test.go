package pipeline_test

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
)

// withRefits checks the errors of left-out observations of which at most r.Refits are those of refits, and the others
// the squares of steps. The fit without an observation is that with it at its own prediction there.
func withRefits(t *testing.T, r pipeline.Risk, y, steps []float64, muHat func(y []float64) []float64) {
	t.Helper()
	refits := 0
	for i, e := range r.LeftOut {
		if math.Abs(e/(steps[i]*steps[i])-1) < 1e-4 || e == 0 {
			continue
		}
		refits++
		y, own := slices.Clone(y), y[i]
		off := func(v float64) float64 {
			y[i] = v
			return muHat(y)[i] - v
		}
		low, high := y[i], y[i]
		for step := off(y[i]); off(high)*step > 0; step *= 2 {
			low, high = high, high+step
		}
		for range 40 {
			if middle := (low + high) / 2; off(middle)*(high-low) > 0 {
				low = middle
			} else {
				high = middle
			}
		}
		want := (own - low) * (own - low) * float64(r.D) / float64(r.D-r.NotLeftOut)
		if math.Abs(e/want-1) > 1e-3 {
			t.Errorf("observation %d: %g, by one step %g, by a refit %g", i, e, steps[i]*steps[i], want)
		}
	}
	if refits == 0 || refits > r.Refits {
		t.Errorf("%d errors are not by steps, of %d refits", refits, r.Refits)
	}
}

// An observation that decides its own fit and carries the mean of left-out errors leaves another support or group
// behind: leave-one-out by one step is ten times that of refits or more, and its error is that of a refit. Where the
// step keeps the support, where another observation carries the mean, and of a linear fit, one step is exact.
func TestFewObservationsThatDecideTheirFit(t *testing.T) {
	const d = 20
	data := problems.Data{X: mat.NewDense(d, 1, nil), Y: make([]float64, d)}
	for i := range d {
		sign := float64(1 - 2*(i%2))
		data.X.(*mat.Dense).Set(i, 0, sign)
		data.Y[i] = 0.3*sign + 0.5*math.Cos(float64(i))
	}
	data.X.(*mat.Dense).Set(0, 0, 20)
	data.X.(*mat.Dense).Set(3, 0, 0)
	heavy := problems.Hyper{Lambda: weight("40")}
	for _, c := range []struct {
		name  string
		hyper problems.Hyper
		first float64 // y_0
		third float64 // y_3, of leverage 0
		heavy bool
	}{
		{"lasso", heavy, 5, 0, true}, {"group-lasso", heavy, 5, 0, true},
		{"elastic-net", problems.Hyper{Lambda: weight("40"), Lambda2: weight("0.1")}, 5, 0, true},
		{"lasso", problems.Hyper{Lambda: weight("0.01")}, 6, 0, false},
		{"lasso", problems.Hyper{Lambda: weight("0.01")}, 6, 90, false},
		{"ridge", problems.Hyper{Lambda: weight("0.01")}, 5, 0, false},
		{"ridge", problems.Hyper{Lambda: weight("0.01")}, 50, 0, false},
	} {
		data := data
		if data.Y[0], data.Y[3] = c.first, c.third; c.name == "group-lasso" {
			data.Groups = []int{0}
		}
		r := unknown(t, array.NewHost(), c.name, data, c.hyper)
		want, _ := leftOut(t, array.NewHost(), c.name, data, c.hyper)
		if math.Abs(r.ALO-want) > 1e-6*want || r.ALOErr != nil {
			t.Errorf("%s, %g: leave-one-out %g, refits %g, %v", c.name, c.first, r.ALO, want, r.ALOErr)
		}
		step := (data.Y[0] - r.MuHat[0]) / (1 - 400/418.)
		if c.heavy && (!(step*step > 10*d*want) || r.Refits == 0) {
			t.Errorf("%s: %d refits, one step of the first %g, refits %g", c.name, r.Refits, step*step/d, want)
		}
	}
}
