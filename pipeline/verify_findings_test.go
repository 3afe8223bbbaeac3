package pipeline_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox/cones"
	"surepipe/prox/lowrank"
	"surepipe/verify"
	"surepipe/vjp"
)

// finding is an input that a wrong number with exit status 0 was once printed for.
type finding struct {
	solver     string
	problem    vjp.Problem
	y          []float64
	sigma2     float64
	divergence float64 // the true one
}

// largeColumn is a LASSO with a first column in units of 1/u.
func largeColumn(t *testing.T, dev array.Device, u float64) finding {
	rng := rand.New(rand.NewPCG(1, 3))
	const d, p = 200, 8
	x, y := mat.NewDense(d, p, nil), make([]float64, d)
	for i := range d {
		for j := range p {
			x.Set(i, j, rng.NormFloat64())
		}
		y[i] = 10 + 5*x.At(i, 0) + 3*x.At(i, 1) - 2*x.At(i, 2) + x.At(i, 3) + x.At(i, 4)/2 + rng.NormFloat64()
		x.Set(i, 0, u*x.At(i, 0))
	}
	p1, err := problems.New("lasso", dev, problems.Data{X: x, Y: y, Intercept: true},
		problems.Hyper{Lambda: problems.Absolute(20)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p1.Release)
	return finding{solver: "fista", problem: p1.Solve(), y: y, sigma2: 1, divergence: 6}
}

// timestamps is ordinary least squares on nanoseconds beside three small columns and ones.
func timestamps(t *testing.T, dev array.Device) finding {
	rng := rand.New(rand.NewPCG(2, 3))
	const d = 60
	x, y := mat.NewDense(d, 5, nil), make([]float64, d)
	for i := range d {
		x.Set(i, 0, 1e18*(1.7+1e-4*float64(i)))
		x.Set(i, 4, 1)
		for j := 1; j < 4; j++ {
			x.Set(i, j, rng.Float64())
		}
		y[i] = 3*x.At(i, 1) - 2*x.At(i, 2) + rng.NormFloat64()
	}
	p, err := problems.New("ols", dev, problems.Data{X: x, Y: y}, problems.Hyper{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Release)
	return finding{solver: p.DefaultSolver, problem: p.Solve(), y: y, sigma2: 1, divergence: 5}
}

// tinyCompletion is a completion whose derivative has directions that A does not see.
func tinyCompletion(t *testing.T, dev array.Device) finding {
	a, err := linops.NewSelection(dev, 6, []int{0, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	p := vjp.Problem{A: a, R: lowrank.NewNuclear(array.Shape{Rows: 3, Cols: 2}, 3.189043743820395), Device: dev}
	return finding{solver: "fista", problem: p, y: []float64{7, 4, 8}, sigma2: 1, divergence: 2.7}
}

// interior is a simplex with an interior solution, half of A's singular values 1e-4: the
// divergence is d.
func interiorSimplex(t *testing.T, dev array.Device) finding {
	rng := rand.New(rand.NewPCG(3, 3))
	const d, n = 20, 90
	var svd mat.SVD
	svd.Factorize(mat.NewDense(d, n, gaussian(rng, d*n)), mat.SVDThin)
	var u, v, x mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	s := make([]float64, d)
	for i := range s {
		s[i] = map[bool]float64{true: 1, false: 1e-4}[i < d/2]
	}
	x.Product(&u, mat.NewDiagDense(d, s), v.T())
	y := make([]float64, d)
	for i := range y {
		y[i] = 1e-7*rng.NormFloat64() + mat.Sum(x.RowView(i))/n
	}
	a := linops.NewDense(dev, &x)
	t.Cleanup(a.Release)
	return finding{solver: "fista", problem: vjp.Problem{A: a, R: cones.NewSimplex(n, 1), Device: dev}, y: y,
		sigma2: 1e-14, divergence: d}
}

// Each is right, or marked: by the solver's own warnings or by the check.
func TestVerifyMarksWhatWasWrong(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	dev := array.NewHost()
	defer dev.Close()
	for name, f := range map[string]finding{
		"one column in large units": largeColumn(t, dev, 1e8),
		"timestamps":                timestamps(t, dev),
		"3 x 2 completion":          tinyCompletion(t, dev),
		"ill-conditioned simplex":   interiorSimplex(t, dev),
	} {
		t.Run(name, func(t *testing.T) {
			s, err := vjp.NewSolver(context.Background(), f.solver, f.problem, vjp.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			o := pipeline.Options{Sigma2: f.sigma2, Verify: &verify.Options{Problem: f.problem}}
			pipe, err := pipeline.New(s, o)
			if err != nil {
				t.Fatal(err)
			}
			risk, err := pipe.Estimate(context.Background(), f.y)
			if err != nil {
				t.Fatal(err)
			}
			right := math.Abs(risk.Trace.Trace-f.divergence) <= 4*risk.Trace.StdErr+1e-3*f.divergence
			if !right && risk.Trusted() {
				t.Errorf("divergence %g ± %g, expected %g, is not marked: %+v", risk.Trace.Trace, risk.Trace.StdErr,
					f.divergence, risk.Verification)
			}
			t.Logf("divergence %g ± %g, true %g; %v", risk.Trace.Trace, risk.Trace.StdErr, f.divergence,
				risk.Warnings())
		})
	}
}
