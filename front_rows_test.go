package surepipe_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe"
)

// Rows that share their noise are told of arrays as of a table, and of a single fit as of a sweep: where nothing leaves
// them out together.
func TestRowsOfArraysThatBelongTogetherAreTold(t *testing.T) {
	const patients, visits = 40, 6
	r := rand.New(rand.NewPCG(6, 1))
	for name, c := range map[string]struct {
		id, memory bool
		expected   string
	}{"patients": {true, false, "rows-in-groups"}, "a memory": {false, true, "correlated-rows"}, "nothing": {}} {
		x, y, noise := mat.NewDense(patients*visits, 2, nil), make([]float64, patients*visits), 0.0
		labels, order := make([]int, len(y)), r.Perm(patients)
		for i := range y {
			labels[i] = order[i%patients]
			x.SetRow(i, []float64{r.NormFloat64(), float64(labels[i])})
			noise = 0.7*noise + r.NormFloat64()
			y[i] = x.At(i, 0) + r.NormFloat64()
			if c.memory {
				y[i] = x.At(i, 0) + noise
			}
		}
		if c.id {
			of := make([]float64, patients)
			for k := range of {
				of[k] = 2 * r.NormFloat64()
			}
			for i := range y {
				y[i] += of[labels[i]]
			}
		}
		d, err := surepipe.Arrays{X: x, Y: y}.Data()
		if err != nil {
			t.Fatal(err)
		}
		yes := true
		o := surepipe.Options{Problem: surepipe.OLS, Intercept: &yes}
		told := func(of string, f *surepipe.Fit, expected string) {
			all := slices.DeleteFunc(slices.Clone(f.Warnings), func(w surepipe.Warning) bool {
				return w.Code != "rows-in-groups" && w.Code != "correlated-rows"
			})
			if expected == "" && len(all) > 0 || expected != "" && (len(all) != 1 || all[0].Code != expected) {
				t.Errorf("%s, %s: %v, expected %q", name, of, all, expected)
			}
		}
		told("a fit", fitted(t, open(t, d, o)), c.expected)
		o.Folds.Groups = labels
		told("a fit with groups", fitted(t, open(t, d, o)), "")
		o.Folds.Groups, o.Problem = nil, surepipe.Ridge
		path, err := open(t, d, o).Sweep(t.Context(), surepipe.Grid{Lambda: "1:100:3"})
		if err != nil {
			t.Fatal(err)
		}
		path.Fit.Warnings = path.Summary.Warnings
		told("a sweep", path.Fit, c.expected)
	}
}

// A scale of the Huber loss beyond all residuals leaves least squares, and one below all that the fit does not take for
// itself leaves least absolute deviations, whatever the weights of the observations.
func TestAScaleOfALossThatLeavesItNoChoiceIsTold(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 2))
	x, y, weights := mat.NewDense(60, 3, nil), make([]float64, 60), make([]float64, 60)
	for i := range y {
		x.SetRow(i, []float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()})
		y[i], weights[i] = x.At(i, 0)+r.NormFloat64(), 1+r.Float64()
	}
	for _, a := range []surepipe.Arrays{{X: x, Y: y}, {X: x, Y: y, Weights: weights}} {
		d, err := a.Data()
		if err != nil {
			t.Fatal(err)
		}
		for delta, expected := range map[float64]bool{100: true, 1.345: false, 0.3: false, 1e-4: true} {
			f := fitted(t, open(t, d, surepipe.Options{Problem: surepipe.Lasso, Lambda: "0.001", Loss: "huber",
				LossParameter: delta}))
			told := slices.ContainsFunc(f.Warnings, func(w surepipe.Warning) bool { return w.Code == "loss-scale" })
			if told != expected {
				t.Errorf("delta %g: %v, expected %v", delta, f.Warnings, expected)
			}
		}
	}
}

// Of more columns than rows a logistic fit at small weights is near y, and leave-one-out far above the loss of the fit,
// by more than the degrees of freedom of a likelihood say: its bar covers the loss of other rows all the same.
func TestErrorBarOfALogisticFitNearY(t *testing.T) {
	const d, p, others, samples = 40, 120, 2000, 40
	squares, marks := 0.0, 0
	for seed := range uint64(samples) {
		r := rand.New(rand.NewPCG(seed, 66))
		draw := func(n int) (*mat.Dense, []float64) {
			x, y := mat.NewDense(n, p, nil), make([]float64, n)
			for i := range n {
				eta, last := 0.0, r.NormFloat64()
				for j := range p {
					last = (last + math.Sqrt(3)*r.NormFloat64()) / 2
					if x.Set(i, j, last); j < 10 {
						eta += 0.8 * last * float64(1-j%2*2)
					}
				}
				if r.Float64() < 1/(1+math.Exp(-eta)) {
					y[i] = 1
				}
			}
			return x, y
		}
		x, y := draw(d)
		data, err := surepipe.Arrays{X: x, Y: y}.Data()
		if err != nil {
			t.Fatal(err)
		}
		yes := true
		f := fitted(t, open(t, data, surepipe.Options{Problem: surepipe.Lasso, Lambda: "0.1max", Loss: "logistic",
			Intercept: &yes}))
		x, y = draw(others)
		mean, b := 0.0, mat.NewVecDense(p, f.B().Data)
		for i, v := range y {
			eta := *f.Intercept + mat.Dot(b, x.RowView(i))
			mean += (math.Max(eta, 0) + math.Log1p(math.Exp(-math.Abs(eta))) - v*eta) / others
		}
		if f.ALO == nil {
			marks++
			continue
		}
		off := (*f.ALO - mean) / *f.ALOStdErr
		squares += off * off
	}
	if rms := math.Sqrt(squares / float64(samples-marks)); !(rms < 1.25) || marks > samples/4 {
		t.Errorf("errors are %.3g bars, and %d are not known", rms, marks)
	} else {
		t.Logf("errors are %.3g bars, and %d are not known", rms, marks)
	}
}
