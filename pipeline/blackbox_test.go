package pipeline_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/prox/lowrank"
	"surepipe/risk/warning"
	"surepipe/vjp"
)

// softly and hardly threshold at the weight.
func softly(_ context.Context, w, y []float64) ([]float64, error) {
	f := make([]float64, len(y))
	for i, v := range y {
		f[i] = math.Copysign(max(math.Abs(v)-w[0], 0), v)
	}
	return f, nil
}

func hardly(_ context.Context, w, y []float64) ([]float64, error) {
	f := make([]float64, len(y))
	for i, v := range y {
		if math.Abs(v) > w[0] {
			f[i] = v
		}
	}
	return f, nil
}

// normalMethods are those for normal noise.
func normalMethods() (all []pipeline.BlackBoxMethod) {
	for _, row := range pipeline.BlackBoxRows() {
		if !row.Counts {
			all = append(all, row.Name)
		}
	}
	return all
}

// sparseMean has a tenth of its entries at 4.
func sparseMean(d int) []float64 {
	mu := make([]float64, d)
	for i := range d / 10 {
		mu[i] = 4
	}
	return mu
}

func noisy(r *rand.Rand, mu []float64) []float64 {
	y := slices.Clone(mu)
	for i := range y {
		y[i] += r.NormFloat64()
	}
	return y
}

// exactSURE is that of soft thresholding.
func exactSURE(y []float64, lambda float64) float64 {
	sure := -float64(len(y))
	for _, v := range y {
		sure += math.Pow(min(math.Abs(v), lambda), 2)
		if math.Abs(v) > lambda {
			sure += 2
		}
	}
	return sure
}

// thresholdRisk is the exact risk at noise of that standard deviation, by quadrature.
func thresholdRisk(f func(context.Context, []float64, []float64) ([]float64, error), mu []float64, lambda,
	sd float64) float64 {
	risk := 0.0
	known := map[float64]float64{}
	for _, m := range mu {
		if _, ok := known[m]; !ok {
			sum := 0.0
			const n = 4000
			for k := range n {
				z := -8 + 16*(float64(k)+0.5)/n
				v, _ := f(context.Background(), []float64{lambda}, []float64{m + sd*z})
				sum += (v[0] - m) * (v[0] - m) * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) * 16 / n
			}
			known[m] = sum
		}
		risk += known[m]
	}
	return risk
}

// walsh is the orthonormal Walsh-Hadamard transform of x, whose length is a power of two.
func walsh(x []float64) []float64 {
	f := slices.Clone(x)
	for h := 1; h < len(f); h *= 2 {
		for i := 0; i < len(f); i += 2 * h {
			for j := i; j < i+h; j++ {
				f[j], f[j+h] = (f[j]+f[j+h])/math.Sqrt2, (f[j]-f[j+h])/math.Sqrt2
			}
		}
	}
	return f
}

// Differences of soft thresholding, of coefficients in an orthonormal basis, give its SURE within
// their error, which is the spread over seeds.
func TestMonteCarloDivergenceOfSoftThresholding(t *testing.T) {
	if testing.Short() {
		t.Skip("short: statistics depend on neither the device nor the BLAS")
	}
	const d, lambda, seeds = 512, 1.5, 100
	coefficients := noisy(rand.New(rand.NewPCG(5, 5)), sparseMean(d))
	y := walsh(coefficients)
	b := &pipeline.BlackBox{Name: "soft", D: d, Eval: func(ctx context.Context, w, y []float64) ([]float64, error) {
		f, err := softly(ctx, w, walsh(y))
		return walsh(f), err
	}}
	exact := exactSURE(coefficients, lambda)
	var errs, bars []float64
	for seed := range uint64(seeds) {
		r, err := b.Estimate(context.Background(), []float64{lambda}, y,
			pipeline.Options{Sigma2: 1, Seed: seed, Queries: 30, Parallel: 2})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Warnings()) > 0 || !r.Trusted() || r.Derivative != "monte-carlo" || r.Trace.Queries != 30 ||
			len(r.MuHat) != d {
			t.Fatalf("%+v, %v", r.Trace, r.Warnings())
		}
		errs = append(errs, r.SURE-exact)
		bars = append(bars, 2*r.Trace.Error())
	}
	rms, bar := floats.Norm(errs, 2)/math.Sqrt(seeds), stat.Mean(bars, nil)
	t.Logf("root mean square error %.3g, bar %.3g", rms, bar)
	if math.Abs(bar/rms-1) > 0.25 || math.Abs(stat.Mean(errs, nil)) > 4*bar/math.Sqrt(seeds) {
		t.Errorf("mean error %g, root mean square %g, error bar %g", stat.Mean(errs, nil), rms, bar)
	}
	b.Eps = 1e-6 // no coordinate is so near the threshold
	r, err := b.Estimate(context.Background(), []float64{lambda}, y, pipeline.Options{Sigma2: 1, Estimator: "exact"})
	if err != nil || math.Abs(r.SURE-exact) > 1e-5 || r.Trace.StdErr != 0 {
		t.Errorf("by unit vectors %g, exact %g, %v", r.SURE, exact, err)
	}
}

