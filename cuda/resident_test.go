//go:build cuda

package cuda_test

import (
	"context"
	"fmt"
	"testing"

	"surepipe/array"
	"surepipe/cuda"
	"surepipe/cuda/emulator"
	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// emulated skips a test of what only the emulated driver can tell.
func emulated(t testing.TB) {
	t.Helper()
	if cards, err := array.Cards(); err == nil && len(cards) == 0 {
		t.Skip("no card")
	}
	if !emulator.Present() {
		t.Skip("the driver in use does not count")
	}
}

// openCard opens the first card; the test closes it, and so does its end.
func openCard(t testing.TB, memory int64) *cuda.Device {
	t.Helper()
	emulated(t)
	emulator.Reset()
	dev, err := cuda.Open(0, memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// nothingHeld checks that a closed device has left nothing on the card.
func nothingHeld(t testing.TB) {
	t.Helper()
	c := emulator.Read()
	if c.Allocs != c.Frees || c.LiveBytes != 0 || c.Pinned != 0 || c.Objects != 0 || c.Overruns != 0 {
		t.Errorf("after Close the driver has counted %+v", c)
	}
}

// copied is the copies between two readings, in values.
func copied(before, after emulator.Counters) (to, from int64) {
	return (after.ToCardBytes - before.ToCardBytes) / 8, (after.FromCardBytes - before.FromCardBytes) / 8
}

// A sweep over a tape and a factored system copy nothing. Conjugate gradients send and
// fetch a handful of numbers a probe and step. Neither probes nor images leave the card,
// however long they are.
func TestVJPStaysOnTheCard(t *testing.T) {
	for _, s := range settings(t) {
		t.Run(s.String(), func(t *testing.T) {
			dev := openCard(t, 0)
			ctx := context.Background()
			problem, solver, sol := s.solve(t, dev, 1e-8, 0)
			const k = 17
			v, dst := dev.Alloc(k, problem.D), dev.Alloc(k, problem.D)
			dev.Fill(v, 1)
			dev.Fill(v.Cols(0, problem.D/2), -1)
			if err := sol.Linearization.VJP(ctx, dst, v); err != nil {
				t.Fatal(err)
			}
			before := emulator.Read()
			if err := sol.Linearization.VJP(ctx, dst, v); err != nil {
				t.Fatal(err)
			}
			after := emulator.Read()
			to, from := copied(before, after)
			t.Logf("VJP of %d probes, d = %d, p = %d: %d values to the card, %d from it, %d launches, %d "+
				"products, %d allocations",
				k, problem.D, problem.P, to, from, after.Launches-before.Launches, after.Products-before.Products,
				after.Allocs-before.Allocs)
			steps := int64(sol.Linearization.Inner().Steps)
			toLimit, fromLimit := int64(0), int64(0)
			if steps > 0 {
				// The coefficients of four LinEach, and of one at the end; four dots, two before
				// the first step and one at the end.
				toLimit, fromLimit = 8*k*steps+2*k, k*(4*steps+3)
			}
			if to > toLimit || from > fromLimit {
				t.Errorf("a VJP of %d probes in %d steps copied %d values to the card and %d from it, expected at "+
					"most %d and %d", k, steps, to, from, toLimit, fromLimit)
			}
			if n := after.Allocs - before.Allocs; n != 0 {
				t.Errorf("a second VJP allocated %d times", n)
			}
			v.Free()
			dst.Free()
			sol.Release()
			solver.Release()
			problem.Release()
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
			nothingHeld(t)
		})
	}
}

// solve solves the setting with a tolerance, in at most maxIter iterations if that is not 0.
func (s setting) solve(t testing.TB, dev array.Device, tol float64, maxIter int) (*problems.Problem, vjp.Solver,
	*vjp.Solution) {
	t.Helper()
	ctx := context.Background()
	problem, err := problems.New(s.name, dev, s.data, s.hyper)
	if err != nil {
		t.Fatal(err)
	}
	solver, err := vjp.NewSolver(ctx, s.solver, problem.Solve(), vjp.Options{Derivative: vjp.Derivative(s.derivative),
		Tol: tol, MaxIter: maxIter})
	if err != nil {
		t.Fatal(err)
	}
	y := dev.Alloc(1, problem.D)
	defer y.Free()
	dev.Upload(y, s.data.Y)
	sol, err := solver.Solve(ctx, y)
	if err != nil {
		t.Fatal(err)
	}
	return problem, solver, sol
}

// An iteration of a solver copies the numbers it decides by, and where there is a
// nuclear norm what the host's decomposition of it takes: the q x q Gram matrix, q the
// shorter side, and what becomes of r of its eigenvectors. A tape of a nuclear norm's
// derivatives takes all of these, the coefficients of r with q singular values, and the places
// at which r x r matrices have their transposes. Nothing
// is as long as the longer side, let alone p.
func TestIterationsStayOnTheCard(t *testing.T) {
	const m, n = 40, 6
	mc := completion(m, n)
	pca := problems.Data{Y: make([]float64, m*n), YShape: []int{m, n}, Sigma2: mc.Sigma2, Lambda: mc.Lambda,
		Gamma: mc.Lambda}
	for i, at := range mc.Indices {
		pca.Y[at] = mc.Y[i]
	}
	all := settings(t)
	all = append(all,
		setting{"matrix-completion", mc, problems.Hyper{}, "fista", "none", ""},
		setting{"matrix-completion", mc, problems.Hyper{}, "fista", "unrolled", ""},
		setting{"robust-pca", pca, problems.Hyper{}, "fista", "none", ""},
		setting{"robust-pca", pca, problems.Hyper{}, "fista", "unrolled", ""})
	for _, s := range all {
		if s.derivative == "implicit" {
			s.derivative = "none" // what comes after the iterations is not theirs
		}
		rows, cols := 0, 0
		switch {
		case s.solver == "direct", s.name == "svt": // no iterations, or a single one
			continue
		case s.data.X == nil && s.data.Shape != nil:
			rows, cols = s.data.Shape[0], s.data.Shape[1]
		case s.data.X == nil:
			rows, cols = s.data.YShape[0], s.data.YShape[1]
		}
		q := min(rows, cols)
		t.Run(fmt.Sprintf("%s/%dx%d", s, rows, cols), func(t *testing.T) {
			count := func(iterations int) (to, from, launches int64) {
				dev := openCard(t, 0)
				before := emulator.Read()
				problem, solver, sol := s.solve(t, dev, 1e-300, iterations)
				after := emulator.Read()
				if sol.Iterations != iterations {
					t.Errorf("%d iterations, expected %d", sol.Iterations, iterations)
				}
				sol.Release()
				solver.Release()
				problem.Release()
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
				nothingHeld(t)
				to, from = copied(before, after)
				return to, from, after.Launches - before.Launches
			}
			// ADMM factors again where it changes its penalty, in the first iterations, and solves ridge
			// to rounding errors in 26.
			const first, last = 20, 25
			to1, from1, launches1 := count(first)
			to2, from2, launches2 := count(last)
			to, from := (to2-to1)/(last-first), (from2-from1)/(last-first)
			t.Logf("an iteration: %d values to the card, %d from it, %d launches", to, from,
				(launches2-launches1)/(last-first))
			const numbers = 5
			toLimit, fromLimit := int64(0), int64(numbers)
			if rows > 0 {
				toLimit, fromLimit = int64(2*q*q), int64(q*q+numbers)
				if s.derivative == "unrolled" {
					toLimit, fromLimit = int64(3*q*q+q*q/2+5*q), int64(q*q+q+numbers)
				}
			}
			if to > toLimit || from > fromLimit {
				t.Errorf("an iteration copied %d values to the card and %d from it, expected at most %d and %d", to,
					from, toLimit, fromLimit)
			}
		})
	}
}

// A whole estimate copies y and the probes to the card, mu_hat, b and one vector of length p that
// tells the support from it, and numbers: a few an iteration and a probe, k x k matrices, and the
// system on the support, with which an unrolled derivative is compared by a probe of its own. The
// duality gap takes b and the gradient, and the derivatives near the solution two probes of length p, and
// two arguments with their diagonals, which an unrolled derivative reads once more.
func TestEstimateCopiesProbesAndResults(t *testing.T) {
	const d, n, queries = 130, 190, 12
	for _, c := range []struct {
		trace       string
		probes, k   int // drawn on the host, and the size of the matrices
		derivatives []string
	}{
		{hutch.Hutchinson, queries, 0, []string{"unrolled", "implicit"}},
		{hutch.HutchPP, 2 * queries / 3, queries / 3, []string{"unrolled"}},
		{hutch.Exact, 0, 0, []string{"unrolled"}},
	} {
		for _, derivative := range c.derivatives {
			s := setting{"lasso", regression(t, d, n), problems.Hyper{}, "fista", derivative, c.trace}
			t.Run(c.trace+"/"+derivative, func(t *testing.T) {
				dev := openCard(t, 0)
				ctx := context.Background()
				p, release, err := s.open(ctx, dev, vjp.Options{}, pipeline.Options{Queries: queries, KeepB: true})
				if err != nil {
					t.Fatal(err)
				}
				before := emulator.Read()
				risk, err := p.Estimate(ctx, s.data.Y)
				if err != nil {
					t.Fatal(err)
				}
				to, from := copied(before, emulator.Read())
				used, system, lag := risk.Trace.Queries, 0, 0
				for _, v := range risk.B {
					if v != 0 {
						system++
					}
				}
				if derivative == "unrolled" {
					lag = 1
				}
				matrices := 4*c.k*c.k + system*system
				t.Logf("%d iterations, %d queries, %d active: %d values to the card, %d from it", risk.Iterations,
					used, system, to, from)
				// The support's columns are a list of numbers too.
				if limit := int64(d + (c.probes+lag)*d + 5*n + matrices); to > limit {
					t.Errorf("%d values copied to the card, expected at most %d", to, limit)
				}
				if limit := int64(d + (8+lag)*n + matrices + 2*(risk.Iterations+used+lag) + 16); from > limit {
					t.Errorf("%d values copied from the card, expected at most %d", from, limit)
				}
				release()
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
				nothingHeld(t)
			})
		}
	}
}
