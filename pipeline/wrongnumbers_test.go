package pipeline_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/prox/cones"
	"surepipe/prox/lowrank"
	"surepipe/vjp"
)

// Inputs on which a wrong number was once printed without a warning.

// riskOf is the risk of a problem at sigma2 = 1.
func riskOf(t *testing.T, p vjp.Problem, solver string, y []float64, so vjp.Options, o pipeline.Options) pipeline.Risk {
	t.Helper()
	so.Sigma2, o.Sigma2, o.KeepB = 1, 1, true
	s, err := vjp.NewSolver(t.Context(), solver, p, so)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	pipe, err := pipeline.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	risk, err := pipe.Estimate(t.Context(), y)
	if err != nil {
		t.Fatal(err)
	}
	return risk
}

// named is the risk of a named problem at sigma2 = 1.
func named(t *testing.T, dev array.Device, name, solver string, data problems.Data, h problems.Hyper) pipeline.Risk {
	t.Helper()
	p, err := problems.New(name, dev, data, h)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	if solver == "" {
		solver = p.DefaultSolver
	}
	return riskOf(t, p.Solve(), solver, data.Y, vjp.Options{}, pipeline.Options{})
}

// shortColumns is 200 x 8 Gaussian columns, the first in units of 1/u, and y = 10 + 5 z0 + 3 z1 -
// 2 z2 + z3 + z4/2 + noise; constant is added to every column and to y.
func shortColumns(u, constant float64) problems.Data {
	rng := rand.New(rand.NewPCG(1, 2))
	const d, p = 200, 8
	x := mat.NewDense(d, p, nil)
	y := make([]float64, d)
	for i := range d {
		y[i] = 10 + constant + rng.NormFloat64()
		for j := range p {
			z := rng.NormFloat64()
			x.Set(i, j, z+constant)
			y[i] += []float64{5, 3, -2, 1, 0.5, 0, 0, 0}[j] * z
		}
		x.Set(i, 0, x.At(i, 0)*u)
	}
	return problems.Data{X: x, Y: y, Intercept: true}
}

// The LASSO and the elastic net with an intercept do not depend on the units of a column, but for
// its penalty, which a large unit makes vanish: from u = 1e6 on the answer is one.
func TestAColumnInLargeUnitsLeavesTheOthersRight(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		hyper := problems.Hyper{Lambda: problems.Absolute(20)}
		for _, c := range []struct{ name, solver string }{{"lasso", "fista"}, {"elastic-net", "fista"},
			{"lasso", "admm"}} {
			if hyper.Lambda2 = (problems.Weight{}); c.name == "elastic-net" {
				hyper.Lambda2 = problems.Absolute(0.5)
			}
			want := named(t, dev, c.name, c.solver, shortColumns(1e6, 0), hyper)
			for _, u := range []float64{1e8, 1e10, 1e12} {
				for _, constant := range []float64{0, 1e9} {
					got := named(t, dev, c.name, c.solver, shortColumns(u, constant), hyper)
					// The constant leaves y and X with errors of 1e9 eps.
					if !got.Trusted() || math.Abs(got.SURE-want.SURE) > 1e-3*want.StdErr ||
						math.Abs(got.Trace.Trace-want.Trace.Trace) > 1e-4 {
						t.Errorf("%s by %s, unit 1/%g, constant %g: SURE %.6g, divergence %.6g, expected %.6g "+
							"and %.6g; %v", c.name, c.solver, u, constant, got.SURE, got.Trace.Trace, want.SURE,
							want.Trace.Trace, got.Warnings())
					}
				}
			}
		}
	})
}

// OLS and ridge keep columns of any length: seconds of a clock in micro- and nanoseconds beside
// three columns in [0, 1], and columns spread over 1e-7 to 1e7.
func TestLeastSquaresKeepsShortColumns(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(3, 4))
		const d = 120
		base := mat.NewDense(d, 5, nil)
		y := make([]float64, d)
		for i := range d {
			base.SetRow(i, []float64{1, float64(i) / d, rng.Float64(), rng.Float64(), rng.Float64()})
			for j, b := range []float64{2, -1, 3, 1, -2} {
				y[i] += b * base.At(i, j)
			}
			y[i] += rng.NormFloat64()
		}
		scaled := func(s ...float64) *mat.Dense {
			x := mat.DenseCopyOf(base)
			x.Apply(func(_, j int, v float64) float64 { return v * s[j] }, x)
			return x
		}
		want := named(t, dev, "ols", "", problems.Data{X: base, Y: y}, problems.Hyper{})
		clock := scaled(1, 0, 1, 1, 1)
		for i := range d {
			clock.Set(i, 1, 1.7e18+float64(i)*1e9) // nanoseconds since 1970
		}
		for name, x := range map[string]*mat.Dense{
			"nanoseconds": clock, "microseconds": scaled(1, 1e12, 1, 1, 1), "spread": scaled(1e-7, 1e7, 1, 1e-4, 1e5),
		} {
			got := named(t, dev, "ols", "", problems.Data{X: x, Y: y}, problems.Hyper{})
			if !got.Trusted() || math.Abs(got.Trace.Trace-5) > 1e-6 || math.Abs(got.SURE-want.SURE) > 1e-4 {
				t.Errorf("ols, %s: SURE %.6g, divergence %.6g, expected %.6g and 5; %v", name, got.SURE,
					got.Trace.Trace, want.SURE, got.Warnings())
			}
			// Ridge against its closed form on the equilibrated columns, H = B (B*B + D)^{-1} B*.
			got = named(t, dev, "ridge", "", problems.Data{X: x, Y: y}, problems.Hyper{Lambda: problems.Absolute(0.3)})
			if trace := bigRidgeTrace(x, 0.3); !got.Trusted() || math.Abs(got.Trace.Trace-trace) > 1e-5 {
				t.Errorf("ridge, %s: divergence %.6g, expected %.6g; %v", name, got.Trace.Trace, trace, got.Warnings())
			}
		}
	})
}