// The coupled bootstrap is unbiased for the risk at noise 1 + alpha, whether the estimator is
// continuous or not; its error over the draws is the spread over seeds, and its own error bar that
// over y.
func TestCoupledBootstrapOfThresholding(t *testing.T) {
	if testing.Short() {
		t.Skip("short: statistics depend on neither the device nor the BLAS")
	}
	const d, lambda, alpha, draws = 300, 2, 0.2, 150
	mu := sparseMean(d)
	r := rand.New(rand.NewPCG(8, 5))
	for name, f := range map[string]func(context.Context, []float64, []float64) ([]float64, error){"soft": softly,
		"hard": hardly} {
		b := &pipeline.BlackBox{Name: name, D: d, Eval: f, Divergence: pipeline.CoupledBootstrap, Alpha: alpha}
		want := thresholdRisk(f, mu, lambda, math.Sqrt(1+alpha))
		var values, bars, errs []float64
		for k := range draws {
			y := noisy(r, mu)
			e, err := b.Estimate(context.Background(), []float64{lambda}, y,
				pipeline.Options{Sigma2: 1, Seed: uint64(k), Queries: 60, Parallel: 2})
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, e.SURE)
			bars = append(bars, e.StdErr*e.StdErr+4*e.Trace.StdErr*e.Trace.StdErr)
			// The loss at noise 1 + alpha, given y.
			loss := 0.0
			for range 20 {
				x := slices.Clone(y)
				for i := range x {
					x[i] += math.Sqrt(alpha) * r.NormFloat64()
				}
				v, _ := f(context.Background(), []float64{lambda}, x)
				loss += math.Pow(floats.Distance(v, mu, 2), 2) / 20
			}
			errs = append(errs, e.SURE-loss)
			if identity := -d + e.Residual + 2*e.Trace.Trace; math.Abs(identity-e.SURE) > 1e-9*d ||
				!math.IsNaN(e.GCV) || e.Trace.Queries != 61 {
				t.Fatalf("%g by its terms, %g; gcv %g, %d values", identity, e.SURE, e.GCV, e.Trace.Queries)
			}
		}
		mean, sd := stat.MeanStdDev(values, nil)
		rms, bar := floats.Norm(errs, 2)/math.Sqrt(draws), math.Sqrt(stat.Mean(bars, nil))
		t.Logf("%s: mean %.1f, risk %.1f; root mean square error %.1f, bar %.1f", name, mean, want, rms, bar)
		if math.Abs(mean-want) > 4*sd/math.Sqrt(draws) || math.Abs(bar/rms-1) > 0.25 {
			t.Errorf("%s: mean %g ± %g, risk %g; root mean square error %g, error bar %g", name, mean,
				sd/math.Sqrt(draws), want, rms, bar)
		}
		y := noisy(r, mu)
		var over, stated []float64
		for seed := range uint64(80) {
			e, err := b.Estimate(context.Background(), []float64{lambda}, y,
				pipeline.Options{Sigma2: 1, Seed: seed, Queries: 40})
			if err != nil {
				t.Fatal(err)
			}
			over, stated = append(over, e.SURE), append(stated, 2*e.Trace.StdErr)
		}
		spread := stat.StdDev(over, nil)
		t.Logf("%s: spread over the draws %.2f, error %.2f", name, spread, stat.Mean(stated, nil))
		if math.Abs(stat.Mean(stated, nil)/spread-1) > 0.25 {
			t.Errorf("%s: spread over the draws %g, error %g", name, spread, stat.Mean(stated, nil))
		}
	}
}

// Differences of hard thresholding miss its jumps, and say so; so do answers that are rounded, and
// those that are random.
func TestNotSmoothIsSaid(t *testing.T) {
	const d = 1000
	var calls atomic.Int64
	for name, f := range map[string]func(context.Context, []float64, []float64) ([]float64, error){
		"hard": hardly,
		"rounded": func(ctx context.Context, w, y []float64) ([]float64, error) {
			f, err := softly(ctx, w, y)
			for i := range f {
				f[i] = math.Round(f[i]*10) / 10
			}
			return f, err
		},
		"random": func(ctx context.Context, w, y []float64) ([]float64, error) {
			f, err := softly(ctx, w, y)
			f[0] += float64(calls.Add(1))
			return f, err
		},
	} {
		y := noisy(rand.New(rand.NewPCG(2, 5)), sparseMean(d))
		b := &pipeline.BlackBox{Name: name, D: d, Eval: f}
		r, err := b.Estimate(context.Background(), []float64{2}, y, pipeline.Options{Sigma2: 1, Queries: 20})
		if err != nil {
			t.Fatal(err)
		}
		if w := r.Warnings(); r.Trusted() || len(w) == 0 || !w[0].Is(warning.NotSmooth) ||
			(name == "random") != strings.Contains(w[0].Text, "different answers for the same y") {
			t.Errorf("%s: SURE %g, %v", name, r.SURE, w)
		}
	}
}

