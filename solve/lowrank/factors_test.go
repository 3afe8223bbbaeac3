package lowrank_test

import (
	"context"
	"math"
	"testing"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox/lowrank"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// A completion that is not written down has the factors of the one that is, with orthonormal columns and
// decreasing singular values; a solve that starts at them is there.
func TestCompletionByItsFactors(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		solvetest.FactorAll(t)
		arraytest.NoLeak(t, dev)
		ctx := context.Background()
		for _, i := range []int{0, 1, 6} { // tall, wide, and beyond the largest lambda
			c := solvetest.CompletionCases[i].On(t, dev)
			a, values := solvetest.Completion(t, dev, c.Shape, c.D)
			p := solve.Problem{A: a, R: lowrank.NewNuclear(c.Shape, c.Weight(t, dev, a, values)), Device: dev}
			y := dev.Alloc(1, c.D)
			dev.Upload(y, values)
			solved := func(compact bool, from solve.From) *solve.Solution {
				sol, err := roomtest.NewSolver(t, "fista", p, solve.Options{Compact: compact}).Solve(ctx, y, from)
				if err != nil {
					t.Fatal(err)
				}
				return sol
			}
			written, compact := solved(false, solve.From{}), solved(true, solve.From{})
			if compact.Implied == nil || !compact.B.IsZero() || !compact.MuHat.IsZero() {
				t.Fatalf("%s: the solution is not implied", c.Name)
			}
			f, b, mu := compact.Implied.Factors(), written.B.ToHost(), written.MuHat.ToHost()
			if err := f.Check(); err != nil {
				t.Fatal(err)
			}
			if c.Name == "beyond it" != (f.Rank() == 0) {
				t.Errorf("%s: rank %d", c.Name, f.Rank())
			}
			size := 1e-12 * (1 + floats.Norm(b, 2))
			if !floats.EqualApprox(f.Dense(), b, size) {
				t.Errorf("%s: the product of the factors is not b", c.Name)
			}
			part := make([]float64, len(b)-3)
			compact.Implied.B(part, 2)
			if !floats.EqualApprox(part, b[2:len(b)-1], size) {
				t.Errorf("%s: a part of b differs", c.Name)
			}
			part = part[:c.D-1]
			compact.Implied.MuHat(part, 1)
			if !floats.EqualApprox(part, mu[1:], size) {
				t.Errorf("%s: a part of mu_hat differs", c.Name)
			}
			places := []int{0, 7, len(b) - 1}
			for k, v := range f.Places(places) {
				if math.Abs(v-b[places[k]]) > size {
					t.Errorf("%s: entry %d is %g, want %g", c.Name, places[k], v, b[places[k]])
				}
			}
			checkOrthonormal(t, f.U, f.Rank())
			checkOrthonormal(t, f.V, f.Rank())
			if r := distance(y, written.MuHat); math.Abs(compact.Implied.Residual2-r*r) > 1e-12*r*r {
				t.Errorf("%s: squared residual %g, want %g", c.Name, compact.Implied.Residual2, r*r)
			}
			again := solved(true, solve.From{Factors: f})
			if !again.Converged || again.Iterations > written.Iterations/2+2 {
				t.Errorf("%s: %d iterations from the solution, %d from 0", c.Name, again.Iterations, written.Iterations)
			}
			if !floats.EqualApprox(again.Implied.Factors().Dense(), b, 1e-6*(1+floats.Norm(b, 2))) {
				t.Errorf("%s: from its factors the solution is another one", c.Name)
			}
			for _, s := range []*solve.Solution{written, compact, again} {
				s.Release()
			}
			y.Free()
		}
	})
}

// checkOrthonormal compares the Gram matrix of r columns with the identity.
func checkOrthonormal(t *testing.T, x []float64, r int) {
	t.Helper()
	for i := range r {
		for j := range i + 1 {
			sum := 0.0
			for k := 0; k < len(x); k += r {
				sum += x[k+i] * x[k+j]
			}
			want := 0.0
			if i == j {
				want = 1
			}
			if math.Abs(sum-want) > 1e-9 {
				t.Fatalf("columns %d and %d: inner product %g", i, j, sum)
			}
		}
	}
}

// Where a matrix may not be written down, a solve whose rank is not low, and one that is recorded, end
// with an error; one that runs out of iterations has a tangent space all the same.
func TestCompletionsThatAreNotWrittenDown(t *testing.T) {
	solvetest.FactorAll(t)
	solvetest.WriteNone(t)
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	ctx := context.Background()
	shape := array.Shape{Rows: 150, Cols: 130}
	a, values := solvetest.Completion(t, dev, shape, 6000)
	y := dev.Alloc(1, len(values))
	defer y.Free()
	dev.Upload(y, values)
	at := func(lambda float64, o solve.Options) solve.Solver {
		return roomtest.NewSolver(t, "fista", solve.Problem{A: a, R: lowrank.NewNuclear(shape, lambda), Device: dev}, o)
	}
	if sol, err := at(1e-3, solve.Options{}).Solve(ctx, y, solve.From{}); err == nil {
		sol.Release()
		t.Error("no error for a solution of full rank")
	}
	if _, err := at(6, solve.Options{}).Record(ctx, y, nil); err == nil {
		t.Error("no error for a tape")
	}
	for iterations, near := range map[int]bool{3: false, 12: true} {
		sol, err := at(6, solve.Options{MaxIter: iterations, Point: true, Compact: true}).Solve(ctx, y, solve.From{})
		if !near {
			if err == nil {
				sol.Release()
				t.Errorf("no error after %d iterations", iterations)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if sol.Converged || sol.Implied == nil || sol.At.Tangent == nil {
			t.Errorf("after %d iterations: converged %v, implied %v, tangent %v", iterations, sol.Converged,
				sol.Implied, sol.At.Tangent)
		}
		sol.Release()
	}
}
