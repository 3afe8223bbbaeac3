//go:build cuda

package cuda_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/cuda/emulator"
	"surepipe/problems"
)

// Where the solution is of low rank an iteration copies what the partial SVD decides by:
// matrices of a few more rows than the rank, never one of the shorter side, and never an
// iterate; and it allocates nothing.
func TestLowRankIterationsCopyTheRankSquared(t *testing.T) {
	const m, n, rank = 240, 210, 2
	sigma2, lambdaL, lambdaC, gamma := 2.0, 100.0, 70.0, 8.0
	mc := completion(m, n)
	mc.Lambda = &lambdaC
	rng := rand.New(rand.NewPCG(1, 1))
	pca := problems.Data{Y: make([]float64, m*n), YShape: []int{m, n}, Sigma2: &sigma2, Lambda: &lambdaL, Gamma: &gamma}
	for i := range pca.Y {
		row, col := float64(i/n), float64(i%n)
		pca.Y[i] = 8*math.Sin(row)*math.Cos(3*col) + 5*math.Cos(row*row)*math.Sin(col) +
			math.Sqrt(sigma2)*rng.NormFloat64()
		if rng.IntN(20) == 0 {
			pca.Y[i] += 20 * rng.NormFloat64()
		}
	}
	for _, s := range []setting{
		{"matrix-completion", mc, problems.Hyper{}, "fista", "none", ""},
		{"robust-pca", pca, problems.Hyper{}, "fista", "none", ""},
	} {
		t.Run(s.name, func(t *testing.T) {
			count := func(iterations int) (to, from, launches, allocs int64) {
				dev := openCard(t, 0)
				before := emulator.Read()
				problem, solver, sol := s.solve(t, dev, 1e-8, iterations)
				after := emulator.Read()
				if sol.Iterations != iterations || sol.Converged {
					t.Errorf("%d iterations, converged: %v, expected %d away from convergence", sol.Iterations,
						sol.Converged, iterations)
				}
				sol.Release()
				solver.Release()
				problem.Release()
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
				nothingHeld(t)
				to, from = copied(before, after)
				return to, from, after.Launches - before.Launches, after.Allocs - before.Allocs
			}
			// The last iteration allowed is another one, the same in both. The completion takes
			// Newton steps in the last three.
			const first, last = 9, 10
			to1, from1, launches1, allocs1 := count(first)
			to2, from2, launches2, allocs2 := count(last)
			to, from := (to2-to1)/(last-first), (from2-from1)/(last-first)
			const block = rank + 8
			t.Logf("an iteration: %d values to the card, %d from it, %d launches; a block of %d vectors", to, from,
				(launches2-launches1)/(last-first), block)
			if limit := int64(6 * block * block); to > limit || from > limit {
				t.Errorf("an iteration copied %d values to the card and %d from it, expected at most %d", to, from,
					limit)
			}
			if allocs1 != allocs2 {
				t.Errorf("%d allocations in %d iterations, %d in %d", allocs1, first, allocs2, last)
			}
		})
	}
}
