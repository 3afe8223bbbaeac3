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

// The projected risk of a soft-thresholded image behind a matrix, wide or tall: the same number as by
// the matrices W = (A A*)^+ and D mu_hat, and without bias over draws of the noise.
func TestProjectedSUREIsUnbiased(t *testing.T) {
	if testing.Short() {
		t.Skip("short: statistics depend on neither the device nor the BLAS")
	}
	for _, size := range [][2]int{{5, 8}, {9, 6}} {
		d, n := size[0], size[1]
		rng := rand.New(rand.NewPCG(5, 5))
		m := mat.NewDense(d, n, nil)
		for i := range d {
			for j := range n {
				m.Set(i, j, rng.NormFloat64())
			}
		}
		dev := array.NewHost()
		a := linops.NewDense(dev, m)
		ctx := context.Background()
		s, err := vjp.NewSolver(ctx, "fista", vjp.Problem{A: a, R: prox.NewL1(0.4), Device: dev},
			vjp.Options{Tol: 1e-11, MaxIter: 100000})
		if err != nil {
			t.Fatal(err)
		}
		truth := make([]float64, n)
		for j := range 3 {
			truth[j] = 2 * rng.NormFloat64()
		}
		mu := make([]float64, d)
		mat.NewVecDense(d, mu).MulVec(m, mat.NewVecDense(n, truth))
		var svd mat.SVD
		svd.Factorize(m, mat.SVDThin)
		const sigma2, draws = 0.3, 400
		sum, squares := 0.0, 0.0
		for i := range draws {
			y := make([]float64, d)
			for j := range y {
				y[j] = mu[j] + math.Sqrt(sigma2)*rng.NormFloat64()
			}
			got, err := pipeline.ProjectedSURE(ctx, s, a, y, mu, sigma2,
				pipeline.ProjectedOptions{Probes: 8, Seed: uint64(i)})
			if err != nil {
				t.Fatal(err)
			}
			sum += got.SURE - got.Loss
			squares += (got.SURE - got.Loss) * (got.SURE - got.Loss)
			if i > 0 {
				continue
			}
			many, err := pipeline.ProjectedSURE(ctx, s, a, y, mu, sigma2, pipeline.ProjectedOptions{Probes: 4000})
			if err != nil {
				t.Fatal(err)
			}
			sure, loss := projectedByHand(t, dev, s, &svd, y, mu, sigma2)
			if math.Abs(many.Loss-loss) > 1e-6*loss ||
				math.Abs(many.SURE-sure) > 4*many.ProbeStdErr+1e-6*math.Abs(sure) {
				t.Errorf("%v: SURE_P %g ± %g and loss %g, by matrices %g and %g", size, many.SURE, many.ProbeStdErr,
					many.Loss, sure, loss)
			}
		}
		if mean, stderr := sum/draws, math.Sqrt(squares)/draws; math.Abs(mean) > 3*stderr {
			t.Errorf("%v: the mean of SURE_P minus the loss is %.3g ± %.2g", size, mean, stderr)
		}
		s.Release()
		a.Release()
		if live := dev.Stats().Live; live != 0 {
			t.Errorf("%d batches left", live)
		}
		dev.Close()
	}
}

// projectedByHand is SURE_P and the loss by the singular value decomposition of A and all of D mu_hat.
func projectedByHand(t *testing.T, dev array.Device, s vjp.Solver, svd *mat.SVD, y, mu []float64,
	sigma2 float64) (sure, loss float64) {
	t.Helper()
	d := len(y)
	at, probes, images := dev.Put(y, 1, d), dev.Alloc(d, d), dev.Alloc(d, d)
	defer at.Free()
	defer probes.Free()
	defer images.Free()
	sol, err := s.Solve(context.Background(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer sol.Release()
	dev.Fill(probes, 0)
	dev.Fill(probes.Diagonal(), 1)
	if err := sol.Linearization.VJP(context.Background(), images, probes); err != nil {
		t.Fatal(err)
	}
	var u, w, scaled mat.Dense
	svd.UTo(&u)
	values := svd.Values(nil)
	scaled.CloneFrom(&u)
	for j, v := range values {
		for i := range d {
			scaled.Set(i, j, u.At(i, j)/(v*v))
		}
	}
	w.Mul(&scaled, u.T())
	norm := func(x []float64) float64 {
		v := mat.NewVecDense(d, nil)
		for i, m := range sol.MuHat.ToHost() {
			v.SetVec(i, x[i]-m)
		}
		return mat.Inner(v, &w, v)
	}
	var wj mat.Dense
	wj.Mul(&w, mat.NewDense(d, d, images.ToHost()))
	return norm(y) - sigma2*mat.Trace(&w) + 2*sigma2*mat.Trace(&wj), norm(mu)
}

// With A A* = c I the projected risk is the predicted one over c; where A is nearly singular it is
// refused.
func TestProjectedSUREOfEasyAndIllPosedOperators(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	ctx := context.Background()
	y := []float64{3, -1, 0.5, 2}
	scaled := linops.Scale(2, linops.Identity(4))
	s, err := vjp.NewSolver(ctx, "ista", vjp.Problem{A: scaled, R: prox.NewL1(1), Device: dev}, vjp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	got, err := pipeline.ProjectedSURE(ctx, s, scaled, y, nil, 1, pipeline.ProjectedOptions{})
	// mu_hat is soft thresholding of y at 1/2, with residuals 1/2 and three entries that are kept.
	if want := (4*0.25 - 4 + 2*3) / 4.; err != nil || math.Abs(got.SURE-want) > 1e-12 || got.ProbeStdErr > 1e-12 ||
		!math.IsNaN(got.Loss) || got.Iterations != 0 {
		t.Errorf("%+v, %v, want SURE_P = %g", got, err, want)
	}
	weak := linops.NewDiagonal(dev, []float64{1, 1e-3, 1e-6, 1e-9})
	defer weak.Release()
	if _, err := pipeline.ProjectedSURE(ctx, s, weak, y, nil, 1,
		pipeline.ProjectedOptions{MaxIterations: 3}); !errors.Is(err, pipeline.ErrIllPosed) {
		t.Errorf("%v", err)
	}
	for name, err := range map[string]error{
		"sigma2": func() error {
			_, err := pipeline.ProjectedSURE(ctx, s, scaled, y, nil, 0, pipeline.ProjectedOptions{})
			return err
		}(),
		"length": func() error {
			_, err := pipeline.ProjectedSURE(ctx, s, scaled, y[:3], nil, 1, pipeline.ProjectedOptions{})
			return err
		}(),
	} {
		if err == nil {
			t.Errorf("%s is not checked", name)
		}
	}
}
