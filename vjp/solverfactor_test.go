package vjp_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// Along a path of weights, for the squared loss and for others, the solver's own factors show the
// images, the trace and the diagonal of the derivative at every solution, as factors made anew do.
func TestSolversFactorsAlongPaths(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	const d, p, probes = 150, 200, 5
	rng := rand.New(rand.NewPCG(3, 14))
	dense := linops.NewDense(dev, mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)))
	defer dense.Release()
	indptr, indices := []int{0}, []int(nil)
	for i := range d {
		for j := i % 2; j < p; j += 2 {
			indices = append(indices, j)
		}
		indptr = append(indptr, len(indices))
	}
	sparse, err := linops.NewCSR(dev, d, p, indptr, indices, solvetest.Gaussian(rng, len(indices)))
	if err != nil {
		t.Fatal(err)
	}
	defer sparse.Release()
	logistic, _ := loss.Logistic(nil)
	poisson, _ := loss.Poisson(nil)
	huber, _ := loss.Huber(3, nil)
	for name, c := range map[string]struct {
		a       linops.Operator
		l       loss.Loss
		largest float64
		least   int // weights at which the solver's factors must serve
	}{"squared": {dense, nil, 20, 11}, "logistic": {dense, logistic, 15, 11}, "poisson": {dense, poisson, 25, 11},
		"huber": {dense, huber, 20, 0}, "sparse": {sparse, logistic, 10, 11}, "sparse squared": {sparse, nil, 15, 11}} {
		y := solvetest.Gaussian(rng, d)
		for i := range y {
			switch name {
			case "logistic", "sparse":
				y[i] = math.Round(1 / (1 + math.Exp(-y[i])))
			case "poisson":
				y[i] = math.Floor(3 * math.Abs(y[i]))
			}
		}
		on := dev.Put(y, 1, d)
		probe, image, other := dev.Put(solvetest.Gaussian(rng, probes*d), probes, d), dev.Alloc(probes, d),
			dev.Alloc(probes, d)
		groups := make([][]int, p/4)
		for j := range p {
			groups[j%len(groups)] = append(groups[j%len(groups)], j)
		}
		penalty := func(ridge, w float64) prox.Prox {
			if ridge >= 0 {
				return prox.NewElasticNet(w, ridge)
			}
			r, err := prox.NewGroupL2(dev, p, 2*w, groups, nil)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		for _, ridge := range []float64{0, 2, -1} { // -1 stands for groups
			first := penalty(ridge, c.largest)
			base, err := vjp.NewSolver(t.Context(), "active-set", vjp.Problem{A: c.a, Loss: c.l, R: first, Device: dev},
				vjp.Options{Images: true})
			if err != nil {
				t.Fatal(err)
			}
			served := 0
			var path solve.Path
			for k := range 12 {
				r := penalty(ridge, c.largest*math.Pow(0.8, float64(k)))
				s, err := base.Reweight(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				sol, err := s.SolveFrom(t.Context(), on, vjp.From{Path: &path})
				if err != nil {
					t.Fatal(err)
				}
				if !sol.Converged {
					t.Errorf("%s: %+v", name, sol.Convergence)
				}
				closed := sol.Linearization.Closed()
				if slices.ContainsFunc(sol.Choices,
					func(c vjp.Choice) bool { return c.Chosen == "factored by the solver" }) {
					served++
					if !closed.Images(image, probe) {
						t.Errorf("%s, weight %d: the factors have gone", name, k)
					}
					if err := sol.Linearization.VJP(t.Context(), other, probe); err != nil {
						t.Fatal(err)
					}
					diagonal, err := closed.Diagonal()
					if err != nil {
						t.Fatal(err)
					}
					sum := 0.0
					for _, h := range diagonal {
						sum += h
					}
					close := func(what string, got, want []float64) {
						// The curvature of groups follows the point, which other losses know to their tolerance.
						tol := 1e-8
						if ridge < 0 && c.l != nil {
							tol = 1e-6
						}
						if off := floats.Distance(got, want, 2); !(off <= tol*floats.Norm(want, 2)) {
							t.Errorf("%s, ridge %g, weight %d: %s differ by %g of %g", name, ridge, k, what, off,
								floats.Norm(want, 2))
						}
					}
					close("images", image.ToHost(), other.ToHost())
					close("leverages", closed.Leverages(), diagonal)
					close("traces", []float64{closed.Trace}, []float64{sum})
				}
				sol.Release()
				s.Release()
				prox.Release(r)
			}
			path.Release()
			base.Release()
			prox.Release(first)
			if served < c.least && ridge >= 0 || served < c.least-2 { // groups join the model later
				t.Errorf("%s: the solver's factors served %d times", name, served)
			}
		}
		for _, b := range []array.Batch{probe, image, other} {
			b.Free()
		}
		on.Free()
	}
}