// bigRidgeTrace is tr X (X'X + c I)^{-1} X' in arithmetic of 300 bits.
func bigRidgeTrace(x *mat.Dense, c float64) float64 {
	_, p := x.Dims()
	g := bigGram(x)
	k := bigGram(x)
	for j := range p {
		k[j][j].Add(k[j][j], bigFloat(c))
	}
	return bigTraceOfSolve(k, g)
}

// Completions of small matrices have directions that no observation sees: 3 x 2 with three entries
// has divergence 2.7, and of random ones with a fifth of the entries the closed trace is that of
// the unrolled derivative.
func TestSmallCompletionsCountWhatIsSeen(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		completion := func(shape array.Shape, indices []int, lambda float64) vjp.Problem {
			sel, err := linops.NewSelection(dev, shape.Len(), indices)
			if err != nil {
				t.Fatal(err)
			}
			return vjp.Problem{A: sel, R: lowrank.NewNuclear(shape, lambda), Device: dev}
		}
		p := completion(array.Shape{Rows: 3, Cols: 2}, []int{0, 3, 4}, 3.189043743820395)
		for _, solver := range []string{"fista", "admm"} {
			risk := riskOf(t, p, solver, []float64{7, 4, 8}, vjp.Options{}, pipeline.Options{})
			if math.Abs(risk.Trace.Trace-2.7) > 1e-6 && risk.Trusted() {
				t.Errorf("3 x 2 by %s: divergence %g, expected 2.7", solver, risk.Trace.Trace)
			}
			if !risk.Trusted() {
				t.Errorf("3 x 2 by %s: %v", solver, risk.Warnings())
			}
		}
		kinds := []struct {
			side, seeds int
			share       float64
		}{{8, 40, 0.2}, {12, 10, 0.15}}
		if testing.Short() || arraytest.Emulated(t, dev) {
			kinds = kinds[:1]
			kinds[0].seeds = 5
		}
		for _, k := range kinds {
			marked, wrong := 0, 0
			for seed := range k.seeds {
				rng := rand.New(rand.NewPCG(uint64(seed), 5))
				n := k.side * k.side
				indices := rng.Perm(n)[:int(k.share*float64(n))]
				y := gaussians(rng, len(indices))
				data := problems.Data{Y: y, Indices: indices, Shape: []int{k.side, k.side}}
				weight, err := problems.ParseWeight("0.1max")
				if err != nil {
					t.Fatal(err)
				}
				prob, err := problems.New("matrix-completion", dev, data, problems.Hyper{Lambda: weight})
				if err != nil {
					t.Fatal(err)
				}
				got := riskOf(t, prob.Solve(), "fista", y, vjp.Options{}, pipeline.Options{})
				ref := riskOf(t, prob.Solve(), "fista", y, vjp.Options{Tol: 1e-11, MaxIter: 100000,
					Derivative: vjp.Unrolled}, pipeline.Options{Estimator: hutch.Exact})
				prob.Release()
				if !got.Trusted() {
					marked++
				} else if 2*math.Abs(got.Trace.Trace-ref.Trace.Trace) > 0.025*math.Sqrt(2*float64(len(y))) {
					// A fortieth of SURE's error bar: the derivative of a solution that takes a
					// thousand iterations still moves with the last digits of it.
					wrong++
					t.Errorf("%d x %d, seed %d: divergence %.6g (%.6g to %.6g), unrolled %.6g %v", k.side, k.side,
						seed, got.Trace.Trace, got.DivergenceLow, got.DivergenceHigh, ref.Trace.Trace, ref.Convergence)
				}
			}
			t.Logf("%d x %d: %d of %d wrong, %d marked", k.side, k.side, wrong, k.seeds, marked)
		}
	})
}

