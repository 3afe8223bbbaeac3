package pipeline_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
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

// Folds of a ridge of a wide table are those of fits without them, with their share of lambda and their own means.
func TestFoldsOfAWideRidge(t *testing.T) {
	const d, p = 31, 50 // folds of three and of four rows
	g := rand.New(rand.NewPCG(3, 1))
	x, y := mat.NewDense(d, p, nil), make([]float64, d)
	for i := range d {
		for j := range p {
			x.Set(i, j, g.NormFloat64()+1)
		}
		y[i] = 3 + x.At(i, 0) + g.NormFloat64()
	}
	q, err := problems.New("ridge", array.NewHost(), problems.Data{X: x, Y: y, Intercept: true},
		problems.Hyper{Lambda: problems.Absolute(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Release()
	var f folds.Folds
	for point, err := range pipeline.Sweep(t.Context(), y, familyOf(q), [][]float64{{0.1, 10, 1000}},
		pipeline.SweepOptions{Criterion: risk.CV, Folds: f, Refine: -1}) {
		if err != nil {
			t.Fatal(err)
		}
		want := 0.0
		for _, split := range f.Splits(d, 0) {
			n := len(split.Keep)
			kept, mean := mat.NewDense(n, p, nil), 0.0
			means := mat.NewVecDense(p, nil)
			for k, i := range split.Keep {
				kept.SetRow(k, x.RawRowView(i))
				means.AddScaledVec(means, 1/float64(n), x.RowView(i))
				mean += y[i] / float64(n)
			}
			rest := mat.NewVecDense(n, nil)
			for k, i := range split.Keep {
				row := kept.RowView(k).(*mat.VecDense)
				row.SubVec(row, means)
				rest.SetVec(k, y[i]-mean)
			}
			var gram mat.Dense
			gram.Mul(kept, kept.T())
			for k := range n {
				gram.Set(k, k, gram.At(k, k)+point.Weights[0]*float64(n)/d)
			}
			var b mat.VecDense
			if err := rest.SolveVec(&gram, rest); err != nil {
				t.Fatal(err)
			}
			b.MulVec(kept.T(), rest)
			for _, i := range split.Out {
				e := y[i] - mean - mat.Dot(&b, x.RowView(i)) + mat.Dot(&b, means)
				want += e * e / d
			}
		}
		if got := point.CV.Mean; math.Abs(got-want) > 1e-9*want {
			t.Errorf("at %g: %.12g, expected %.12g", point.Weights[0], got, want)
		}
	}
}
