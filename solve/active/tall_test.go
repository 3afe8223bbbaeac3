package active_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// With the Gram matrix of all columns a path has the solutions that products with A give, for every regularizer, units
// of columns and weights of rows, and so are the derivatives by its factor.
func TestGramMatrixOfAllColumns(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		const d, p = 300, 21
		rng := rand.New(rand.NewPCG(3, 9))
		y, w := solvetest.Gaussian(rng, d), make([]float64, d)
		for i := range w {
			w[i] = 0.5 + rng.Float64()
		}
		whitened, err := loss.WeightedSquared(dev, w)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(whitened.Release)
		on, probes := roomtest.On(t, dev, y), roomtest.On(t, dev, solvetest.Gaussian(rng, d))
		for design, x := range roomtest.Designs(rng, d, p) {
			if design == "copies" || design == "low rank" {
				continue // b is not unique
			}
			a := roomtest.Dense(t, dev, d, p, x.RawMatrix().Data)
			groups, err := prox.NewGroupL2(dev, p, 4, [][]int{{0, 1, 2}, {3, 4}, {5, 6, 7, 8}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { prox.Release(groups) })
			all := penalties(t, dev, x, y, 0.2)
			all["groups"] = groups
			delete(all, "ridge") // in closed form
			for name, r := range all {
				for _, weighted := range []bool{false, true} {
					problem := solve.Problem{A: a, R: r, Device: dev}
					if weighted {
						problem.Loss = whitened
					}
					what := fmt.Sprintf("%s, %s, weights %t", design, name, weighted)
					base := roomtest.NewSolver(t, "active-set", problem, solve.Options{Point: true})
					problem.A = bare{a}
					plain := roomtest.NewSolver(t, "active-set", problem, solve.Options{Point: true})
					path := [2]*solve.Path{new(solve.Path), new(solve.Path)}
					for _, share := range []float64{1, 0.5, 0.1, 0.01} {
						compareTall(t, what, base, plain, prox.NewScaled(share, r), on, probes, path)
					}
					path[0].Release()
					path[1].Release()
				}
			}
		}
	})
}

func compareTall(t *testing.T, what string, base, plain solve.Solver, r prox.Prox, y, v array.Batch, path [2]*solve.Path) {
	var sols [2]*solve.Solution
	for k, s := range []solve.Solver{base, plain} {
		other, err := s.Reweight(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Release()
		if sols[k], err = other.Solve(t.Context(), y, solve.From{Path: path[k]}); err != nil {
			t.Fatal(err)
		}
		defer sols[k].Release()
		if !sols[k].Converged {
			t.Errorf("%s: %+v", what, sols[k].Convergence)
		}
	}
	got, want := sols[0], sols[1]
	roomtest.CheckChoice(t, got, "method", "active sets, with the Gram matrix of all columns")
	roomtest.Near(t, what, got.MuHat.ToHost(), want.MuHat.ToHost(), 1e-8)
	at := got.At
	if at.Method != nil {
		return // another method has gone on from there
	}
	g := y.Device().Alloc(1, got.B.N())
	defer g.Free()
	at.Problem.A.Adjoint(g, at.Misfit)
	if e := floats.Distance(g.ToHost(), at.Gradient.ToHost(), 2); e > 1e-11*at.Norm2 {
		t.Errorf("%s: the gradient is off by %g", what, e)
	}
	set := support(at.B.ToHost())
	f, ok := at.Factored(set)
	if !ok || len(set) == 0 {
		return
	}
	image := y.Device().Alloc(1, y.N())
	defer image.Free()
	if !f.Images(image, v) {
		t.Errorf("%s: no images", what)
	}
	other, ok := want.At.Factored(set)
	if !ok {
		return
	}
	expected := y.Device().Alloc(1, y.N())
	defer expected.Free()
	if other.Images(expected, v) {
		roomtest.Near(t, what+", images", image.ToHost(), expected.ToHost(), 1e-6)
	}
	if e := floats.Sum(f.Diagonal()) - f.Trace; e*e > 1e-14*f.Trace*f.Trace {
		t.Errorf("%s: the diagonal's sum is off by %g", what, e)
	}
}

func support(b []float64) (set []int) {
	for j, v := range b {
		if v != 0 {
			set = append(set, j)
		}
	}
	return set
}
