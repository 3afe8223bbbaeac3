package active_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/internal/limits"
	"surepipe/solve/internal/roomtest"
)

// Coordinate descent on a sparse matrix comes to the fit that Newton steps find with the same matrix as a dense one:
// with a dense column among sparse ones, columns that are equal, empty or in other units, with weights of 0 and +Inf,
// and b >= 0. Without their means the columns of the sparse matrix have as many entries.
func TestDescentOnSparseColumns(t *testing.T) {
	old := limits.Passes
	limits.Passes = 0
	defer func() { limits.Passes = old }()
	const d, p = 120, 60
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 3))
		x, y := make([]float64, d*p), make([]float64, d)
		var indptr, indices []int
		var values []float64
		for i := range d {
			indptr = append(indptr, len(indices))
			z := 0.0
			for j := range p {
				v := 0.0
				if j == 0 || rng.IntN(8) == 0 {
					v = rng.ExpFloat64()
				}
				switch {
				case j == 1:
					v = 0
				case j == 3:
					v = x[i*p+2]
				case seed%3 == 1:
					v *= math.Pow(10, float64(j%5)-2)
				}
				if z += v * math.Sin(float64(j)); v != 0 {
					x[i*p+j], indices, values = v, append(indices, j), append(values, v)
				}
			}
			if seed%4 == 3 {
				z = 0 // without a penalty signal would separate the observations
			}
			if rng.Float64() < 1/(1+math.Exp(-z)) {
				y[i] = 1
			}
		}
		dev := array.NewHost()
		sparse, err := linops.NewCSR(dev, d, p, append(indptr, len(indices)), indices, values)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sparse.Release)
		logistic, err := loss.Logistic(nil)
		if err != nil {
			t.Fatal(err)
		}
		var r prox.Prox = prox.NewL1(0.5)
		switch {
		case seed%4 == 1:
			r = prox.NewElasticNet(0.5, 0.1)
		case seed%4 == 3:
			r = prox.NonNegative()
		case seed%4 == 2:
			w := make([]float64, p)
			for j := range w {
				w[j] = float64(j % 4)
			}
			w[5], w[9] = math.Inf(1), 0
			if r, err = prox.NewWeightedL1(dev, 0.3, w); err != nil {
				t.Fatal(err)
			}
		}
		o := solve.Options{Tol: 1e-10, MaxIter: 1000}
		fit := func(a linops.Operator) []float64 {
			s := roomtest.NewSolver(t, "active-set", solve.Problem{Device: dev, A: a, R: r, Loss: logistic}, o)
			sol := roomtest.At(t, s, roomtest.On(t, dev, y))
			if !sol.Converged {
				t.Errorf("seed %d: optimality %g", seed, sol.Optimality)
			}
			return sol.MuHat.ToHost()
		}
		if seed%2 == 1 {
			centered := additive.NewCentered(dev, sparse)
			t.Cleanup(centered.Release)
			without, _, _ := additive.CenterColumns(mat.NewDense(d, p, x))
			roomtest.Near(t, "A b without means by coordinate descent", fit(centered),
				fit(roomtest.Dense(t, dev, d, p, without.RawMatrix().Data)), 1e-6)
		}
		roomtest.Near(t, "A b by coordinate descent", fit(sparse), fit(roomtest.Dense(t, dev, d, p, x)), 1e-6)
	}
}