// Answers that are whole numbers are marked also where few of them change along the steps.
func TestNotSmoothIsSaidOfWholeNumbers(t *testing.T) {
	const d = 200
	r := rand.New(rand.NewPCG(1, 3))
	y := make([]float64, d)
	for i := range y {
		y[i] = 3*math.Sin(float64(i)/10) + r.NormFloat64()
	}
	b := &pipeline.BlackBox{Name: "whole", D: d, Eval: func(_ context.Context, _, y []float64) ([]float64, error) {
		f := make([]float64, d)
		for i := range d - 4 {
			f[i] = math.Round(stat.Mean(y[i:i+5], nil))
		}
		return f, nil
	}}
	for seed := range uint64(40) {
		r, err := b.Estimate(context.Background(), []float64{2}, y, pipeline.Options{Sigma2: 1, Queries: 6, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		if w := r.Warnings(); r.Trusted() || len(w) == 0 || !w[0].Is(warning.NotSmooth) {
			t.Errorf("seed %d: SURE %g, %v", seed, r.SURE, w)
		}
	}
}

// Our own singular value thresholding as a black box has the exact SURE within its error.
func TestBlackBoxOfASolver(t *testing.T) {
	const m, n = 12, 10
	dev := array.NewHost()
	r := rand.New(rand.NewPCG(3, 9))
	y := make([]float64, m*n)
	for i := range y {
		y[i] = 3*math.Sin(float64(i/n))*math.Cos(float64(i%n)) + r.NormFloat64()
	}
	solver, err := vjp.NewSolver(context.Background(), "fista",
		vjp.Problem{A: linops.Identity(m * n), R: lowrank.NewNuclear(array.Shape{Rows: m, Cols: n}, 3), Device: dev},
		vjp.Options{Tol: 1e-10, Sigma2: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer solver.Release()
	p, err := pipeline.New(solver, pipeline.Options{Sigma2: 1, Estimator: "exact"})
	if err != nil {
		t.Fatal(err)
	}
	exact, err := p.Estimate(context.Background(), y)
	if err != nil {
		t.Fatal(err)
	}
	b := &pipeline.BlackBox{Name: "svt", D: m * n, Eval: func(ctx context.Context, _, y []float64) ([]float64, error) {
		batch := dev.Alloc(1, len(y))
		defer batch.Free()
		dev.Upload(batch, y)
		sol, err := solver.Solve(ctx, batch)
		if err != nil {
			return nil, err
		}
		defer sol.Release()
		return sol.MuHat.ToHost(), nil
	}}
	got, err := b.Estimate(context.Background(), nil, y, pipeline.Options{Sigma2: 1, Parallel: 2})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(got.SURE-exact.SURE) > 3*2*got.Trace.Error() || got.Trace.Error() > 5 || !got.Trusted() {
		t.Errorf("SURE %g ± %g, exact %g, %v", got.SURE, 2*got.Trace.Error(), exact.SURE, got.Warnings())
	}
	units, err := b.Estimate(context.Background(), nil, y, pipeline.Options{Sigma2: 1, Estimator: "exact", ALO: true})
	if err != nil || math.Abs(units.SURE-exact.SURE) > 0.1 || math.Abs(units.StdErr/exact.StdErr-1) > 0.01 ||
		!(units.ALO > 0) {
		t.Errorf("by unit vectors SURE %g ± %g, exact %g ± %g, %v", units.SURE, units.StdErr, exact.SURE,
			exact.StdErr, err)
	}
}

// A sweep of a black box is the estimates at its weights, the same for any number of calls at once,
// and continues after its first points.
func TestSweepOfABlackBox(t *testing.T) {
	const d = 200
	mu := sparseMean(d)
	y := noisy(rand.New(rand.NewPCG(6, 5)), mu)
	var inFlight, most atomic.Int64
	counting := func(ctx context.Context, w, y []float64) ([]float64, error) {
		defer inFlight.Add(-1)
		for n := inFlight.Add(1); ; {
			if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		return softly(ctx, w, y)
	}
	grid := [][]float64{{0.5, 1, 1.5, 2, 3}}
	for _, method := range normalMethods() {
		b := &pipeline.BlackBox{Name: "soft", D: d, Eval: counting, Divergence: method}
		var all [][]pipeline.SweepPoint
		for _, o := range []pipeline.SweepOptions{{Options: pipeline.Options{Parallel: 1}},
			{Options: pipeline.Options{Parallel: 3}}, {}} {
			o.Sigma2, o.Queries, o.Refine, o.Mu = 1, 20, 4, mu
			if len(all) == 2 {
				for _, p := range all[0][:3] {
					o.Known = append(o.Known, pipeline.SweepValue{Weights: p.Weights, Value: p.SURE,
						Trusted: p.Trusted()})
				}
			}
			most.Store(0)
			var points []pipeline.SweepPoint
			for p, err := range pipeline.Sweep(context.Background(), y, pipeline.Family{BlackBox: b}, grid, o) {
				if err != nil {
					t.Fatal(err)
				}
				points = append(points, p)
			}
			if got := most.Load(); got > int64(max(o.Parallel, 1)) {
				t.Errorf("%s: %d calls at once, expected at most %d", method, got, o.Parallel)
			}
			all = append(all, points)
		}
		for k, points := range all[1:] {
			for i, p := range points {
				q := all[0][i+len(all[0])-len(points)]
				if p.SURE != q.SURE || p.Index != q.Index || p.Stage != q.Stage || p.Loss != q.Loss {
					t.Fatalf("%s: sweep %d, point %d: %s %d %g, expected %s %d %g", method, k+1, i, p.Stage, p.Index,
						p.SURE, q.Stage, q.Index, q.SURE)
				}
			}
		}
		one, err := b.Estimate(context.Background(), all[0][2].Weights, y, pipeline.Options{Sigma2: 1, Queries: 20})
		if err != nil || one.SURE != all[0][2].SURE {
			t.Errorf("%s: %g alone, %g in the sweep, %v", method, one.SURE, all[0][2].SURE, err)
		}
	}
}

// Errors of a black box come back as they are, and bad settings are refused.
func TestBlackBoxErrors(t *testing.T) {
	failure := errors.New("broken")
	y := []float64{1, 2, 3, 4, 5}
	for _, method := range normalMethods() {
		for name, c := range map[string]struct {
			b    pipeline.BlackBox
			o    pipeline.Options
			want string
		}{
			"error": {pipeline.BlackBox{Eval: func(context.Context, []float64, []float64) ([]float64,
				error) {
				return nil, failure
			}}, pipeline.Options{}, "broken"},
			"short": {pipeline.BlackBox{Eval: func(context.Context, []float64, []float64) ([]float64,
				error) {
				return []float64{1}, nil
			}}, pipeline.Options{}, "box has returned 1 values, expected 5"},
			"nan": {pipeline.BlackBox{Eval: func(_ context.Context, _, y []float64) ([]float64, error) {
				return []float64{1, 2, math.NaN(), 4, 5}, nil
			}}, pipeline.Options{}, "box has returned NaN at [2], expected finite numbers"},
			"panic": {pipeline.BlackBox{Eval: func(context.Context, []float64, []float64) ([]float64,
				error) {
				panic("oh")
			}}, pipeline.Options{}, "panic: oh"},
			"eps": {pipeline.BlackBox{Eval: softly, Eps: -1}, pipeline.Options{},
				"eps is -1, expected a positive number"},
			"alpha": {pipeline.BlackBox{Eval: softly, Alpha: math.Inf(1)}, pipeline.Options{},
				"alpha is +Inf, expected a positive number"},
		} {
			c.b.Name, c.b.D, c.b.Divergence, c.o.Sigma2 = "box", 5, method, 1
			_, err := c.b.Estimate(context.Background(), []float64{1}, y, c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) || name == "error" && !errors.Is(err, failure) {
				t.Errorf("%s, %s: error %v, expected %q", method, name, err, c.want)
			}
		}
	}
	b := pipeline.BlackBox{Name: "box", D: 5, Eval: softly, Divergence: pipeline.CoupledBootstrap}
	if _, err := b.Estimate(context.Background(), []float64{1}, y, pipeline.Options{}); err == nil ||
		!strings.Contains(err.Error(), "needs sigma2") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, method := range normalMethods() {
		b.Divergence = method
		if _, err := b.Estimate(ctx, []float64{1}, y, pipeline.Options{Sigma2: 1}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v", method, err)
		}
	}
}

// A step that the rounding of y swallows is refused, whatever both differences say.
func TestBlackBoxRefusesStepsBelowRounding(t *testing.T) {
	y := []float64{3, -2, 5, 1}
	box := &pipeline.BlackBox{D: 4, Name: "the identity", Eps: 1e-17,
		Eval: func(_ context.Context, _, y []float64) ([]float64, error) { return slices.Clone(y), nil }}
	if _, err := box.Estimate(t.Context(), nil, y, pipeline.Options{Sigma2: 1}); err == nil ||
		!strings.Contains(err.Error(), "eps is 1e-17, expected at least") {
		t.Errorf("%v", err)
	}
}
