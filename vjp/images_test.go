package vjp_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// With Options.Images the factors take over the solver's Gram matrix: traces, diagonal and images are
// the same up to rounding errors, also when the solver has gone on to another y.
func TestFactorsTakeOverTheGramMatrix(t *testing.T) {
	dev := array.NewHost()
	const d, p = 40, 60
	rng := rand.New(rand.NewPCG(7, 8))
	a := linops.NewDense(dev, mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)))
	defer a.Release()
	ys, probe := solvetest.Gaussian(rng, 2*d), solvetest.Gaussian(rng, 2*d)
	var results [2][]float64
	for i, images := range []bool{false, true} {
		s, err := vjp.NewSolver(t.Context(), "active-set", vjp.Problem{A: a, R: prox.NewL1(5), Device: dev},
			vjp.Options{Images: images})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		var solutions []*vjp.Solution
		for k := range 2 {
			y := dev.Alloc(1, d)
			dev.Upload(y, ys[k*d:(k+1)*d])
			sol, err := s.Solve(t.Context(), y)
			y.Free()
			if err != nil {
				t.Fatal(err)
			}
			defer sol.Release()
			solutions = append(solutions, sol)
		}
		if !slices.ContainsFunc(solutions[0].Choices,
			func(c vjp.Choice) bool { return c.Chosen == "factored by the solver" }) {
			t.Fatalf("choices %v", solutions[0].Choices)
		}
		l := solutions[0].Linearization
		c := l.Closed()
		v, image := dev.Alloc(2, d), dev.Alloc(2, d)
		defer v.Free()
		defer image.Free()
		dev.Upload(v, probe)
		if err := l.VJP(t.Context(), image, v); err != nil {
			t.Fatal(err)
		}
		diagonal, err := c.Diagonal()
		if err != nil {
			t.Fatal(err)
		}
		results[i] = append(append(image.ToHost(), diagonal...), c.Trace, c.Frobenius2)
		if c.DiagonalFlops <= 0 {
			t.Errorf("the diagonal takes %g operations", c.DiagonalFlops)
		}
	}
	if off := floats.Distance(results[0], results[1], 2); off > 1e-10*floats.Norm(results[0], 2) {
		t.Errorf("the images and the diagonal differ by %g", off)
	}
}
