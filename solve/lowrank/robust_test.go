package lowrank_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/solve"
	"surepipe/solve/solvetest"
)

// robust is robust PCA of an m x n matrix of rank 3 with every fortieth entry far off, with the
// sparse block first or last.
func robust(dev array.Device, m, n int, lambda, gamma float64, sparseFirst bool) (solve.Problem, []float64) {
	shape := array.Shape{Rows: m, Cols: n}
	rng := rand.New(rand.NewPCG(uint64(m), uint64(n)))
	y := solvetest.LowRankMatrix(rng, shape, 2*math.Sqrt(float64(m*n)), 0.5)
	for i := range y {
		if i%40 == 0 {
			y[i] += 12 * rng.NormFloat64()
		}
	}
	id := linops.Identity(m * n)
	parts := []prox.Prox{prox.Block{Prox: lowrank.NewNuclear(shape, lambda), N: m * n},
		prox.Block{Prox: prox.NewL1(gamma), N: m * n}}
	if sparseFirst {
		slices.Reverse(parts)
	}
	return solve.Problem{A: linops.HStack(id, id), R: prox.NewSeparable(parts...), Device: dev}, y
}

// withNormOnly is an operator without structure but its norm.
func withNormOnly(a linops.Operator) linops.Operator {
	return linops.WithStructure(a, linops.Structure{Norm2: linops.StructureOf(a).Norm2})
}

// Without the sparse part the solution is that of the iterations on both parts, within the errors
// that the two report, from any start; b and mu_hat belong together and the optimality is that of
// the returned point.
func TestRobustPCAWithoutTheSparsePart(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		ctx := context.Background()
		for _, c := range []struct {
			name          string
			m, n          int
			lambda, gamma float64
			sparseFirst   bool
			solver        string
			choice        string
		}{
			{"tall", 280, 66, 15, 1.5, false, "fista", "without the sparse part"},
			{"tall, ista", 280, 66, 15, 1.5, false, "ista", "without the sparse part"},
			{"sparse first", 280, 66, 15, 1.5, true, "fista", "without the sparse part"},
			{"square", 70, 70, 12, 1.5, false, "fista", "no structure that the method can use"},
			{"rank 0", 280, 66, 4000, 1.5, false, "fista", "without the sparse part"},
			{"high rank", 280, 66, 3, 1.5, false, "fista", "the rank of the iterates turned out not to be low"},
			{"wide", 66, 280, 15, 1.5, false, "fista", "no structure that the method can use"},
		} {
			if slices.Contains([]string{"high rank", "square", "wide", "sparse first", "tall, ista"}, c.name) &&
				arraytest.Emulated(t, dev) {
				continue
			}
			p, values := robust(dev, c.m, c.n, c.lambda, c.gamma, c.sparseFirst)
			d := c.m * c.n
			y := dev.Alloc(1, d)
			dev.Upload(y, values)
			o := solve.Options{Sigma2: 0.25}
			s, err := solve.New(ctx, c.solver, p, o)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Solve(ctx, y, solve.From{})
			if err != nil {
				t.Fatal(err)
			}
			if !got.Converged || !(got.Error >= 0) {
				t.Errorf("%s: converged %t, optimality %g, error %g", c.name, got.Converged, got.Optimality, got.Error)
			}
			if !chosen(got, c.choice) {
				t.Errorf("%s: no %q in %v", c.name, c.choice, got.Choices)
			}
			bare := p
			bare.A = withNormOnly(p.A)
			other, err := solve.New(ctx, "fista", bare, o)
			if err != nil {
				t.Fatal(err)
			}
			want, err := other.Solve(ctx, y, solve.From{})
			if err != nil {
				t.Fatal(err)
			}
			again, err := s.Solve(ctx, y, solve.From{B: got.B})
			if err != nil {
				t.Fatal(err)
			}
			if again.Iterations > got.Iterations/2+1 {
				t.Errorf("%s: %d iterations from the solution, %d from 0", c.name, again.Iterations, got.Iterations)
			}
			for _, sol := range []*solve.Solution{got, again} {
				if e := distance(sol.MuHat, want.MuHat); !(e <= sol.Error+want.Error) {
					t.Errorf("%s: mu_hat is off by %g, the errors are %g and %g", c.name, e, sol.Error, want.Error)
				}
				if e := residualOf(t, bare, y, sol.B); !(e <= 3*1e-8*math.Sqrt(2*0.25*float64(d))) {
					t.Errorf("%s: a subgradient of norm %g", c.name, e)
				}
				mu := dev.Alloc(1, d)
				p.A.Forward(mu, sol.B)
				if e := distance(mu, sol.MuHat); !(e <= 1e-12*solve.Norm(mu)) {
					t.Errorf("%s: mu_hat differs from A b by %g", c.name, e)
				}
				mu.Free()
			}
			for _, sol := range []*solve.Solution{got, want, again} {
				sol.Release()
			}
			y.Free()
			s.Release()
			other.Release()
		}
	})
}

func chosen(s *solve.Solution, what string) bool {
	return slices.ContainsFunc(s.Choices, func(c solve.Choice) bool {
		return strings.Contains(c.Chosen+" "+c.Reason, what)
	})
}

func distance(a, b array.Batch) float64 {
	t := a.Device().Alloc(1, a.N())
	defer t.Free()
	a.Device().Lin(t, 1, a, -1, b)
	return solve.Norm(t)
}

// residualOf is the length of a proximal gradient step from b over its step.
func residualOf(t *testing.T, p solve.Problem, y, b array.Batch) float64 {
	t.Helper()
	dev := b.Device()
	z, g := dev.Alloc(1, y.N()), dev.Alloc(1, b.N())
	defer z.Free()
	defer g.Free()
	p.A.Forward(z, b)
	dev.Lin(z, 1, z, -1, y)
	p.A.Adjoint(g, z)
	dev.Lin(g, 1, b, -0.5, g)
	if err := p.R.Eval(g, g, 0.5); err != nil {
		t.Fatal(err)
	}
	return distance(b, g) / 0.5
}

// A cancelled context ends the solve.
func TestRobustPCAStops(t *testing.T) {
	dev := array.NewHost()
	p, values := robust(dev, 280, 66, 15, 1.5, false)
	y := dev.Alloc(1, len(values))
	defer y.Free()
	dev.Upload(y, values)
	ctx, cancel := context.WithCancel(context.Background())
	s, err := solve.New(ctx, "fista", p, solve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	cancel()
	if _, err := s.Solve(ctx, y, solve.From{}); err == nil {
		t.Error("no error")
	}
}