// Directions that J allows for and A does not see: groups under the maximum norm with columns of
// zeros, l1 ball and simplex with columns twice. The trace is that of the unrolled derivative of
// the same solution.
func TestUnseenDirectionsDoNotCount(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		seeds := 20
		if arraytest.Emulated(t, dev) {
			seeds = 2
		}
		for seed := range uint64(seeds) {
			rng := rand.New(rand.NewPCG(seed, 6))
			const d, p = 9, 8
			x := mat.NewDense(d, p, gaussians(rng, d*p))
			zeros := mat.DenseCopyOf(x)
			twice := mat.DenseCopyOf(x)
			for i := range d {
				zeros.Set(i, 1, 0)
				zeros.Set(i, 6, 0)
				twice.Set(i, 5, twice.At(i, 0))
				twice.Set(i, 6, twice.At(i, 1))
			}
			y := gaussians(rng, d)
			for i := range y {
				y[i] = 2*y[i] + x.At(i, 0) - x.At(i, 2)
			}
			linf, err := prox.NewGroupLinf(dev, p, 1.5, [][]int{{0, 1}, {2, 3, 4}, {5, 6, 7}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				name string
				x    *mat.Dense
				r    prox.Prox
			}{{"group linf", zeros, linf}, {"l1 ball", twice, cones.NewL1Ball(p, 1)},
				{"simplex", twice, cones.NewSimplex(p, 1)}} {
				prob := vjp.Problem{A: linops.NewDense(dev, c.x), R: c.r, Device: dev}
				got := riskOf(t, prob, "fista", y, vjp.Options{}, pipeline.Options{})
				ref := riskOf(t, prob, "fista", y, vjp.Options{Tol: 1e-11, MaxIter: 100000, Derivative: vjp.Unrolled},
					pipeline.Options{Estimator: hutch.Exact})
				if got.Trusted() && ref.Trusted() && math.Abs(got.Trace.Trace-ref.Trace.Trace) > 1e-3 {
					t.Errorf("%s, seed %d: divergence %.6g, unrolled %.6g", c.name, seed, got.Trace.Trace,
						ref.Trace.Trace)
				}
				if !got.Trusted() {
					t.Errorf("%s, seed %d: %v", c.name, seed, got.Warnings())
				}
			}
		}
	})
}

// ADMM calls converged what fista, run for long, agrees with: l1 ball, simplex, groups with
// coordinates that no penalty falls on, boxes, X of deficient rank.
func TestADMMConvergesToSolutions(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		seeds := 60
		if arraytest.Emulated(t, dev) || testing.Short() {
			seeds = 2
		}
		marked, count := 0, 0
		for seed := range uint64(seeds) {
			rng := rand.New(rand.NewPCG(seed, 7))
			d, p := 3+rng.IntN(6), 4+rng.IntN(6)
			x := mat.NewDense(d, p, gaussians(rng, d*p))
			for i := range d { // of deficient rank
				x.Set(i, 1, x.At(i, 0)-2*x.At(i, 2))
			}
			y := gaussians(rng, d)
			for i := range y {
				y[i] *= math.Pow(10, float64(rng.IntN(3)))
			}
			group, err := prox.NewGroupL2(dev, p, 1, [][]int{{1, 3}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			lo, hi := make([]float64, p), make([]float64, p)
			for j := range lo {
				lo[j], hi[j] = -0.3, 0.5
			}
			box, err := prox.NewBox(dev, lo, hi)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range []prox.Prox{cones.NewL1Ball(p, 1), cones.NewSimplex(p, 1), group, box} {
				prob := vjp.Problem{A: linops.NewDense(dev, x), R: r, Device: dev}
				got := riskOf(t, prob, "admm", y, vjp.Options{}, pipeline.Options{})
				ref := riskOf(t, prob, "fista", y, vjp.Options{Tol: 1e-10, MaxIter: 200000}, pipeline.Options{})
				count++
				if !got.Trusted() {
					marked++
					continue
				}
				bar := math.Max(ref.StdErr, math.Sqrt(2*float64(d)))
				if ref.Trusted() && math.Abs(got.SURE-ref.SURE) > 0.02*bar &&
					(got.Trace.Trace < ref.DivergenceLow-0.01 || got.Trace.Trace > ref.DivergenceHigh+0.01) {
					t.Errorf("seed %d, %s: SURE %g, divergence %g (%v); fista %g, %g", seed,
						[]string{"l1 ball", "simplex", "group", "box"}[i], got.SURE, got.Trace.Trace,
						fmt.Sprint(got.Convergence), ref.SURE, ref.Trace.Trace)
				}
			}
		}
		t.Logf("%d of %d marked", marked, count)
		if marked > count/20 {
			t.Errorf("%d of %d marked", marked, count)
		}
	})
}
