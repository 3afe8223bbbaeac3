package verify

import (
	"context"
	"testing"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/vjp"
)

// Where the iterations are spent no differences are taken: the sum of the diagonal is compared, the
// derivative by the weight is not.
func TestNothingIsSolvedBeyondTheBudget(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	const d = MaxUnits + 6
	problem := vjp.Problem{A: linops.Identity(d), R: prox.NewL1(1), Device: dev}
	s, err := vjp.NewSolver(context.Background(), "ista", problem, vjp.Options{Derivative: vjp.None})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	y := dev.Alloc(1, d)
	defer y.Free()
	dev.Fill(y, 3)
	sol, err := s.Solve(context.Background(), y)
	if err != nil {
		t.Fatal(err)
	}
	defer sol.Release()
	for _, spent := range []bool{false, true} {
		diagonal := make([]float64, d)
		for i := range d {
			diagonal[i] = 1
		}
		c := &check{
			Options: Options{Problem: problem}, ctx: context.Background(), dev: dev, d: d, v: &Verification{},
			Result: Result{
				Solver: s, Y: y, B: sol.B, MuHat: sol.MuHat, Sigma2: 1, StdErr: 1, Trace: hutch.Known(d, d, 0),
				Closed: vjp.Closed{Known: true, Diagonal: func() ([]float64, error) { return diagonal, nil }},
			},
			yNorm: norm(y), muNorm: norm(sol.MuHat), resid: distance(y, sol.MuHat), sure: surePart,
			budget: 1000, first: witness{solver: s, base: sol.B, mu: sol.MuHat},
		}
		if spent {
			c.iterations = c.budget
		}
		before := c.iterations
		if err := c.diagonal(); err != nil {
			t.Fatal(err)
		}
		if solved := c.iterations > before; solved == spent {
			t.Errorf("spent %t: %d iterations", spent, c.iterations-before)
		}
		if len(c.v.Comparisons) != 1 || c.v.Comparisons[0].Name != Diagonal || !c.v.Passed() {
			t.Errorf("spent %t: %+v, expected one comparison", spent, c.v.Comparisons)
		}
	}
}
