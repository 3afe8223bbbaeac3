package vjp_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/solve"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

type lossCase struct {
	l    *loss.Pointwise
	y, w []float64
}

// lossCases are losses with samples of them, as proportions where y is to move.
func lossCases(t *testing.T, rng *rand.Rand, z []float64) map[string]lossCase {
	t.Helper()
	d := len(z)
	weights, proportions, counts, outliers := make([]float64, d), make([]float64, d), make([]float64, d),
		make([]float64, d)
	for i, v := range z {
		weights[i] = 0.5 + rng.Float64()
		proportions[i] = min(max(1/(1+math.Exp(-v))+0.2*rng.NormFloat64(), 0.05), 0.95)
		counts[i] = math.Max(math.Round(math.Exp(v)+math.Exp(v/2)*rng.NormFloat64()), 0.5)
		outliers[i] = v + rng.NormFloat64()
		if i%5 == 0 {
			outliers[i] += 8
		}
	}
	cases := map[string]lossCase{}
	add := func(name string, y []float64) func(*loss.Pointwise, error) {
		return func(l *loss.Pointwise, err error) {
			if err != nil {
				t.Fatal(err)
			}
			cases[name] = lossCase{l, y, weights}
		}
	}
	add("logistic", proportions)(loss.Logistic(nil))
	add("weighted logistic", proportions)(loss.Logistic(weights))
	add("poisson", counts)(loss.Poisson(nil))
	add("huber", outliers)(loss.Huber(1.3, weights))
	return cases
}

// The derivative returned for a loss that is not quadratic is that of the whitened problem at the
// solution: by central differences in y of the linear predictor, W^{1/2} D W^{1/2} for the logistic
// and the Poisson loss, and W^{1/2} D W^{-1/2} for the Huber loss, whose outliers have no part in
// it. Where it is known in closed form, its trace and its diagonal are the same.
func TestDerivativeOfLossesMatchesCentralDifferences(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	rng := rand.New(rand.NewPCG(3, 5))
	const d, p, h = 20, 6, 1e-5
	x := solvetest.Gaussian(rng, d*p)
	a := linops.NewDense(dev, mat.NewDense(d, p, x))
	defer a.Release()
	z := make([]float64, d)
	for i := range z {
		z[i] = 0.8*x[i*p] - 0.6*x[i*p+1] + 0.3
	}
	group, err := prox.NewGroupL2(dev, p, 0.7, [][]int{{0, 1}, {2, 3}, {4, 5}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer prox.Release(group)
	for name, c := range lossCases(t, rng, z) {
		for kind, r := range map[string]prox.Prox{
			"l1": prox.NewL1(0.4), "elastic net": prox.NewElasticNet(0.3, 0.5), "ridge": prox.NewSquaredL2(0.5),
			"group":        group,
			"nuclear norm": lowrank.NewNuclear(array.Shape{Rows: 3, Cols: 2}, 0.5),
		} {
			problem := vjp.Problem{A: a, R: r, Loss: c.l, Device: dev}
			o := vjp.Options{Tol: 1e-12, MaxIter: 100000}
			solver := solve.Default(problem)
			s := newSolver(t, solver, problem, o)
			sol := solved(t, s, dev, c.y)
			got, closed := jacobian(t, sol.Linearization, dev, d), sol.Linearization.Closed()
			w, at := dev.Alloc(1, d), dev.Alloc(1, d)
			dev.Upload(at, c.y)
			c.l.Curvature(w, sol.MuHat, at)
			weights := w.ToHost()
			w.Free()
			at.Free()
			var diagonal []float64
			if closed.Diagonal != nil {
				var err error
				if diagonal, err = closed.Diagonal(); err != nil {
					t.Fatal(err)
				}
			}
			sol.Release()

			o.Derivative = vjp.None
			plain := newSolver(t, solver, problem, o)
			worst := 0.0
			for j := range d {
				moved := append([]float64(nil), c.y...)
				moved[j] += h
				up := muHat(t, plain, dev, moved)
				moved[j] -= 2 * h
				down := muHat(t, plain, dev, moved)
				for i := range d {
					right := math.Sqrt(weights[j])
					if name == "huber" && right > 0 {
						right = 1 / right
					}
					want := math.Sqrt(weights[i]) * (up[i] - down[i]) / (2 * h) * right
					if name == "weighted logistic" {
						want /= c.w[j] // -d^2 l/dz dy
					}
					if weights[i] == 0 || weights[j] == 0 {
						want = (1 - 1e-2) * got.At(i, j) // next to nothing
					}
					worst = max(worst, math.Abs(got.At(i, j)-want))
				}
			}
			if worst > 2e-6 {
				t.Errorf("%s, %s by %s: the derivative is off by %.2g", name, kind, solver, worst)
			}
			trace := mat.Trace(got)
			if closed.Known && math.Abs(closed.Trace-trace) > 1e-8 || trace < 0.5 || trace > p+1e-9 {
				t.Errorf("%s, %s by %s: trace %g, in closed form %g", name, kind, solver, trace, closed.Trace)
			}
			for i, v := range diagonal {
				if math.Abs(v-got.At(i, i)) > 1e-8 {
					t.Errorf("%s, %s: diagonal %d is %g, want %g", name, kind, i, v, got.At(i, i))
				}
			}
		}
	}
}
