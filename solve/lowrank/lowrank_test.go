package lowrank_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// checkOptimality compares the optimality with a lower bound of the distance of 0 from
// the subdifferential that it bounds: the length of a proximal gradient step of length
// 1.
func checkOptimality(t *testing.T, dev array.Device, a linops.Operator, r prox.Prox, y []float64, sol *solve.Solution) {
	t.Helper()
	d, p := a.Dims()
	v, z := dev.Alloc(1, p), dev.Alloc(1, d)
	defer v.Free()
	defer z.Free()
	dev.Upload(z, y)
	a.Adjoint(v, z)
	scale := math.Sqrt(dotOf(dev, v))
	dev.Lin(z, 1, z, -1, sol.MuHat)
	a.Adjoint(v, z)
	dev.Lin(v, 1, sol.B, 1, v)
	if err := r.Eval(v, v, 1); err != nil {
		t.Fatal(err)
	}
	dev.Lin(v, 1, v, -1, sol.B)
	if least := math.Sqrt(dotOf(dev, v)) / scale; least > sol.Optimality+1e-12 {
		t.Errorf("optimality %.3g, but a proximal gradient step has length %.3g", sol.Optimality, least)
	}
}

func dotOf(dev array.Device, x array.Batch) float64 {
	var out [1]float64
	dev.Dot(out[:], x, x)
	return out[0]
}

// Starting at an estimate of low rank, of full rank or at 0 leads to the same solution.
func TestFactoredIterationsStartWhereTold(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		solvetest.FactorAll(t)
		arraytest.NoLeak(t, dev)
		c := solvetest.CompletionCases[1].On(t, dev)
		a, y := solvetest.Completion(t, dev, c.Shape, c.D)
		p := solve.Problem{A: a, R: lowrank.NewNuclear(c.Shape, c.Lambda), Device: dev}
		cold := roomtest.Converged(t, roomtest.NewSolver(t, "fista", p, solve.Options{}), dev, y)
		defer cold.Release()
		nearby := p
		nearby.R = lowrank.NewNuclear(c.Shape, 1.01*c.Lambda)
		before := roomtest.Converged(t, roomtest.NewSolver(t, "fista", nearby, solve.Options{}), dev, y)
		defer before.Release()
		s := roomtest.NewSolver(t, "fista", p, solve.Options{})
		on, b0 := dev.Alloc(1, len(y)), dev.Alloc(1, c.Shape.Len())
		defer on.Free()
		defer b0.Free()
		dev.Upload(on, y)
		for _, name := range []string{"nearby", "zero", "full rank"} {
			t.Run(name, func(t *testing.T) {
				switch name {
				case "nearby":
					dev.Copy(b0, before.B)
				case "zero":
					dev.Fill(b0, 0)
				default:
					dev.Upload(b0, solvetest.Gaussian(rand.New(rand.NewPCG(5, 6)), c.Shape.Len()))
				}
				warm, err := s.Solve(context.Background(), on, solve.From{B: b0})
				if err != nil {
					t.Fatal(err)
				}
				defer warm.Release()
				roomtest.Near(t, "b", warm.B.ToHost(), cold.B.ToHost(), 1e-5)
				if !warm.Converged || name == "nearby" && warm.Iterations >= cold.Iterations {
					t.Errorf("%d iterations, %d from zero; converged: %v", warm.Iterations, cold.Iterations,
						warm.Converged)
				}
			})
		}
	})
}

