package solve_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// unfollowed hides that a regularizer can be followed.
type unfollowed struct{ prox.Prox }

type pcaCase struct {
	name, solver string
	p            solve.Problem
	y            []float64
}

// pcaCases are robust PCAs whose singular values are followed.
func pcaCases(t *testing.T, dev array.Device) (all []pcaCase) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 5))
	for _, solver := range []string{"fista", "ista"} {
		shape := array.Shape{Rows: 80, Cols: 66}
		n := shape.Len()
		r := prox.NewSeparable(lowrank.NewNuclear(shape, 20), prox.Block{Prox: prox.NewL1(3.2), N: n})
		y := solvetest.LowRankMatrix(rng, shape, 200, 1)
		for range n / 20 {
			y[rng.IntN(n)] += 20 * rng.NormFloat64()
		}
		p := solve.Problem{A: linops.HStack(linops.Identity(n), linops.Identity(n)), R: r, Device: dev}
		all = append(all, pcaCase{"robust pca/" + solver, solver, p, y})
	}
	return all
}

// A warm start at a nearby solution keeps its accuracy.
func TestFollowingStartsWhereTold(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		c := pcaCases(t, dev)[0]
		arraytest.NoLeak(t, dev)
		o := solve.Options{}
		cold := roomtest.Converged(t, roomtest.NewSolver(t, c.solver, c.p, o), dev, c.y)
		defer cold.Release()
		nearby := c.p
		nearby.R = prox.NewScaled(1.01, c.p.R)
		before := roomtest.Converged(t, roomtest.NewSolver(t, c.solver, nearby, o), dev, c.y)
		defer before.Release()
		on := dev.Alloc(1, len(c.y))
		defer on.Free()
		dev.Upload(on, c.y)
		from := func(p solve.Problem, b0 array.Batch) *solve.Solution {
			sol, err := roomtest.NewSolver(t, c.solver, p, o).Solve(context.Background(), on, solve.From{B: b0})
			if err != nil {
				t.Fatal(err)
			}
			return sol
		}
		warm := from(c.p, before.B)
		defer warm.Release()
		hidden := c.p
		hidden.R = unfollowed{c.p.R}
		exact := from(hidden, before.B)
		defer exact.Release()
		roomtest.Near(t, "b", warm.B.ToHost(), cold.B.ToHost(), 1e-6)
		if !warm.Converged || warm.Iterations > exact.Iterations+2 || warm.Iterations >= cold.Iterations {
			t.Errorf("%d iterations, %d with all singular values, %d from zero; converged: %v", warm.Iterations,
				exact.Iterations, cold.Iterations, warm.Converged)
		}
		again := from(c.p, cold.B)
		defer again.Release()
		if again.Iterations > 2 {
			t.Errorf("%d iterations from the solution", again.Iterations)
		}
	})
}

// The bits of a solution depend on nothing but the problem.
func TestFollowingRepeats(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, c := range pcaCases(t, dev) {
			s := roomtest.NewSolver(t, c.solver, c.p, solve.Options{})
			results := make([][]float64, 3)
			var wg sync.WaitGroup
			for i := range results {
				wg.Go(func() {
					on := dev.Alloc(1, len(c.y))
					defer on.Free()
					dev.Upload(on, c.y)
					sol, err := s.Solve(context.Background(), on, solve.From{})
					if err != nil {
						t.Error(err)
						return
					}
					results[i] = sol.B.ToHost()
					sol.Release()
				})
			}
			wg.Wait()
			for _, b := range results[1:] {
				if !slices.Equal(b, results[0]) {
					t.Errorf("%s: solves at the same time differ", c.name)
				}
			}
		}
	})
}

// Starting at the solution of a problem nearby leads to the same solution in fewer
// iterations, for every solver.
func TestSolveFromASolutionNearby(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(3, 5))
		const d, p = 120, 600
		matrix, values := roomtest.Dense(t, dev, d, p, solvetest.Gaussian(rng, d*p)),
			roomtest.Scaled(3, solvetest.Gaussian(rng, d))
		y := roomtest.On(t, dev, values)
		ctx := context.Background()
		operators, solvers := []linops.Operator{matrix, roomtest.Plain{Operator: matrix}},
			[]string{"ista", "fista", "admm"}
		if arraytest.Emulated(t, dev) {
			t.Logf("%s is emulated: with working sets only, without ista", dev.Name())
			operators, solvers = operators[:1], solvers[1:]
		}
		for _, a := range operators {
			for _, name := range solvers {
				t.Run(fmt.Sprintf("%s %T", name, a), func(t *testing.T) {
					o := solve.Options{Tol: 1e-10, MaxIter: 100000}
					before := roomtest.Converged(t,
						roomtest.NewSolver(t, name, solve.Problem{A: a, R: prox.NewL1(15.2), Device: dev}, o), dev,
						values)
					defer before.Release()
					s := roomtest.NewSolver(t, name, solve.Problem{A: a, R: prox.NewL1(15), Device: dev}, o)
					cold := roomtest.Converged(t, s, dev, values)
					defer cold.Release()
					warm, err := s.Solve(ctx, y, solve.From{B: before.B})
					if err != nil {
						t.Fatal(err)
					}
					defer warm.Release()
					roomtest.Near(t, "b", warm.B.ToHost(), cold.B.ToHost(), 1e-7)
					if !warm.Converged || warm.Iterations >= cold.Iterations {
						t.Errorf("%d iterations from nearby, %d from zero; converged: %v", warm.Iterations,
							cold.Iterations, warm.Converged)
					}
				})
			}
		}
	})
}
