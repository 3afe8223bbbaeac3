package vjp_test

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// The derivative of b by a factor on the regularizer is that of central differences in the user's
// coordinates, also where the problem was solved in other units, on a working set or with weights.
func TestSlopesAreInTheUsersCoordinates(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(21, 22))
		const d = 40
		weights := make([]float64, d)
		for i := range weights {
			weights[i] = 0.5 + rng.Float64()
		}
		l, err := loss.WeightedSquared(dev, weights)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
		y := scaled(3, solvetest.Gaussian(rng, d))
		for _, p := range []int{8, 300} {
			for _, units := range []float64{1, 40} {
				x := solvetest.Gaussian(rng, d*p)
				for i := range x {
					if i%p%2 == 0 {
						x[i] *= units
					}
				}
				a := linops.NewDense(dev, mat.NewDense(d, p, x))
				at := func(lambda float64, weighted bool) *vjp.Solution {
					problem := vjp.Problem{A: a, R: prox.NewL1(lambda), Device: dev}
					if weighted {
						problem.Loss = l
					}
					return solved(t, newSolver(t, "fista", problem, vjp.Options{Tol: 1e-12, MaxIter: 100000}), dev, y)
				}
				for _, weighted := range []bool{false, true} {
					const lambda, h = 15, 1e-4
					sol, up, down := at(lambda, weighted), at(lambda*(1+h), weighted), at(lambda*(1-h), weighted)
					want := up.B.ToHost()
					floats.Sub(want, down.B.ToHost())
					floats.Scale(1/(2*h), want)
					slope := sol.Linearization.Closed().Slope
					if slope == nil {
						t.Fatalf("p = %d, units %g: no slope", p, units)
					}
					near(t, "the slope", sure(t, slope), want, 1e-5)
					for _, s := range []*vjp.Solution{sol, up, down} {
						s.Release()
					}
				}
				a.Release()
			}
		}
	})
}