// y = 0 and y far out of the range of squares have their solutions, and a y that is not
// finite has none.
func TestFactoredIterationsAtTheEndsOfTheRange(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		solvetest.FactorAll(t)
		arraytest.NoLeak(t, dev)
		shape := array.Shape{Rows: 140, Cols: 130}
		a, y := solvetest.Completion(t, dev, shape, 900)
		for _, size := range []float64{0, 1e-150, 1e-100, 1e100, 1e150} {
			t.Run(fmt.Sprint(size), func(t *testing.T) {
				lambda := 15 * size
				if size == 0 {
					lambda = 1
				}
				s := roomtest.NewSolver(t, "fista", solve.Problem{A: a, R: lowrank.NewNuclear(shape, lambda),
					Device: dev}, solve.Options{})
				sol := roomtest.Converged(t, s, dev, roomtest.Scaled(size, append([]float64(nil), y...)))
				defer sol.Release()
				if size == 0 {
					roomtest.Near(t, "mu_hat", sol.MuHat.ToHost(), make([]float64, len(y)), 0)
					return
				}
				unit := roomtest.Converged(t, roomtest.NewSolver(t, "fista",
					solve.Problem{A: roomtest.Plain{Operator: a}, R: lowrank.NewNuclear(shape, 15), Device: dev},
					solve.Options{}), dev, y)
				defer unit.Release()
				roomtest.Near(t, "mu_hat", roomtest.Scaled(1/size, sol.MuHat.ToHost()), unit.MuHat.ToHost(), 1e-6)
			})
		}
		s := roomtest.NewSolver(t, "fista", solve.Problem{A: a, R: lowrank.NewNuclear(shape, 1), Device: dev},
			solve.Options{})
		on := dev.Alloc(1, len(y))
		defer on.Free()
		y[3] = math.NaN()
		dev.Upload(on, y)
		if _, err := s.Solve(context.Background(), on, solve.From{}); err == nil {
			t.Error("a NaN in y went unnoticed")
		}
	})
}

// The bits of a solution depend on nothing but the problem.
func TestFactoredIterationsRepeat(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		solvetest.FactorAll(t)
		c := solvetest.CompletionCases[0].On(t, dev)
		a, y := solvetest.Completion(t, dev, c.Shape, c.D)
		s := roomtest.NewSolver(t, "fista", solve.Problem{A: a, R: lowrank.NewNuclear(c.Shape, c.Lambda),
			Device: dev}, solve.Options{})
		results := make([][]float64, 3)
		var wg sync.WaitGroup
		for i := range results {
			wg.Go(func() {
				on := dev.Alloc(1, len(y))
				defer on.Free()
				dev.Upload(on, y)
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
				t.Error("solves at the same time differ")
			}
		}
	})
}

// The certificate by products lets the same solutions pass, with an optimality that is
// what it says.
func TestCertificateByProducts(t *testing.T) {
	solvetest.FactorAll(t)
	for _, c := range solvetest.CompletionCases {
		t.Run(c.Name, func(t *testing.T) {
			dev := array.NewHost()
			arraytest.NoLeak(t, dev)
			a, y := solvetest.Completion(t, dev, c.Shape, c.D)
			floats.AddConst(c.Offset, y)
			r := lowrank.NewNuclear(c.Shape, c.Weight(t, dev, a, y))
			o := solve.Options{Tol: 1e-9}
			want := roomtest.Converged(t, roomtest.NewSolver(t, c.Solver, solve.Problem{A: a, R: r, Device: dev}, o),
				dev, y)
			defer want.Release()
			solvetest.CertifyByProducts(t)
			got := roomtest.Converged(t, roomtest.NewSolver(t, c.Solver, solve.Problem{A: a, R: r, Device: dev}, o),
				dev, y)
			defer got.Release()
			checkOptimality(t, dev, a, r, y, got)
			size := floats.Norm(y, 2)
			if e := floats.Distance(got.B.ToHost(), want.B.ToHost(), 2); !got.Converged || !(e <= 1e-7*size) {
				t.Errorf("converged %v, b is off by %.3g, y of size %.3g", got.Converged, e, size)
			}
			if got.Iterations > want.Iterations+want.Iterations/2+10 {
				t.Errorf("%d iterations, %d with a Gram matrix", got.Iterations, want.Iterations)
			}
			// A value in the block that is not known yet is not certified.
			o.MaxIter = 2
			z := dev.Alloc(1, c.D)
			defer z.Free()
			dev.Upload(z, y)
			early, err := roomtest.NewSolver(t, c.Solver, solve.Problem{A: a, R: r, Device: dev},
				o).Solve(context.Background(), z, solve.From{})
			if err != nil {
				t.Fatal(err)
			}
			defer early.Release()
			if early.Converged && want.Iterations > 3 {
				t.Errorf("converged after %d iterations", early.Iterations)
			}
		})
	}
}
