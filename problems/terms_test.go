package problems_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/problems"
	"surepipe/prox"
	solving "surepipe/solve"
	"surepipe/vjp"
)

// gaussians are n random numbers around a mean.
func gaussians(rng *rand.Rand, n int, mean func(i int) float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
		if mean != nil {
			x[i] += mean(i)
		}
	}
	return x
}

// muHatOf solves a problem.
func muHatOf(t *testing.T, p vjp.Problem, y []float64, o vjp.Options) (mu []float64, trace float64) {
	t.Helper()
	s, err := vjp.NewSolver(t.Context(), solving.Default(p), p, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	on := p.Device.Put(y, 1, len(y))
	defer on.Free()
	sol, err := s.Solve(t.Context(), on)
	if err != nil {
		t.Fatal(err)
	}
	defer sol.Release()
	if !sol.Converged {
		t.Errorf("no convergence: %+v", sol.Convergence)
	}
	return sol.MuHat.ToHost(), sol.Linearization.Closed().Trace
}

// The named problems with terms are the estimators of their formulas, built by hand.
func TestProblemsWithTermsAreTheirFormulas(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(5, 6))
		const d, p = 20, 8
		x := mat.NewDense(d, p, gaussians(rng, d*p, nil))
		y := gaussians(rng, d, func(i int) float64 { return 3 * math.Sin(float64(i)/4) })
		analysis := mat.NewDense(6, p, gaussians(rng, 6*p, nil))
		order, third := 2, 3
		a, free := linops.NewDense(dev, x), linops.NewDense(dev, analysis)
		defer a.Release()
		defer free.Release()
		rows := mat.NewDense(d-3, d, nil)
		for i := range d - 3 {
			for j, v := range []float64{-1, 3, -3, 1} {
				rows.Set(i, i+j, v)
			}
		}
		trend := linops.NewDense(dev, rows)
		defer trend.Release()
		image := gaussians(rng, 30, func(i int) float64 { return float64(i / 10) })
		fusedK, fusedR := solving.Terms(solving.Term{K: linops.Identity(p), R: prox.NewL1(0.7)},
			solving.Term{K: imaging.NewDifference1D(p), R: prox.NewL1(1.2)})
		// The groups of vectorial total variation, of two differences and three channels a pixel.
		pixels := make([][]int, 10)
		for i := range 60 {
			pixels[i%30/3] = append(pixels[i%30/3], i)
		}
		vectorial, err := prox.NewGroupL2(dev, 60, 0.7, pixels, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer prox.StructureOf(vectorial).Release()
		for _, c := range []struct {
			name string
			data problems.Data
			k    linops.Operator
			r    prox.Prox
			a    linops.Operator
		}{
			{"tv2d", problems.Data{Y: image, YShape: []int{5, 6}},
				imaging.NewGradient([]int{5, 6}, nil, imaging.Reflecting), prox.NewVectorialL2(30, 2, 1, 0.7),
				linops.Identity(30)},
			{"tv2d", problems.Data{Y: image, YShape: []int{5, 6}, Variant: problems.Variant{Anisotropic: true}},
				imaging.NewGradient([]int{5, 6}, nil, imaging.Reflecting), prox.NewL1(0.7), linops.Identity(30)},
			{"tv2d", problems.Data{Y: image, YShape: []int{2, 5, 3}}, imaging.NewGradient([]int{2, 5, 3}, []int{0, 1},
				imaging.Reflecting), prox.NewVectorialL2(30, 2, 1, 0.7), linops.Identity(30)},
			{"tv2d", problems.Data{Y: image, YShape: []int{2, 5, 3}, Variant: problems.Variant{Vectorial: true}},
				imaging.NewGradient([]int{2, 5, 3}, []int{0, 1}, imaging.Reflecting), vectorial, linops.Identity(30)},
			{"tv2d", problems.Data{Y: image, YShape: []int{5, 6}, Variant: problems.Variant{Vectorial: true}},
				imaging.NewGradient([]int{5, 6}, nil, imaging.Reflecting), prox.NewVectorialL2(30, 2, 1, 0.7),
				linops.Identity(30)},
			{"trend1d", problems.Data{Y: y, YShape: []int{d}, Variant: problems.Variant{Order: &order}}, trend, prox.NewL1(0.7),
				linops.Identity(d)},
			{"whittaker", problems.Data{Y: y, YShape: []int{d}, Variant: problems.Variant{Order: &third}}, trend, prox.NewSquaredL2(0.7),
				linops.Identity(d)},
			{"fused-lasso", problems.Data{X: x, Y: y}, fusedK, fusedR, a},
			{"generalized-lasso", problems.Data{X: x, Y: y, D: analysis}, free, prox.NewL1(0.7), a},
		} {
			hyper := problems.Hyper{Lambda: problems.Absolute(0.7)}
			if c.name == "fused-lasso" {
				hyper.Gamma = problems.Absolute(1.2)
			}
			built, err := problems.New(c.name, dev, c.data, hyper)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			o := vjp.Options{Tol: 1e-12, MaxIter: 100000}
			got, trace := muHatOf(t, built.Solve(), c.data.Y, o)
			want, wantTrace := muHatOf(t, vjp.Problem{A: c.a, K: c.k, R: c.r, Device: dev}, c.data.Y, o)
			for i := range want {
				if math.Abs(got[i]-want[i]) > 1e-5 {
					t.Errorf("%s: mu_hat[%d] is %g, want %g", c.name, i, got[i], want[i])
					break
				}
			}
			if math.Abs(trace-wantTrace) > 1e-4 || !(trace > 0) {
				t.Errorf("%s: trace %g, want %g", c.name, trace, wantTrace)
			}
			built.Release()
		}
	})
}

