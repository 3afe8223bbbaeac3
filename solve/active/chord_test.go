package active_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
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
			checkHeld(t, sol)
			roomtest.Near(t, "mu_hat along the path", sol.MuHat.ToHost(), alone.MuHat.ToHost(), 1e-4)
			sol.Release()
			alone.Release()
			s.Release()
		}
		path.Release()
	}
}

// checkHeld checks the Gram matrix and the diagonal of a solution's weights, whose columns are those of weights before.
func checkHeld(t *testing.T, sol *solve.Solution) {
	t.Helper()
	at := sol.At
	set := support(at.B.ToHost())
	if at.Factored == nil || len(set) == 0 {
		return
	}
	f, ok := at.Factored(set)
	if !ok {
		return
	}
	x := linops.ToDense(at.B.Device(), at.Problem.A)
	rows, _ := x.Dims()
	on := mat.NewDense(rows, len(set), nil)
	for k, j := range set {
		on.SetCol(k, mat.Col(nil, j, x))
	}
	var want mat.Dense
	want.Mul(on.T(), on)
	got := mat.NewDense(len(set), len(set), at.Gram(set))
	var off mat.Dense
	off.Sub(got, &want)
	if e := mat.Norm(&off, 2); !(e <= 1e-9*mat.Norm(&want, 2)) {
		t.Errorf("the Gram matrix of %d columns is off by %g", len(set), e)
	}
	if e := math.Abs(floats.Sum(f.Diagonal()) - f.Trace); f.Condition < 1e6 && !(e <= 1e-7*f.Trace) {
		t.Errorf("the diagonal's sum is off by %g", e)
	}
}
