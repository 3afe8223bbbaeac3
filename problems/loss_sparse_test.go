package problems_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/loss"
	"surepipe/problems"
)

// A sparse X with an intercept stays sparse beside the column of ones, and is solved by active sets
// for every loss, to the fit of the dense X.
func TestSparseDesignsWithAnInterceptHaveActiveSets(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	for _, k := range loss.Kinds()[1:] {
		name, of := k.Name, k.Name
		if k.Timed || k.Columns {
			of = "logistic" // whose y are events, or two columns
		}
		data := observed(of, 1500, 50) // more entries than are centered in a dense copy
		if k.Columns {
			var y []float64
			for _, v := range data.Y {
				y = append(y, 1-v, v)
			}
			data.Loss.Name, data.Y, data.YShape = name, y, []int{1500, 2}
		}
		if data.Intercept = !k.Timed; k.Timed {
			data.Loss.Name = name
			for i := range data.Y {
				data.Time = append(data.Time, float64(i*i%97))
			}
		}
		sparse := data
		sparse.X = problems.Matrix{Sparse: sparsely(data.X.(*mat.Dense))}
		var fits [][]float64
		for _, data := range []problems.Data{data, sparse} {
			p, err := problems.New("lasso", dev, data, problems.Hyper{Lambda: problems.OfMax(0.1)})
			if err != nil {
				t.Fatal(err)
			}
			if p.DefaultSolver != "active-set" {
				t.Errorf("%s: the solver is %s", name, p.DefaultSolver)
			}
			_, mu := solveLoss(t, p, data.Y)
			fits = append(fits, mu)
			p.Release()
		}
		for i, v := range fits[0] {
			if math.Abs(v-fits[1][i]) > 1e-5*(1+math.Abs(v)) {
				t.Fatalf("%s: entry %d of the fit is %g, and %g with a sparse X", name, i, v, fits[1][i])
			}
		}
	}
}
