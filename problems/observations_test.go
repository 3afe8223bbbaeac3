package problems_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/problems"
)

// regressionOf are d rows of p columns, with weights of the rows of which some are 0, and y.
func regressionOf(seed uint64, d, p int) (x *mat.Dense, y, w []float64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	x, y, w = mat.NewDense(d, p, nil), make([]float64, d), make([]float64, d)
	for i := range d {
		for j := range p {
			x.Set(i, j, float64(j+1)*(rng.NormFloat64()+3))
		}
		y[i] = x.At(i, 0) - x.At(i, 1)/2 + rng.NormFloat64()
		if w[i] = 3 * rng.Float64(); i%7 == 0 {
			w[i] = 0
		}
	}
	return x, y, w
}

// coefficientsOf are the intercept and the coefficients of a problem at y.
func coefficientsOf(t *testing.T, name string, data problems.Data, lambda float64) (b0 float64, b []float64) {
	t.Helper()
	dev := array.NewHost()
	h := problems.Hyper{Lambda: problems.Absolute(lambda)}
	if name == "ols" {
		h = problems.Hyper{}
	}
	p, err := problems.New(name, dev, data, h)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	all, muHat := solveLoss(t, p, data.Y)
	if p.Solve().Origin != nil { // it has been projected off
		floats.AddConst(stat.Mean(data.Y, nil), muHat)
	}
	b0, _ = p.Intercept(muHat, all)
	return b0, p.Coefficients(all)
}

// The reference is the optimality of b for the loss 1/2 sum_i w_i (y_i - b0 - x_i b)^2 + lambda sum_j s_j |b_j|, with s_j
// the weighted standard deviation of column j.
func TestWeightedInterceptAndStandardizedColumns(t *testing.T) {
	x, y, w := regressionOf(1, 40, 5)
	const lambda = 6
	b0, b := coefficientsOf(t, "lasso", problems.Data{X: x, Y: y, Weights: w, Intercept: true, Standardize: true}, lambda)
	rest := make([]float64, len(y))
	for i := range y {
		rest[i] = w[i] * (y[i] - b0 - floats.Dot(x.RawRowView(i), b))
	}
	if sum := floats.Sum(rest); math.Abs(sum) > 1e-8 {
		t.Errorf("the weighted residuals add up to %g, expected 0: the intercept has no penalty", sum)
	}
	some := false
	for j, v := range b {
		column := mat.Col(nil, j, x)
		_, variance := stat.PopMeanVariance(column, w)
		g := floats.Dot(column, rest) / math.Sqrt(variance)
		switch {
		case v != 0 && math.Abs(g-math.Copysign(lambda, v)) > 1e-7, v == 0 && math.Abs(g) > lambda*(1+1e-9):
			t.Errorf("coefficient %d is %g with the correlation %g, expected %g times its sign", j, v, g, float64(lambda))
		}
		some = some || v == 0
	}
	if !some || floats.Norm(b, 1) == 0 {
		t.Errorf("coefficients %v, expected some to be 0 and others not", b)
	}
}

// An observation of weight 2 counts as two.
func TestWeightsAreCounts(t *testing.T) {
	for _, loss := range []string{"squared", "logistic", "poisson"} {
		x, y, w := regressionOf(2, 30, 3)
		var rows []int
		for i := range w {
			w[i] = math.Ceil(w[i])
			if y[i] = math.Round(math.Abs(y[i])); loss == "logistic" {
				y[i] = float64(i % 2)
			}
			for range int(w[i]) {
				rows = append(rows, i)
			}
		}
		many, of := mat.NewDense(len(rows), 3, nil), make([]float64, len(rows))
		for k, i := range rows {
			many.SetRow(k, x.RawRowView(i))
			of[k] = y[i]
		}
		data := problems.Data{X: x, Y: y, Weights: w, Intercept: true, Standardize: true, Loss: problems.Loss{Name: loss}}
		b0, b := coefficientsOf(t, "lasso", data, 2)
		data.X, data.Y, data.Weights = many, of, nil
		c0, c := coefficientsOf(t, "lasso", data, 2)
		if math.Abs(b0-c0) > 1e-6 || floats.Distance(b, c, 2) > 1e-7 {
			t.Errorf("%s: %g and %v by weights, %g and %v by repeated rows", loss, b0, b, c0, c)
		}
	}
}

// With an offset c the linear predictor of observations that are all alike is z = z0 - c.
func TestOffsetsShiftTheLinearPredictor(t *testing.T) {
	x, y, _ := regressionOf(3, 40, 3)
	offset := make([]float64, len(y))
	for i := range y {
		y[i] = math.Round(math.Abs(y[i]))
		offset[i] = 0.7 - x.At(i, 1)/5
	}
	data := problems.Data{X: x, Y: y, Intercept: true, Loss: problems.Loss{Name: "poisson"}}
	b0, b := coefficientsOf(t, "ols", data, 0)
	data.Offset = offset
	c0, c := coefficientsOf(t, "ols", data, 0)
	if math.Abs(b0-c0-0.7) > 1e-6 || math.Abs(b[0]-c[0]) > 1e-6 || math.Abs(c[1]-b[1]-0.2) > 1e-6 {
		t.Errorf("without an offset %g and %v, with 0.7 - x1/5 %g and %v", b0, b, c0, c)
	}
}
