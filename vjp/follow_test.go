package vjp_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// unfollowed hides that a regularizer can be followed.
type unfollowed struct{ prox.Prox }

type followedCase struct {
	name   string
	solver string
	p      vjp.Problem
	y      []float64
}

// followedCases are problems with a nuclear norm and solutions of low rank.
func followedCases(t *testing.T, dev array.Device) []followedCase {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 5))
	var all []followedCase
	add := func(name string, a linops.Operator, r prox.Prox, y []float64, solvers ...string) {
		for _, s := range solvers {
			all = append(all, followedCase{name + "/" + s, s, vjp.Problem{A: a, R: r, Device: dev}, y})
		}
	}
	tall, wide := array.Shape{Rows: 80, Cols: 66}, array.Shape{Rows: 64, Cols: 90}
	pca := func(shape array.Shape, lambda, gamma float64) prox.Prox {
		return prox.NewSeparable(lowrank.NewNuclear(shape, lambda), prox.Block{Prox: prox.NewL1(gamma), N: shape.Len()})
	}
	outliers := func(y []float64) []float64 {
		for range len(y) / 20 {
			y[rng.IntN(len(y))] += 20 * rng.NormFloat64()
		}
		return y
	}
	twice := func(shape array.Shape) linops.Operator {
		return linops.HStack(linops.Identity(shape.Len()), linops.Identity(shape.Len()))
	}
	add("robust pca", twice(tall), pca(tall, 20, 3.2), outliers(solvetest.LowRankMatrix(rng, tall, 200, 1)), "fista",
		"ista", "admm")
	add("wide", twice(wide), pca(wide, 20, 3.2), outliers(solvetest.LowRankMatrix(rng, wide, 200, 1)), "fista")
	add("tau among the noise", twice(tall), prox.NewScaled(2, pca(tall, 7.5, 1.6)),
		outliers(solvetest.LowRankMatrix(rng, tall, 200, 1)), "fista")
	add("high rank", twice(tall), pca(tall, 4, 3), outliers(solvetest.LowRankMatrix(rng, tall, 100, 1)), "fista")
	add("zero", twice(tall), pca(tall, 1000, 100), solvetest.LowRankMatrix(rng, tall, 200, 1), "fista")
	add("a large value", twice(tall), pca(tall, 20, 3.2), solvetest.LowRankMatrix(rng, tall, 2e4, 1), "fista")
	add("denoising", linops.Identity(wide.Len()), lowrank.NewNuclear(wide, 20),
		solvetest.LowRankMatrix(rng, wide, 200, 1), "ista", "admm")
	d := 500
	dense := linops.NewDense(dev, mat.NewDense(d, tall.Len(), scaled(1/25., solvetest.Gaussian(rng, d*tall.Len()))))
	t.Cleanup(dense.Release)
	b, z := dev.Alloc(1, tall.Len()), dev.Alloc(1, d)
	defer b.Free()
	defer z.Free()
	dev.Upload(b, solvetest.LowRankMatrix(rng, tall, 60, 0))
	dense.Forward(z, b)
	y := z.ToHost()
	floats.Add(y, solvetest.Gaussian(rng, d))
	add("dense measurements", dense, lowrank.NewNuclear(tall, 40), y, "fista")
	return all
}

// Following the argument of the prox gives the estimate and the Jacobian's images of solves
// that compute every singular value, in about as many iterations, and their optimality is
// what it says.
func TestFollowingChangesNothingButRounding(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, c := range followedCases(t, dev) {
			t.Run(c.name, func(t *testing.T) {
				if arraytest.Emulated(t, dev) && (c.name == "high rank/fista" || c.name == "dense measurements/fista") {
					t.Skip("large products on an emulated card")
				}
				arraytest.NoLeak(t, dev)
				if prox.StructureOf(c.p.R).Follow == nil {
					t.Fatal("nothing to follow")
				}
				hidden := c.p
				hidden.R = unfollowed{c.p.R}
				got := solved(t, newSolver(t, c.solver, c.p, vjp.Options{Derivative: vjp.None}), dev, c.y)
				defer got.Release()
				checkOptimality(t, dev, c.p.A, c.p.R, c.y, got)
				want := solved(t, newSolver(t, c.solver, hidden, vjp.Options{Derivative: vjp.None}), dev, c.y)
				defer want.Release()
				if got.Iterations > want.Iterations+want.Iterations/4+4 {
					t.Errorf("%d iterations, %d with all singular values", got.Iterations, want.Iterations)
				}
				if got.Optimality > vjp.DefaultTol {
					t.Errorf("converged with optimality %v", got.Optimality)
				}

				o := vjp.Options{Derivative: vjp.Implicit, Tol: 1e-10}
				tight := solved(t, newSolver(t, c.solver, c.p, o), dev, c.y)
				defer tight.Release()
				exact := solved(t, newSolver(t, c.solver, hidden, o), dev, c.y)
				defer exact.Release()
				size := floats.Norm(c.y, 2)
				if e := floats.Distance(tight.MuHat.ToHost(), exact.MuHat.ToHost(), 2); !(e <= 1e-8*size) {
					t.Errorf("mu_hat is off by %.3g, y of size %.3g", e, size)
				}
				probes, images := dev.Alloc(2, len(c.y)), dev.Alloc(2, len(c.y))
				defer probes.Free()
				defer images.Free()
				dev.Upload(probes, solvetest.Gaussian(rand.New(rand.NewPCG(1, 2)), 2*len(c.y)))
				image := func(s *vjp.Solution) []float64 {
					if err := s.Linearization.VJP(context.Background(), images, probes); err != nil {
						t.Fatal(err)
					}
					return images.ToHost()
				}
				near(t, "the Jacobian's images", image(tight), image(exact), 1e-5)
			})
		}
	})
}

// Out of iterations the optimality is a bound all the same, and cancelled solves leave
// nothing behind.
func TestFollowingStopsWhereTold(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		cases := followedCases(t, dev)
		arraytest.NoLeak(t, dev)
		for _, c := range cases[:3] {
			for _, n := range []int{1, 2, 9} {
				for kind, want := range map[vjp.Derivative]string{vjp.Auto: "unrolled", vjp.Implicit: "implicit",
					vjp.None: ""} {
					s := newSolver(t, c.solver, c.p, vjp.Options{MaxIter: n, Derivative: kind})
					sol := stopped(t, s, dev, c.y)
					got := ""
					if sol.Linearization != nil {
						got = sol.Linearization.Kind()
					}
					if sol.Converged || sol.Iterations != n || got != want {
						t.Errorf("%s: %+v and derivative %q after %d iterations at most, want %q", c.name,
							sol.Convergence, got, n, want)
					}
					checkOptimality(t, dev, c.p.A, c.p.R, c.y, sol)
					sol.Release()
				}
			}
			s := newSolver(t, c.solver, c.p, vjp.Options{Derivative: vjp.None})
			on := dev.Alloc(1, len(c.y))
			dev.Upload(on, c.y)
			for n := range 12 {
				sol, err := s.Solve(&cancelAfter{Context: context.Background(), n: 7 * n}, on)
				if err == nil {
					sol.Release()
				}
			}
			on.Free()
		}
	})
}
