package lowrank_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox/lowrank"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// along solves at the weights one after the other and returns mu_hat at each, with the iterations in
// all. Without a path every solve starts at the solution before.
func along(t *testing.T, base solve.Solver, shape array.Shape, y array.Batch, weights []float64,
	path *solve.Path) (mu [][]float64, iterations int) {
	t.Helper()
	var before array.Batch
	defer func() { before.Free() }()
	for _, lambda := range weights {
		s, err := base.Reweight(t.Context(), lowrank.NewNuclear(shape, lambda))
		if err != nil {
			t.Fatal(err)
		}
		sol, err := s.Solve(t.Context(), y, solve.From{B: before, Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if !sol.Converged {
			t.Errorf("weight %g: %+v", lambda, sol.Convergence)
		}
		mu = append(mu, sol.MuHat.ToHost())
		iterations += sol.Iterations
		if path == nil {
			before.Free()
			before = y.Device().Alloc(1, sol.B.N())
			y.Device().Copy(before, sol.B)
		}
		sol.Release()
		s.Release()
	}
	return mu, iterations
}

// Completions along a path of weights, downwards, upwards and with a repeated weight, have the solutions
// of solves from 0 in fewer iterations, with the same bits each time; and the path of other observations
// is not used.
func TestPathsOfCompletions(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		solvetest.FactorAll(t)
		arraytest.NoLeak(t, dev)
		c := solvetest.CompletionCases[0].On(t, dev)
		a, y := solvetest.Completion(t, dev, c.Shape, c.D)
		b := roomtest.On(t, dev, y)
		base := roomtest.NewSolver(t, "fista", solve.Problem{A: a, R: lowrank.NewNuclear(c.Shape, 1), Device: dev},
			solve.Options{Point: true})
		var weights []float64
		for k := range 5 {
			weights = append(weights, 3*c.Lambda*math.Pow(0.75, float64(k)))
		}
		weights = append(weights, weights[4], weights[2])
		var path, again solve.Path
		defer path.Release()
		defer again.Release()
		got, steps := along(t, base, c.Shape, b, weights, &path)
		same, _ := along(t, base, c.Shape, b, weights, &again)
		want, cold := along(t, base, c.Shape, b, weights, nil)
		for k := range weights {
			roomtest.Near(t, fmt.Sprint("weight ", k), got[k], want[k], 1e-5)
			if !slices.Equal(got[k], same[k]) {
				t.Errorf("weight %d: other bits along the same path", k)
			}
		}
		if steps >= cold {
			t.Errorf("%d iterations along the path, %d from one solution to the next", steps, cold)
		}
		for i := range y {
			y[i] = -2 * y[i]
		}
		other := roomtest.On(t, dev, y)
		got, steps = along(t, base, c.Shape, other, weights[:1], &path)
		want, cold = along(t, base, c.Shape, other, weights[:1], nil)
		if !slices.Equal(got[0], want[0]) || steps != cold {
			t.Error("the path of other observations was used")
		}
	})
}
