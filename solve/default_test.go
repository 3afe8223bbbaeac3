package solve_test

import (
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/solve"
)

func TestDefaultFollowsTheStructure(t *testing.T) {
	dev := array.NewHost()
	dense := linops.NewDense(dev, mat.NewDense(2, 2, []float64{1, 2, 3, 4}))
	defer dense.Release()
	weighted, err := loss.WeightedSquared(dev, []float64{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	defer weighted.Release()
	id := linops.Identity(2)
	huge := linops.Identity(1 << 13)
	bare := linops.NewFunc(2, 2, func(dst, b []float64) { copy(dst, b) }, func(dst, z []float64) { copy(dst, z) })
	wide := linops.NewFunc(2, 1025, func(dst, b []float64) { copy(dst, b) }, func(dst, z []float64) { copy(dst, z) })
	slope, err := clustered.NewSortedL1([]float64{2, 1})
	if err != nil {
		t.Fatal(err)
	}
	defer prox.Release(slope)
	groups, err := prox.NewGroupL2(dev, 2, 1, [][]int{{0, 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer prox.Release(groups)
	l1, ridge := prox.NewL1(1), prox.NewSquaredL2(1)
	logistic, err := loss.Logistic(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		a    linops.Operator
		l    loss.Loss
		r    prox.Prox
		want string
	}{
		{"ridge", dense, nil, ridge, "direct"},
		{"weighted ridge", dense, weighted, ridge, "direct"},
		{"ridge of a small operator without a matrix", bare, nil, ridge, "direct"},
		{"ridge of an operator without a matrix", wide, nil, ridge, "fista"},
		{"ridge of a large operator whose entries are known", huge, nil, ridge, "direct"},
		{"denoising", id, nil, l1, "ista"},
		{"weighted denoising", id, weighted, l1, "active-set"},
		{"LASSO", dense, nil, l1, "active-set"},
		{"weighted LASSO", dense, weighted, l1, "active-set"},
		{"LASSO of an operator without a matrix", bare, nil, l1, "active-set"},
		{"LASSO of a large operator without a matrix", wide, nil, l1, "fista"},
		{"group LASSO", dense, nil, groups, "active-set"},
		{"SLOPE", dense, nil, slope, "newton"},
		{"SLOPE of an operator without a matrix", bare, nil, slope, "fista"},
		{"l1-logistic", dense, logistic, l1, "active-set"},
		{"ridge-logistic", dense, logistic, ridge, "active-set"},
		{"group-logistic", dense, logistic, groups, "active-set"},
		{"SLOPE-logistic", dense, logistic, slope, "newton"},
		{"l1-logistic of an operator without a matrix", bare, logistic, l1, "fista"},
	} {
		if got := solve.Default(solve.Problem{A: c.a, Loss: c.l, R: c.r, Device: dev}); got != c.want {
			t.Errorf("%s: %s, expected %s", c.name, got, c.want)
		}
	}
}
