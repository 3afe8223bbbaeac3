package active_test

import (
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
)

// The diagonal of sparse columns, with their means and without, is that of the images of unit vectors.
func TestDiagonalOfSparseColumns(t *testing.T) {
	const d, p = 500, 400
	rng := rand.New(rand.NewPCG(1, 5))
	var indptr, indices []int
	var values []float64
	y := make([]float64, d)
	for i := range d {
		indptr = append(indptr, len(indices))
		for j := range p {
			if rng.IntN(50) == 0 {
				indices, values = append(indices, j), append(values, 1+rng.ExpFloat64())
				y[i] += values[len(values)-1] * float64(j%3)
			}
		}
		y[i] += rng.NormFloat64()
	}
	dev := array.NewHost()
	sparse, err := linops.NewCSR(dev, d, p, append(indptr, len(indices)), indices, values)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sparse.Release)
	centered := additive.NewCentered(dev, sparse)
	t.Cleanup(centered.Release)
	for _, a := range []linops.Operator{sparse, centered} {
		for _, r := range []prox.Prox{prox.NewL1(0.5), prox.NewElasticNet(2, 0.3)} {
			s := roomtest.NewSolver(t, "active-set", solve.Problem{Device: dev, A: a, R: r},
				solve.Options{Tol: 1e-10, MaxIter: 1000, Point: true})
			sol, err := s.Solve(t.Context(), roomtest.On(t, dev, y), solve.From{Path: new(solve.Path)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(sol.Release)
			set := support(sol.B.ToHost())
			f, ok := sol.At.Factored(set)
			if !ok || len(set) < 130 {
				t.Fatalf("%d coordinates, factored %t", len(set), ok)
			}
			got, image, want := f.Diagonal(), dev.Alloc(1, d), make([]float64, d)
			t.Cleanup(image.Free)
			for i := range want {
				unit := make([]float64, d)
				unit[i] = 1
				if !f.Images(image, roomtest.On(t, dev, unit)) {
					t.Fatal("no images")
				}
				want[i] = image.ToHost()[i]
			}
			roomtest.Near(t, "the diagonal", got, want, 1e-9)
		}
	}
}
