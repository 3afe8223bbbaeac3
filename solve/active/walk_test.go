package active_test

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// From b = 0 at once, the steps to a small weight are several times as many.
func TestSmallWeightsAreWalkedTo(t *testing.T) {
	const d, p, most = 250, 500, 150
	dev, rng := array.NewHost(), rand.New(rand.NewPCG(5, 29))
	x := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))
	y := solvetest.Gaussian(rng, d)
	for j := range 25 {
		for i := range d {
			y[i] += 2 * x.At(i, j)
		}
	}
	a := roomtest.Dense(t, dev, d, p, x.RawMatrix().Data)
	for _, name := range []string{"l1", "weighted", "elastic"} {
		r := penalties(t, dev, x, y, 0.003)[name]
		s := roomtest.NewSolver(t, "active-set", solve.Problem{A: a, R: r, Device: dev}, solve.Options{})
		sol := roomtest.At(t, s, roomtest.On(t, dev, y))
		t.Logf("%s: %d steps", name, sol.Iterations)
		if !sol.Converged || sol.Iterations > most {
			t.Errorf("%s: %+v, expected at most %d steps", name, sol.Convergence, most)
		}
	}
}
