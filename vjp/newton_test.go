package vjp_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// TestNewtonGivesTheDerivative compares the trace at a solution by Newton steps, whose Gram matrix
// is the solver's, with central differences of solutions and with the gradient steps unrolled.
func TestNewtonGivesTheDerivative(t *testing.T) {
	dev := array.NewHost()
	const d, p = 15, 24
	rng := rand.New(rand.NewPCG(7, 8))
	a, y := linops.NewDense(dev, mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))), solvetest.Gaussian(rng, d)
	t.Cleanup(a.Release)
	var groups [][]int
	for j := 0; j < p-3; j += 3 { // the last three are not penalized
		groups = append(groups, []int{j, j + 1, j + 2})
	}
	group, err := prox.NewGroupL2(dev, p, 1.5, groups, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prox.Release(group) })
	weights := make([]float64, p)
	for i := range weights {
		weights[i] = 2 - 1.5*float64(i)/p
	}
	slope, err := clustered.NewSortedL1(weights)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]prox.Prox{"group l2": group, "SLOPE": slope} {
		solver := func(kind vjp.Derivative) vjp.Solver {
			s, err := vjp.NewSolver(t.Context(), "newton", vjp.Problem{A: a, R: r, Device: dev},
				vjp.Options{Tol: 1e-12, Derivative: kind})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Release)
			return s
		}
		at := func(s vjp.Solver, y []float64) *vjp.Solution {
			b := dev.Alloc(1, d)
			t.Cleanup(b.Free)
			dev.Upload(b, y)
			sol, err := s.Solve(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(sol.Release)
			return sol
		}
		implicit := solver(vjp.Implicit)
		sol := at(implicit, y)
		trace := sol.Linearization.Closed().Trace
		const h = 1e-5
		differences := 0.0
		for i := range y {
			up, down := append([]float64(nil), y...), append([]float64(nil), y...)
			up[i] += h
			down[i] -= h
			differences += (at(implicit, up).MuHat.ToHost()[i] - at(implicit, down).MuHat.ToHost()[i]) / (2 * h)
		}
		if math.Abs(trace-differences) > 1e-5*d {
			t.Errorf("%s: trace %g, by central differences %g", name, trace, differences)
		}
		tape := at(solver(vjp.Unrolled), y)
		units, out := dev.Alloc(d, d), dev.Alloc(d, d)
		t.Cleanup(units.Free)
		t.Cleanup(out.Free)
		dev.Fill(units, 0)
		dev.Fill(units.Diagonal(), 1)
		if err := tape.Linearization.VJP(t.Context(), out, units); err != nil {
			t.Fatal(err)
		}
		unrolled := 0.0
		for i, v := range out.ToHost() {
			if i%(d+1) == 0 {
				unrolled += v
			}
		}
		if math.Abs(trace-unrolled) > 1e-5*d {
			t.Errorf("%s: trace %g, unrolled %g", name, trace, unrolled)
		}
	}
}