// At the maximum of the weight K b = 0, and not below it where the rows of K are independent.
func TestMaximumOfTerms(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(7, 8))
		const d, p = 20, 8
		x := mat.NewDense(d, p, gaussians(rng, d*p, nil))
		y := gaussians(rng, d, func(i int) float64 { return float64(i) / 3 })
		analysis := mat.NewDense(5, p, gaussians(rng, 5*p, nil))
		image := gaussians(rng, 24, nil)
		for _, c := range []struct {
			name  string
			data  problems.Data
			tight bool
		}{
			{"trend1d", problems.Data{Y: y, YShape: []int{d}}, true},
			{"generalized-lasso", problems.Data{X: x, Y: y, D: analysis}, true},
			{"tv2d", problems.Data{Y: image, YShape: []int{4, 6}}, false},
		} {
			for _, share := range []float64{1.001, 0.98, 0.3} {
				b, err := problems.New(c.name, dev, c.data, problems.Hyper{Lambda: problems.OfMax(share)})
				if err != nil {
					t.Fatal(err)
				}
				_, trace := muHatOf(t, b.Solve(), c.data.Y, vjp.Options{Tol: 1e-12, MaxIter: 100000})
				least := map[string]float64{"trend1d": 2, "generalized-lasso": 3, "tv2d": 1}[c.name]
				switch {
				case share > 1 && math.Abs(trace-least) > 1e-6:
					t.Errorf("%s at the maximum: trace %g, want %g", c.name, trace, least)
				case share < 0.5 && !(trace > least+0.5), share < 1 && c.tight && !(trace > least+0.5):
					t.Errorf("%s at %g of the maximum: trace %g, want more than %g", c.name, share, trace, least)
				}
				b.Release()
			}
		}
		// Neighbours that are tied help a coefficient: the maximum is that without the tie.
		for _, share := range []float64{1.0001, 0.3} {
			b, err := problems.New("fused-lasso", dev, problems.Data{X: x, Y: y},
				problems.Hyper{Lambda: problems.OfMax(share), Gamma: problems.Absolute(0.01)})
			if err != nil {
				t.Fatal(err)
			}
			_, trace := muHatOf(t, b.Solve(), y, vjp.Options{Tol: 1e-12, MaxIter: 100000})
			if share > 1 && trace != 0 || share < 1 && !(trace >= 1) {
				t.Errorf("fused-lasso at %g of the maximum: trace %g", share, trace)
			}
			b.Release()
		}
		_, err := problems.New("fused-lasso", dev, problems.Data{X: x, Y: y},
			problems.Hyper{Lambda: problems.Absolute(1), Gamma: problems.OfMax(0.1)})
		if err == nil || !strings.Contains(err.Error(), "no maximum") {
			t.Errorf("error %v", err)
		}
	})
}

// What a problem with terms cannot have is refused by name.
func TestTermsRefuse(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, c := range []struct{ text, want string }{
			{"data: {y: [1, 2, 3, 4]}\noperator: identity\nregularizer: zero\nterms: [{regularizer: zero}]\n",
				"both regularizer and terms"},
			{"data: {y: [1, 2, 3, 4]}\noperator: identity\nterms: []\n", "expected a list of terms"},
			{"data: {y: [1, 2, 3, 4]}\noperator: identity\nterms: [{operator: gradient}]\n",
				"a term has no regularizer"},
			{"data: {y: [1, 2, 3, 4]}\noperator: identity\nterms: [{operator: {gradient: {edge: round}}, " +
				"regularizer: {l1: 1}}]\n", `edge is "round"`},
			{"data: {y: [1, 2, 3, 4]}\noperator: identity\nterms: [{operator: {trend: {order: 9}}, regularizer: " +
				"{l1: 1}}]\n", "order is 9"},
			{"data: {y: [1, 0, 1, 1]}\noperator: identity\nloss: logistic\nterms: [{operator: gradient, " +
				"regularizer: {l1: 1}}]\n", "terms need the squared loss"},
		} {
			data, err := load(t, t.TempDir(), c.text)
			if err == nil {
				_, err = problems.New("", dev, data, problems.Hyper{})
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: error %v, want one with %q", c.text, err, c.want)
			}
		}
	})
}
