package vjp_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// A solver reweighted is the solver made anew, to the last bit, and leaves the first as
// it was.
func TestReweightIsTheSolverMadeAnew(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		ctx := context.Background()
		rng := rand.New(rand.NewPCG(5, 6))
		// 300 columns are enough for working sets.
		const d, p = 60, 300
		x := make([]float64, d*p)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		for _, c := range []struct {
			solver string
			r      func(weight float64) prox.Prox
		}{
			{"direct", func(w float64) prox.Prox { return prox.NewSquaredL2(w) }},
			{"ista", func(w float64) prox.Prox { return prox.NewSquaredL2(w) }},
			{"fista", func(w float64) prox.Prox { return prox.NewL1(w) }},
			{"admm", func(w float64) prox.Prox { return prox.NewL1(w) }},
		} {
			a := linops.NewDense(dev, mat.NewDense(d, p, x))
			y := dev.Alloc(1, d)
			dev.Upload(y, x[:d])
			mu := func(s vjp.Solver) []float64 {
				sol, err := s.Solve(ctx, y)
				if err != nil {
					t.Fatal(err)
				}
				defer sol.Release()
				return sol.MuHat.ToHost()
			}
			made := func(w float64) vjp.Solver {
				s, err := vjp.NewSolver(ctx, c.solver, vjp.Problem{A: a, R: c.r(w), Device: dev},
					vjp.Options{Tol: 1e-6})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			first, anew := made(9), made(4)
			before := mu(first)
			held := dev.Stats().LiveBytes
			other, err := first.Reweight(ctx, c.r(4))
			if err != nil {
				t.Fatal(err)
			}
			got := mu(other)
			if !slices.Equal(got, mu(anew)) || other.Name() != c.solver {
				t.Errorf("%s: the solution differs from that of a solver made anew", c.solver)
			}
			again, err := other.Reweight(ctx, c.r(9))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(mu(again), before) || !slices.Equal(mu(first), before) {
				t.Errorf("%s: the weights did not change back", c.solver)
			}
			again.Release()
			other.Release()
			if c.solver == "direct" && dev.Stats().LiveBytes != held {
				t.Errorf("%s: %d bytes are held, %d before", c.solver, dev.Stats().LiveBytes, held)
			}
			if !slices.Equal(mu(first), before) {
				t.Errorf("%s: the release of another took something away", c.solver)
			}
			for _, s := range []vjp.Solver{first, anew} {
				s.Release()
			}
			a.Release()
			y.Free()
			if b := dev.Stats().LiveBytes; b != 0 {
				t.Errorf("%s: %d bytes are left", c.solver, b)
			}
		}
		a := linops.NewDense(dev, mat.NewDense(2, 2, x[:4]))
		defer a.Release()
		s, err := vjp.NewSolver(ctx, "direct", vjp.Problem{A: a, R: prox.NewSquaredL2(1), Device: dev}, vjp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		if _, err := s.Reweight(ctx, prox.NewL1(1)); err == nil || !strings.Contains(err.Error(), "quadratic") {
			t.Errorf("error %v", err)
		}
	})
}

// A solver of a regularizer that allows for no other units chooses them anew for one that does.
func TestReweightChoosesUnitsAnew(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	rng := rand.New(rand.NewPCG(7, 8))
	const d, p = 20, 6
	x := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))
	x.Apply(func(_, j int, v float64) float64 { return v * math.Pow(100, float64(j%3)) }, x)
	a := linops.NewDense(dev, x)
	defer a.Release()
	unknown := prox.NewFunc(p, func(dst, v []float64, t float64) error {
		for j, x := range v {
			dst[j] = math.Copysign(max(math.Abs(x)-t, 0), x)
		}
		return nil
	}, nil, nil)
	base := newSolver(t, "fista", vjp.Problem{A: a, R: unknown, Device: dev}, vjp.Options{})
	again, err := base.Reweight(context.Background(), prox.NewL1(1))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Release()
	y := scaled(3, solvetest.Gaussian(rng, d))
	got := solved(t, again, dev, y)
	defer got.Release()
	want := solved(t, newSolver(t, "fista", vjp.Problem{A: a, R: prox.NewL1(1), Device: dev}, vjp.Options{}), dev, y)
	defer want.Release()
	if !got.Converged || got.Iterations != want.Iterations || fmt.Sprint(got.Choices) != fmt.Sprint(want.Choices) {
		t.Errorf("%d iterations, converged %t, by %v; a new solver takes %d, by %v", got.Iterations, got.Converged,
			got.Choices, want.Iterations, want.Choices)
	}
}
