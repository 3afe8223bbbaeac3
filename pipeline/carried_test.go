package pipeline_test

import (
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/problems"
	"surepipe/risk"
)

// An observation that decides its own fit and carries the mean of left-out errors leaves another support or group
// behind, and leave-one-out by one step is ten times that of refits or more: it is not known. Where the step
// keeps the support, where another observation carries the mean, and of a linear fit, it is that of refits.
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
		name    string
		hyper   problems.Hyper
		first   float64 // y_0
		third   float64 // y_3, of leverage 0
		unknown bool
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
		e := new(risk.UnresolvedError)
		if !c.unknown {
			if math.Abs(r.ALO-want) > 1e-6*want || r.ALOErr != nil {
				t.Errorf("%s, %g: leave-one-out %g, refits %g, %v", c.name, c.first, r.ALO, want, r.ALOErr)
			}
			continue
		}
		residual := data.Y[0] - r.MuHat[0]
		step := residual / (1 - 400/418.)
		if !(step*step > 10*d*want) || !math.IsNaN(r.ALO) || !errors.As(r.ALOErr, &e) || r.Unresolved != 1 {
			t.Errorf("%s: leave-one-out %g, one step of the first %g, refits %g: %v", c.name, r.ALO, step*step/d, want,
				r.ALOErr)
		}
	}
}
