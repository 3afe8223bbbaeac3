package pipeline_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
	"surepipe/risk/folds"
)

// Folds by groups, by blocks, forward in time and repeated have scikit-learn's errors where both draw the same folds:
// testdata/realdata/folds.py.
func TestFoldsAreThoseOfScikitLearn(t *testing.T) {
	text, err := os.ReadFile("../testdata/folds.json")
	if err != nil {
		t.Fatal(err)
	}
	var peer struct {
		X      [][]float64
		Y      []float64
		Groups []int
		Lambda []float64
		Errors map[string][]float64
	}
	if err := json.Unmarshal(text, &peer); err != nil {
		t.Fatal(err)
	}
	d, p := len(peer.X), len(peer.X[0])
	x := mat.NewDense(d, p, nil)
	for i, row := range peer.X {
		x.SetRow(i, row)
	}
	q, err := problems.New("ridge", array.NewHost(), problems.Data{X: x, Y: peer.Y, Intercept: true},
		problems.Hyper{Lambda: problems.Absolute(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Release()
	for name, f := range map[string]folds.Folds{"groups": {K: 11, Groups: peer.Groups}, "blocks": {K: 11, Blocks: 6},
		"time": {K: 10, Time: true}, "repeated": {K: d, Repeats: 2}} {
		values := map[float64]float64{}
		for point, err := range pipeline.Sweep(t.Context(), peer.Y, familyOf(q), [][]float64{peer.Lambda},
			pipeline.SweepOptions{Criterion: risk.CV, Folds: f, Refine: -1}) {
			if err != nil {
				t.Fatal(name, err)
			}
			values[point.Weights[0]] = point.Value(risk.CV)
		}
		for k, w := range peer.Lambda {
			if want := peer.Errors[name][k]; math.Abs(values[w]-want) > 1e-6*want {
				t.Errorf("%s at %g: %.9g, expected %.9g", name, w, values[w], want)
			}
		}
	}
}
