package solve_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/solvetest"
)

// plain hides everything but the two directions of an operator.
type plain struct{ linops.Operator }

// converged is the solution at y, which the caller releases.
func converged(t *testing.T, s solve.Solver, dev array.Device, y []float64) *solve.Solution {
	t.Helper()
	b := dev.Alloc(1, len(y))
	defer b.Free()
	dev.Upload(b, y)
	sol, err := s.Solve(context.Background(), b, array.Batch{})
	if err != nil {
		t.Fatal(err)
	}
	if !sol.Converged {
		t.Fatalf("not converged: %+v", sol.Convergence)
	}
	return sol
}

// completion is a noisy sample of a matrix of rank 4.
func completion(t *testing.T, dev array.Device, shape array.Shape, d int) (*linops.Selection, []float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(shape.Rows), uint64(d)))
	const rank = 4
	left, right := mat.NewDense(shape.Rows, rank, gaussian(rng, shape.Rows*rank)), mat.NewDense(rank, shape.Cols, gaussian(rng, rank*shape.Cols))
	var truth mat.Dense
	truth.Mul(left, right)
	idx := rng.Perm(shape.Len())[:d]
	a, err := linops.NewSelection(dev, shape.Len(), idx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Release)
	y := make([]float64, d)
	for i, j := range idx {
		y[i] = truth.RawMatrix().Data[j] + 0.3*rng.NormFloat64()
	}
	return a, y
}

type completionCase struct {
	name   string
	solver string
	shape  array.Shape
	d      int
	lambda float64 // or, negative, minus the multiple of the largest useful one
	offset float64 // of all entries
}

func (c completionCase) weight(t *testing.T, dev array.Device, a linops.Operator, y []float64) float64 {
	t.Helper()
	if c.lambda > 0 {
		return c.lambda
	}
	z, v := dev.Alloc(1, c.d), dev.Alloc(1, c.shape.Len())
	defer z.Free()
	defer v.Free()
	dev.Upload(z, y)
	a.Adjoint(v, z)
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(c.shape.Rows, c.shape.Cols, v.ToHost()), mat.SVDNone) {
		t.Fatal("no singular values")
	}
	return -c.lambda * svd.Values(nil)[0]
}

// on is the case itself, or one of half the size where the card is emulated; a whole matrix
// takes few steps at any size.
func (c completionCase) on(t *testing.T, dev array.Device) completionCase {
	t.Helper()
	if arraytest.Emulated(t, dev) && c.d < c.shape.Len() {
		c.shape = array.Shape{Rows: c.shape.Rows / 2, Cols: c.shape.Cols / 2}
		c.d = max(c.d/4, min(c.d, 5))
		if c.lambda > 0 {
			c.lambda /= 2
		}
	}
	return c
}

