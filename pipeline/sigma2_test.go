package pipeline_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/vjp"
)

// wideLasso is a LASSO with fewer observations than columns, and y of noise of variance sigma2.
func wideLasso(r *rand.Rand, dev array.Device, d, p, nonzeros int, sigma2 float64) (pipeline.Family, []float64,
	float64, func()) {
	x := mat.NewDense(d, p, nil)
	y := make([]float64, d)
	for i := range d {
		for j := range p {
			x.Set(i, j, r.NormFloat64())
		}
		for j := range nonzeros {
			y[i] += 2 * x.At(i, j)
		}
		y[i] += math.Sqrt(sigma2) * r.NormFloat64()
	}
	a := linops.NewDense(dev, x)
	most := 0.0
	for j := range p {
		most = max(most, math.Abs(mat.Dot(x.ColView(j), mat.NewVecDense(d, y))))
	}
	return pipeline.Family{
		Problem: vjp.Problem{A: a, Device: dev}, Solver: "active-set",
		Regularizer: func(w []float64) (prox.Prox, error) { return prox.NewL1(w[0]), nil },
	}, y, most, a.Release
}

// Over draws the estimate is near sigma2 and its error bar near its spread; at the weight it found
// it is the fit's own RSS/(d - df).
func TestResidualVarianceOfAWideLasso(t *testing.T) {
	dev := array.NewHost()
	r := rand.New(rand.NewPCG(11, 4))
	const draws, sigma2 = 25, 4
	mean, squares, bars := 0.0, 0.0, 0.0
	for draw := range draws {
		f, y, most, free := wideLasso(r, dev, 100, 250, 5, sigma2)
		grid := make([]float64, 25)
		for i := range grid {
			grid[i] = most * math.Pow(10, -2+2*float64(i)/24)
		}
		v, err := pipeline.EstimateSigma2(context.Background(), y, f, [][]float64{grid}, pipeline.SweepOptions{})
		if err != nil {
			t.Fatal(err)
		}
		mean += v.Sigma2 / sigma2 / draws
		squares += math.Pow(v.Sigma2/sigma2-1, 2) / draws
		bars += math.Pow(v.RelStdErr*v.Sigma2/sigma2, 2) / draws
		if !(v.DF <= 50) || v.D != 100 {
			t.Errorf("%+v", v)
		}
		if draw == 0 {
			problem := f.Problem
			problem.R, _ = f.Regularizer([]float64{v.Weight})
			solver, err := vjp.NewSolver(context.Background(), f.Solver, problem, vjp.Options{})
			if err != nil {
				t.Fatal(err)
			}
			p, err := pipeline.New(solver, pipeline.Options{})
			if err != nil {
				t.Fatal(err)
			}
			one, err := p.Estimate(context.Background(), y)
			if err != nil || math.Abs(one.Sigma2DF/v.Sigma2-1) > 1e-6 ||
				math.Abs(one.Residual/(100-one.Trace.Trace)/v.Sigma2-1) > 1e-6 {
				t.Errorf("%g by itself, %g along the path, %v", one.Sigma2DF, v.Sigma2, err)
			}
			solver.Release()
		}
		free()
	}
	t.Logf("mean %.3f of sigma2, root mean square error %.3f, error bar %.3f", mean, math.Sqrt(squares),
		math.Sqrt(bars))
	if mean < 0.8 || mean > 1.2 || bars/squares < 0.5 || bars/squares > 2 {
		t.Errorf("mean %.3f of sigma2, root mean square error %.3f, error bar %.3f", mean, math.Sqrt(squares),
			math.Sqrt(bars))
	}
}

// Where every fit leaves less than half of the degrees of freedom, there is no estimate.
func TestResidualVarianceNeedsAResidual(t *testing.T) {
	dev := array.NewHost()
	f, y, most, free := wideLasso(rand.New(rand.NewPCG(1, 1)), dev, 30, 80, 3, 1)
	defer free()
	_, err := pipeline.EstimateSigma2(context.Background(), y, f, [][]float64{{1e-4 * most, 2e-4 * most}},
		pipeline.SweepOptions{})
	if !errors.Is(err, pipeline.ErrNoResidual) {
		t.Errorf("error %v, expected %v", err, pipeline.ErrNoResidual)
	}
	if _, err := pipeline.EstimateSigma2(context.Background(), y, f, [][]float64{{1, 2}, {1, 2}},
		pipeline.SweepOptions{}); err == nil {
		t.Error("a grid of two axes was accepted")
	}
}
