package pipeline_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/prox/cones"
	"surepipe/vjp"
)

// spectral is a d x p matrix with the given d singular values.
func spectral(rng *rand.Rand, p int, sigma []float64) *mat.Dense {
	d := len(sigma)
	u, v := orthonormal(rng, d, d), orthonormal(rng, p, d)
	for j, s := range sigma {
		for i := range d {
			u.Set(i, j, u.At(i, j)*s)
		}
	}
	var a mat.Dense
	a.Mul(u, v.T())
	return &a
}

// halves is d values, every other 1 and small.
func halves(d int, small float64) []float64 {
	sigma := make([]float64, d)
	for i := range sigma {
		sigma[i] = 1
		if i%2 == 1 {
			sigma[i] = small
		}
	}
	return sigma
}

// interior is a least squares problem on the simplex that is solved inside of it, where the
// Jacobian is the identity, by conjugate gradients.
func interior(t *testing.T, dev array.Device, small float64) (vjp.Solver, []float64) {
	t.Helper()
	const d, p = 40, 300
	rng := rand.New(rand.NewPCG(3, 5))
	a := spectral(rng, p, halves(d, small))
	inside := make([]float64, p)
	total := 0.0
	for i := range inside {
		inside[i] = 1 + 0.3*rng.NormFloat64()
		total += inside[i]
	}
	for i := range inside {
		inside[i] /= total
	}
	var y mat.VecDense
	y.MulVec(a, mat.NewVecDense(p, inside))
	s, err := vjp.NewSolver(t.Context(), "fista", vjp.Problem{A: linops.NewDense(dev, a), R: cones.NewSimplex(p, 1),
		Device: dev}, vjp.Options{Sigma2: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	return s, y.RawVector().Data
}

// Half of the trace hides behind small singular values. Every estimator finds it, or says so.
func TestSmallSingularValuesHideNothing(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, small := range []float64{1e-2, 1e-3, 1e-4, 1e-5, 1e-6} {
			s, y := interior(t, dev, small)
			for _, estimator := range append(hutch.Estimators(), pipeline.Auto) {
				pipe, err := pipeline.New(s, pipeline.Options{Sigma2: 1, Estimator: estimator, Queries: 36})
				if err != nil {
					t.Fatal(err)
				}
				risk, err := pipe.Estimate(t.Context(), y)
				if err != nil {
					t.Fatal(err)
				}
				e := risk.Trace
				t.Logf("%g %s: %.6f +- %.2g (randomness %.2g, truncation %.2g), squared norm %.4f, %d steps, %d "+
					"short, trusted %v", small, e.Estimator,
					e.Trace, e.Error(), e.StdErr, e.Truncation, e.Frobenius2, risk.InnerSteps, risk.Unsolved,
					risk.Trusted())
				if !risk.Trusted() {
					if small >= 1e-4 {
						t.Errorf("%g, %s: %v", small, estimator, risk.Warnings())
					}
					continue
				}
				if math.Abs(e.Frobenius2-40) > 4 {
					t.Errorf("%g, %s: the squared norm is %v, expected 40", small, estimator, e.Frobenius2)
				}
				if off := math.Abs(e.Trace - 40); off > 2*e.Error()+1e-9 {
					t.Errorf("%g, %s: divergence %v +- %v, is 40", small, estimator, e.Trace, e.Error())
				}
			}
		}
	})
}