var completionCases = []completionCase{
	{"tall", "fista", array.Shape{Rows: 170, Cols: 130}, 6000, 6, 0},
	{"wide", "fista", array.Shape{Rows: 128, Cols: 190}, 6000, 6, 0},
	{"ista", "ista", array.Shape{Rows: 150, Cols: 130}, 9000, 12, 0},
	{"rank grows and shrinks", "fista", array.Shape{Rows: 150, Cols: 150}, 8000, 4, 0},
	{"high rank", "fista", array.Shape{Rows: 90, Cols: 80}, 3000, 1, 0},
	{"near the largest lambda", "fista", array.Shape{Rows: 150, Cols: 130}, 5000, -0.999, 0},
	{"beyond it", "fista", array.Shape{Rows: 150, Cols: 130}, 5000, -1.01, 0},
	{"all entries", "fista", array.Shape{Rows: 150, Cols: 130}, 150 * 130, 9, 0},
	{"five entries", "fista", array.Shape{Rows: 150, Cols: 130}, 5, 0.1, 0},
	{"one large value", "fista", array.Shape{Rows: 80, Cols: 70}, 3000, 8, 300},
}

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
		c := completionCases[1].on(t, dev)
		a, y := completion(t, dev, c.shape, c.d)
		p := solve.Problem{A: a, R: prox.NewNuclear(c.shape, c.lambda), Device: dev}
		cold := converged(t, newSolver(t, "fista", p, solve.Options{}), dev, y)
		defer cold.Release()
		nearby := p
		nearby.R = prox.NewNuclear(c.shape, 1.01*c.lambda)
		before := converged(t, newSolver(t, "fista", nearby, solve.Options{}), dev, y)
		defer before.Release()
		s := newSolver(t, "fista", p, solve.Options{})
		on, b0 := dev.Alloc(1, len(y)), dev.Alloc(1, c.shape.Len())
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
					dev.Upload(b0, gaussian(rand.New(rand.NewPCG(5, 6)), c.shape.Len()))
				}
				warm, err := s.Solve(context.Background(), on, b0)
				if err != nil {
					t.Fatal(err)
				}
				defer warm.Release()
				near(t, "b", warm.B.ToHost(), cold.B.ToHost(), 1e-5)
				if !warm.Converged || name == "nearby" && warm.Iterations >= cold.Iterations {
					t.Errorf("%d iterations, %d from zero; converged: %v", warm.Iterations, cold.Iterations, warm.Converged)
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
		a, y := completion(t, dev, shape, 900)
		for _, size := range []float64{0, 1e-150, 1e-100, 1e100, 1e150} {
			t.Run(fmt.Sprint(size), func(t *testing.T) {
				lambda := 15 * size
				if size == 0 {
					lambda = 1
				}
				s := newSolver(t, "fista", solve.Problem{A: a, R: prox.NewNuclear(shape, lambda), Device: dev}, solve.Options{})
				sol := converged(t, s, dev, scaled(size, append([]float64(nil), y...)))
				defer sol.Release()
				if size == 0 {
					near(t, "mu_hat", sol.MuHat.ToHost(), make([]float64, len(y)), 0)
					return
				}
				unit := converged(t, newSolver(t, "fista", solve.Problem{A: plain{a}, R: prox.NewNuclear(shape, 15), Device: dev}, solve.Options{}), dev, y)
				defer unit.Release()
				near(t, "mu_hat", scaled(1/size, sol.MuHat.ToHost()), unit.MuHat.ToHost(), 1e-6)
			})
		}
		s := newSolver(t, "fista", solve.Problem{A: a, R: prox.NewNuclear(shape, 1), Device: dev}, solve.Options{})
		on := dev.Alloc(1, len(y))
		defer on.Free()
		y[3] = math.NaN()
		dev.Upload(on, y)
		if _, err := s.Solve(context.Background(), on, array.Batch{}); err == nil {
			t.Error("a NaN in y went unnoticed")
		}
	})
}

// The bits of a solution depend on nothing but the problem.
func TestFactoredIterationsRepeat(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		solvetest.FactorAll(t)
		c := completionCases[0].on(t, dev)
		a, y := completion(t, dev, c.shape, c.d)
		s := newSolver(t, "fista", solve.Problem{A: a, R: prox.NewNuclear(c.shape, c.lambda), Device: dev}, solve.Options{})
		results := make([][]float64, 3)
		var wg sync.WaitGroup
		for i := range results {
			wg.Go(func() {
				on := dev.Alloc(1, len(y))
				defer on.Free()
				dev.Upload(on, y)
				sol, err := s.Solve(context.Background(), on, array.Batch{})
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
	for _, c := range completionCases {
		t.Run(c.name, func(t *testing.T) {
			dev := array.NewHost()
			arraytest.NoLeak(t, dev)
			a, y := completion(t, dev, c.shape, c.d)
			floats.AddConst(c.offset, y)
			r := prox.NewNuclear(c.shape, c.weight(t, dev, a, y))
			o := solve.Options{Tol: 1e-9}
			want := converged(t, newSolver(t, c.solver, solve.Problem{A: a, R: r, Device: dev}, o), dev, y)
			defer want.Release()
			solvetest.CertifyByProducts(t)
			got := converged(t, newSolver(t, c.solver, solve.Problem{A: a, R: r, Device: dev}, o), dev, y)
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
			z := dev.Alloc(1, c.d)
			defer z.Free()
			dev.Upload(z, y)
			early, err := newSolver(t, c.solver, solve.Problem{A: a, R: r, Device: dev}, o).Solve(context.Background(), z, array.Batch{})
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
