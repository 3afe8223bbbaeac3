package active_test

import (
	"math"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
)

// Along a path of weights, where steps on the loss share a Gram matrix, the solutions are those of
// solves of their own: for likelihoods and the Huber loss, on designs of columns that are nearly
// equal or in units that differ, with and without a curvature of the regularizer.
func TestPathsOfLosses(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	for seed := range uint64(36) {
		c := drawProblem(t, seed)
		a, y := roomtest.Dense(t, dev, c.d, c.p, c.x), roomtest.On(t, dev, c.y)
		g, ag := dev.Alloc(1, c.d), dev.Alloc(1, c.p)
		dev.Fill(g, 0)
		c.l.Gradient(g, g, y)
		a.Adjoint(ag, g)
		var top [1]float64
		dev.MaxAbs(top[:], ag)
		g.Free()
		ag.Free()
		ridge := float64(seed/9%2) * top[0] / 100
		base := roomtest.NewSolver(t, "active-set",
			solve.Problem{A: a, Loss: c.l, R: prox.NewElasticNet(top[0], ridge), Device: dev},
			solve.Options{Point: true})
		var path solve.Path
		for k := range 8 {
			lambda := top[0] * math.Pow(0.6, float64(k))
			s, err := base.Reweight(t.Context(), prox.NewElasticNet(lambda, ridge))
			if err != nil {
				t.Fatal(err)
			}
			sol, err := s.Solve(t.Context(), y, solve.From{Path: &path})
			if err != nil {
				t.Fatal(err)
			}
			alone, err := s.Solve(t.Context(), y, solve.From{})
			if err != nil {
				t.Fatal(err)
			}
			if !sol.Converged {
				t.Errorf("seed %d, weight %d: %+v", seed, k, sol.Convergence)
			}
			if ridge == 0 {
				checkL1(t, seed, c, lambda, sol)
			}
			roomtest.Near(t, "mu_hat along the path", sol.MuHat.ToHost(), alone.MuHat.ToHost(), 1e-4)
			sol.Release()
			alone.Release()
			s.Release()
		}
		path.Release()
	}
}
