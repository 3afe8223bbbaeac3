package pipeline_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/vjp"
)

// BenchmarkAgainstCrossValidation chooses lambda of a LASSO in two ways over the same grid
// of 30 weights: by the least SURE, and by the least error of prediction in ten-fold
// cross-validation, with the same solver and warm starts in both. It reports the loss
// of either choice over the best on the grid, and the time of either, as means over
// eight draws of y: docs/benchmarks.md.
func BenchmarkAgainstCrossValidation(b *testing.B) {
	const d, p, folds, draws = 500, 1000, 10, 8
	data, err := problems.GenerateLasso(d, p, 4)
	if err != nil {
		b.Fatal(err)
	}
	dev := array.NewHost()
	x := linops.NewDense(dev, data.X.(*mat.Dense))
	defer x.Release()
	largest := 0.0
	var correlation mat.VecDense
	correlation.MulVec(data.X.T(), mat.NewVecDense(d, data.Y))
	for _, c := range correlation.RawVector().Data {
		largest = math.Max(largest, math.Abs(c))
	}
	grid := make([]float64, 30)
	for i := range grid {
		grid[i] = largest * math.Pow(0.02, 1-float64(i)/float64(len(grid)-1))
	}
	perm := rand.New(rand.NewPCG(1, 1)).Perm(d)

	for b.Loop() {
		var sure, validated struct{ loss, seconds float64 }
		for draw := range draws {
			y := problems.Sample(data.Mu, *data.Sigma2, 9, draw)
			begin := time.Now()
			losses := map[float64]float64{}
			chosen := 0.0
			family := pipeline.Family{Problem: vjp.Problem{A: x, Device: dev}, Solver: "fista",
				Regularizer: func(w []float64) (prox.Prox, error) { return prox.NewL1(w[0]), nil }}
			o := pipeline.SweepOptions{Mu: data.Mu, Refine: -1, Options: pipeline.Options{Sigma2: *data.Sigma2,
				Parallel: 2}}
			for point, err := range pipeline.Sweep(b.Context(), y, family, [][]float64{grid}, o) {
				if err != nil {
					b.Fatal(err)
				}
				losses[point.Weights[0]] = point.Loss
				chosen = point.Weights[0] // the minimizer comes last
			}
			sure.seconds += time.Since(begin).Seconds() / draws
			best := math.Inf(1)
			for _, l := range losses {
				best = math.Min(best, l)
			}
			sure.loss += losses[chosen] / best / draws

			begin = time.Now()
			errors := make([]float64, len(grid))
			for fold := range folds {
				crossValidate(b, dev, data.X.(*mat.Dense), y, perm, fold, folds, grid, errors)
			}
			validated.seconds += time.Since(begin).Seconds() / draws
			validated.loss += losses[grid[slices.Index(errors, slices.Min(errors))]] / best / draws
		}
		b.ReportMetric(sure.loss, "SURE-loss/best")
		b.ReportMetric(validated.loss, "CV-loss/best")
		b.ReportMetric(sure.seconds, "SURE-s")
		b.ReportMetric(validated.seconds, "CV-s")
	}
}

// crossValidate fits all rows but those of one fold along the grid, and adds the squared
// errors in the fold.
func crossValidate(b *testing.B, dev array.Device, x *mat.Dense, y []float64, perm []int, fold, folds int, grid,
	errors []float64) {
	d, p := x.Dims()
	var train, test []int
	for i, row := range perm {
		if i%folds == fold {
			test = append(test, row)
		} else {
			train = append(train, row)
		}
	}
	rows := func(which []int) (*mat.Dense, []float64) {
		m, v := mat.NewDense(len(which), p, nil), make([]float64, len(which))
		for i, r := range which {
			m.SetRow(i, x.RawRowView(r))
			v[i] = y[r]
		}
		return m, v
	}
	xTrain, yTrain := rows(train)
	xTest, yTest := rows(test)
	a := linops.NewDense(dev, xTrain)
	defer a.Release()
	on := dev.Alloc(1, len(train))
	defer on.Free()
	dev.Upload(on, yTrain)
	var before array.Batch
	defer func() { before.Free() }()
	for i := len(grid) - 1; i >= 0; i-- {
		// The fit has fewer rows, and a lambda in proportion.
		r := prox.NewL1(grid[i] * float64(len(train)) / float64(d))
		s, err := vjp.NewSolver(b.Context(), "fista", vjp.Problem{A: a, R: r, Device: dev},
			vjp.Options{Derivative: vjp.None})
		if err != nil {
			b.Fatal(err)
		}
		sol, err := s.SolveFrom(b.Context(), on, vjp.From{B: before})
		if err != nil {
			b.Fatal(err)
		}
		var predicted mat.VecDense
		predicted.MulVec(xTest, mat.NewVecDense(p, sol.B.ToHost()))
		for k, want := range yTest {
			errors[i] += (predicted.AtVec(k) - want) * (predicted.AtVec(k) - want)
		}
		before.Free()
		before = dev.Alloc(1, p)
		dev.Copy(before, sol.B)
		sol.Release()
		s.Release()
	}
}
