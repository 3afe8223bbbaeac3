package solve_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/solve"
	"surepipe/solve/gradient"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
	"surepipe/solve/splitting"
)

// outside is a method under a name that no table has.
type outside struct{ solve.Method }

func (outside) Name() string { return "outside" }

// unrecorded is one whose steps have no derivative: another method's are recorded.
type unrecorded struct{ solve.Method }

func (m unrecorded) Traits() solve.Traits {
	t := m.Method.Traits()
	t.Recorded = func(ctx context.Context, o solve.Options) (solve.Method, error) {
		return splitting.ADMM.New(ctx, m.Problem(), o)
	}
	return t
}

// A method that is in no table has what those of the table have: iterates in factored form, working sets, and
// another method that is recorded in its place.
func TestOutsideMethodIsAFullCitizen(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	rng := rand.New(rand.NewPCG(5, 6))
	mine := gradient.FISTA
	mine.Name, mine.New = "outside", func(ctx context.Context, p solve.Problem, o solve.Options) (solve.Method, error) {
		m, err := gradient.NewFISTA(ctx, p, o)
		return outside{m}, err
	}
	open := func(e solve.Entry, p solve.Problem) solve.Solver {
		s, err := solve.NewFrom(t.Context(), e, p, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Release)
		return s
	}

	solvetest.FactorAll(t)
	c := solvetest.CompletionCases[10]
	a, y := solvetest.Completion(t, dev, c.Shape, c.D)
	p := solve.Problem{A: a, R: lowrank.NewNuclear(c.Shape, c.Lambda), Device: dev}
	want := roomtest.At(t, roomtest.NewSolver(t, "fista", p, solve.Options{}), roomtest.On(t, dev, y))
	got := roomtest.At(t, open(mine, p), roomtest.On(t, dev, y))
	roomtest.CheckChoice(t, got, "method", "iterates in factored form")
	if !slices.Equal(got.B.ToHost(), want.B.ToHost()) || got.Iterations != want.Iterations {
		t.Errorf("%d iterations to another solution than that of fista in %d", got.Iterations, want.Iterations)
	}

	const d, dim = 40, 300
	lasso := solve.Problem{A: roomtest.Dense(t, dev, d, dim, solvetest.Gaussian(rng, d*dim)), R: prox.NewL1(4),
		Device: dev}
	roomtest.CheckChoice(t, roomtest.At(t, open(mine, lasso), roomtest.On(t, dev, solvetest.Gaussian(rng, d))),
		"method", "a working set")

	mine.Sparse = false
	mine.New = func(ctx context.Context, p solve.Problem, o solve.Options) (solve.Method, error) {
		m, err := gradient.NewFISTA(ctx, p, o)
		return unrecorded{m}, err
	}
	name := ""
	tape := func(m solve.Method, _ array.Batch) solve.Tape {
		name = m.Name()
		return nil
	}
	sol, err := open(mine, lasso).Record(t.Context(), roomtest.On(t, dev, solvetest.Gaussian(rng, d)), tape)
	if err != nil {
		t.Fatal(err)
	}
	sol.Release()
	if name != splitting.ADMM.Name {
		t.Errorf("the iterations of %s are recorded, expected those of %s", name, splitting.ADMM.Name)
	}
}
