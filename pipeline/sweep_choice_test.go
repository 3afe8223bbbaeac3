package pipeline_test

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/risk"
	"surepipe/vjp"
)

// The errors of differences are those of dense algebra, to within the error of the probes; the near
// pairs' are far below the error bar of a value.
func TestErrorsOfDifferencesAgreeWithDenseAlgebra(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		c := newCurve(t, dev)
		grid := [][]float64{axis(0.02*c.max, 1.2*c.max, 14)}
		for name, o := range map[string]pipeline.Options{
			"closed": {}, "probes": {Estimator: hutch.Hutchinson, Queries: 60},
			"sketch": {Estimator: hutch.HutchPP, Queries: 60}, "exact": {Estimator: hutch.Exact},
		} {
			o.Sigma2 = 1
			points := collect(t, c, grid, pipeline.SweepOptions{Options: o, Refine: -1})
			last := points[len(points)-1]
			choice := last.Choice
			points = points[:len(points)-1]
			if choice == nil || choice.Minimizer != last.Index || choice.Chosen != last.Index ||
				len(choice.Differences) != len(points) || choice.Incomparable > 0 {
				t.Fatalf("%s: choice %+v", name, choice)
			}
			best := points[last.Index]
			muBest, jBest := c.dense(t, dev, best.Weights)
			for i, p := range points {
				got := choice.Differences[i]
				if got.Value != p.SURE-best.SURE {
					t.Errorf("%s: point %d: difference %g, expected %g", name, i, got.Value, p.SURE-best.SURE)
				}
				mu, j := c.dense(t, dev, p.Weights)
				want := math.Sqrt(4*squaredDistanceOf(mu, muBest) + 4*squaredDistanceOf(j, jBest))
				if trace := 2 * math.Abs(p.Trace.StdErr-best.Trace.StdErr); name != "closed" && name != "exact" &&
					i != last.Index {
					// At least what the one error has more than the other.
					want = math.Hypot(want, trace)
					if most := math.Hypot(want, 2*(p.Trace.Error()+best.Trace.Error())); got.StdErr > 1.3*most {
						t.Errorf("%s: point %d: error %g, expected at most %g", name, i, got.StdErr, most)
					}
				} else if math.Abs(got.StdErr-want) > 1e-5*want+1e-12 { // 820 coordinates are kept
					t.Errorf("%s: point %d: error %g, expected %g", name, i, got.StdErr, want)
				}
				if got.StdErr < 0.65*want-1e-12 {
					t.Errorf("%s: point %d: error %g, expected at least %g", name, i, got.StdErr, want)
				}
				if near := i-last.Index == 1 || last.Index-i == 1; near && got.StdErr > 0.5*p.StdErr {
					t.Errorf("%s: neighbour %d: error of the difference %g, of the value %g", name, i, got.StdErr,
						p.StdErr)
				}
			}
		}
	})
}

// With up to 44 columns the errors of differences are exact, whatever the seed, for a derivative that is
// factored, that of a linear estimator, and one by conjugate gradients; with 64 seeds agree.
func TestErrorsOfDifferencesOfTablesAreExact(t *testing.T) {
	dev := array.NewHost()
	for _, n := range []int{10, 40, 60} {
		rng := rand.New(rand.NewPCG(4, uint64(n)))
		d := 46 + 2*n
		x, y := mat.NewDense(d, n, gaussian(rng, d*n)), gaussian(rng, d)
		weights := make([]float64, d)
		for i := range y {
			y[i] += x.At(i, 0) - 0.5*x.At(i, 1)
			weights[i] = 0.5 + rng.Float64()
		}
		a := linops.NewDense(dev, x)
		defer a.Release()
		weighted, err := loss.WeightedSquared(dev, weights)
		if err != nil {
			t.Fatal(err)
		}
		defer weighted.Release()
		for name, f := range map[string]pipeline.Family{
			"lasso":    {Problem: vjp.Problem{A: a, Device: dev}, Solver: "active-set"},
			"weighted": {Problem: vjp.Problem{A: a, Loss: weighted, Device: dev}, Solver: "active-set"},
			"fista":    {Problem: vjp.Problem{A: a, Device: dev}, Solver: "fista"},
			"ridge":    {Problem: vjp.Problem{A: a, Device: dev}, Solver: "direct"},
		} {
			f.Settings = vjp.Options{Tol: 1e-10}
			f.Regularizer = func(w []float64) (prox.Prox, error) {
				if name == "ridge" {
					return prox.NewSquaredL2(w[0]), nil
				}
				return prox.NewL1(w[0]), nil
			}
			var first []risk.Difference
			for seed := range uint64(2) {
				o := pipeline.SweepOptions{Refine: -1, Options: pipeline.Options{Sigma2: 1, Seed: seed}}
				var points []pipeline.SweepPoint
				for p, err := range pipeline.Sweep(t.Context(), y, f, [][]float64{axis(2, 60, 8)}, o) {
					if err != nil {
						t.Fatal(err)
					}
					points = append(points, p)
				}
				last := points[len(points)-1]
				points = points[:len(points)-1]
				if first == nil {
					first = last.Choice.Differences
				}
				mu, j := denseFit(t, dev, f, y, last.Weights)
				for i, p := range points {
					got := last.Choice.Differences[i].StdErr
					if got != first[i].StdErr {
						t.Errorf("%s, %d columns, point %d: error %g, under another seed %g", name, n, i, got,
							first[i].StdErr)
					}
					other, k := denseFit(t, dev, f, y, p.Weights)
					want := math.Sqrt(4*squaredDistanceOf(other, mu) + 4*squaredDistanceOf(k, j))
					if off := math.Abs(got - want); off > 1e-5*want && n <= 44 || off > 0.1*want {
						t.Errorf("%s, %d columns, point %d: error %g, expected %g", name, n, i, got, want)
					}
				}
			}
		}
	}
}

// denseFit is mu_hat and its Jacobian, that of the whitened problem with weights of the observations.
func denseFit(t *testing.T, dev array.Device, f pipeline.Family, y, weights []float64) (mu, jacobian []float64) {
	t.Helper()
	p := f.Problem
	var err error
	if p.R, err = f.Regularizer(weights); err != nil {
		t.Fatal(err)
	}
	s, err := vjp.NewSolver(t.Context(), f.Solver, p, f.Settings)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	at, unit, image := dev.Alloc(1, len(y)), dev.Alloc(len(y), len(y)), dev.Alloc(len(y), len(y))
	defer at.Free()
	defer unit.Free()
	defer image.Free()
	dev.Upload(at, y)
	hutch.UnitVectors(unit, 0)
	sol, err := s.Solve(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer sol.Release()
	if err := sol.Linearization.VJP(t.Context(), image, unit); err != nil {
		t.Fatal(err)
	}
	return sol.MuHat.ToHost(), image.ToHost()
}

func squaredDistanceOf(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += (v - b[i]) * (v - b[i])
	}
	return sum
}

// dense is mu_hat and its Jacobian at the weights.
func (c curve) dense(t *testing.T, dev array.Device, weights []float64) (mu, jacobian []float64) {
	t.Helper()
	r, err := c.Regularizer(weights)
	if err != nil {
		t.Fatal(err)
	}
	s, err := vjp.NewSolver(t.Context(), "fista", vjp.Problem{A: c.Problem.A, R: r, Device: dev}, c.Settings)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	sol := solvedAt(t, s, dev, c.y)
	defer sol.Release()
	d := len(c.y)
	units, images := dev.Alloc(d, d), dev.Alloc(d, d)
	defer units.Free()
	defer images.Free()
	hutch.UnitVectors(units, 0)
	if err := sol.Linearization.VJP(t.Context(), images, units); err != nil {
		t.Fatal(err)
	}
	return sol.MuHat.ToHost(), images.ToHost()
}

func solvedAt(t *testing.T, s vjp.Solver, dev array.Device, values []float64) *vjp.Solution {
	t.Helper()
	y := dev.Alloc(1, len(values))
	defer y.Free()
	dev.Upload(y, values)
	sol, err := s.Solve(t.Context(), y)
	if err != nil {
		t.Fatal(err)
	}
	return sol
}

// thresholds is soft thresholding of d values, a tenth of them signal, over a grid of weights.
func thresholds(dev array.Device, d int) (f pipeline.Family, mu []float64, grid [][]float64) {
	mu = make([]float64, d)
	for i := range d / 10 {
		mu[i] = 3
	}
	f = pipeline.Family{
		Problem: vjp.Problem{A: linops.Identity(d), Device: dev}, Solver: "fista",
		Regularizer: func(w []float64) (prox.Prox, error) { return prox.NewL1(w[0]), nil },
	}
	return f, mu, [][]float64{axis(0.3, 4, 10)}
}

// Over draws of y the errors of differences cover as often as those of a normal variable, for near
// pairs and for far ones, by SURE and GCV; and the optimism corrects the least SURE.
func TestErrorsOfDifferencesAreCalibrated(t *testing.T) {
	if testing.Short() {
		t.Skip("short: statistics depend on neither the device nor the BLAS")
	}
	const d, draws = 300, 100
	dev := array.NewHost()
	f, mu, grid := thresholds(dev, d)
	for _, criterion := range []risk.Criterion{risk.SURE, risk.GCV} {
		within := map[string][3]float64{}
		optimism, excess := 0.0, 0.0
		o := pipeline.SweepOptions{Criterion: criterion, Refine: -1, Mu: mu, Options: pipeline.Options{Sigma2: 1}}
		by := risk.Comparison{Criterion: criterion, Sigma2: 1}
		scale := map[risk.Criterion]float64{risk.SURE: 1, risk.GCV: 1.0 / d}[criterion]
		rng := rand.New(rand.NewPCG(5, 6))
		for range draws {
			y := slices.Clone(mu)
			for i := range y {
				y[i] += rng.NormFloat64()
			}
			points := sweepPoints(t, y, f, grid, o)
			last := points[len(points)-1]
			fit := func(i int) risk.Fit { return risk.Fit{Value: points[i].Value(criterion), Digest: points[i].Digest} }
			for _, pair := range []struct {
				name string
				i, j int
			}{{"near", 4, 5}, {"far", 1, 7}} {
				diff := by.Difference(fit(pair.i), fit(pair.j))
				z := math.Abs(diff.Value-scale*(points[pair.i].Loss-points[pair.j].Loss)) / diff.StdErr
				n := within[pair.name]
				for k, bars := range []float64{1, 2, 3} {
					if z <= bars {
						n[k] += 1.0 / draws
					}
				}
				within[pair.name] = n
			}
			// The error of a fixed point stands for what all have in common.
			excess += (last.Loss - last.SURE - (points[4].Loss - points[4].SURE)) / draws
			optimism += last.Choice.Optimism.Value / draws
		}
		t.Logf("%s: within 1, 2, 3 errors %v; the least SURE is %.2f too small, estimated %.2f", criterion, within,
			excess, optimism)
		for name, n := range within {
			// GCV's is too large where df is a large part of d.
			if n[0] < 0.55 || n[1] < 0.89 || criterion == risk.SURE && n[0] > 0.81 {
				t.Errorf("%s, %s pair: within 1 and 2 errors in %.3f and %.3f of the draws", criterion, name, n[0],
					n[1])
			}
		}
		if criterion == risk.SURE && !(math.Abs(optimism-excess) < 0.35*excess+1) {
			t.Errorf("the least SURE is %.2f too small, estimated %.2f", excess, optimism)
		}
		if known := !math.IsNaN(optimism); known != (criterion != risk.GCV) { // of 300 observations, projections
			t.Errorf("%s: optimism %g", criterion, optimism)
		}
	}
}

func sweepPoints(t testing.TB, y []float64, f pipeline.Family, grid [][]float64,
	o pipeline.SweepOptions) []pipeline.SweepPoint {
	t.Helper()
	var points []pipeline.SweepPoint
	for p, err := range pipeline.Sweep(context.Background(), y, f, grid, o) {
		if err != nil {
			t.Fatal(err)
		}
		points = append(points, p)
	}
	return points
}

// The rule of one standard error takes the fit of least df among those that cannot be told from the
// minimizer, and yields it with its estimate; a sweep that continues chooses the same.
func TestTheSimplestFitWithinOneStandardError(t *testing.T) {
	dev := array.NewHost()
	f, y, _ := thresholds(dev, 300)
	rng := rand.New(rand.NewPCG(9, 1))
	for i := range y {
		y[i] += rng.NormFloat64()
	}
	c, grid := curve{Family: f, y: y}, [][]float64{axis(0.3, 4, 30)}
	o := pipeline.SweepOptions{Rule: pipeline.OneStdErrRule, Options: pipeline.Options{Sigma2: 1}}
	points := collect(t, c, grid, o)
	chosen, minimizer := points[len(points)-1], points[len(points)-2]
	choice := minimizer.Choice
	if chosen.Stage != pipeline.ChosenStage || minimizer.Stage != pipeline.MinimizerStage ||
		chosen.Index != choice.Chosen || len(chosen.MuHat) != len(c.y) {
		t.Fatalf("the last points are %s and %s, choice %+v", minimizer.Stage, chosen.Stage, choice)
	}
	if !(chosen.Trace.Trace < minimizer.Trace.Trace) || !(chosen.Weights[0] > minimizer.Weights[0]) {
		t.Errorf("df %g at %v was chosen, the minimizer has %g at %v", chosen.Trace.Trace, chosen.Weights,
			minimizer.Trace.Trace, minimizer.Weights)
	}
	for i, p := range points[:len(points)-2] {
		diff := choice.Differences[i]
		alike := diff.Value <= diff.StdErr
		if alike != slices.Contains(choice.Alike, i) {
			t.Errorf("point %d: difference %+v, alike %v", i, diff, choice.Alike)
		}
		if alike && p.Trace.Trace < chosen.Trace.Trace {
			t.Errorf("point %d is simpler than the chosen one", i)
		}
	}
	for _, first := range []int{3, len(points) - 2} {
		o.Known = known(points[:first])
		rest := collect(t, c, grid, o)
		again := rest[len(rest)-1]
		if again.Index != chosen.Index || again.SURE != chosen.SURE || !slices.Equal(again.MuHat, chosen.MuHat) ||
			!slices.Equal(rest[len(rest)-2].Choice.Differences, choice.Differences) {
			t.Errorf("resumed after %d points: %d was chosen, expected %d", first, again.Index, chosen.Index)
		}
	}
	// Points of which no digest is known are told, and never chosen.
	o.Known = known(points[:4])
	for i := range o.Known {
		o.Known[i].Digest = nil
	}
	rest := collect(t, c, grid, o)
	if got := rest[len(rest)-2].Choice; got.Incomparable != 4 || !math.IsNaN(got.Differences[0].StdErr) ||
		got.Chosen != choice.Chosen {
		t.Errorf("without digests: %+v", got)
	}
	for _, bad := range []pipeline.SweepOptions{{Rule: "2se"}, {Rule: pipeline.OneStdErrRule, Criterion: risk.BIC},
		{Sigma2RelStdErr: -1}} {
		bad.Sigma2 = 1
		for _, err := range pipeline.Sweep(t.Context(), c.y, c.Family, grid, bad) {
			if err == nil {
				t.Fatalf("%+v was accepted", bad)
			}
		}
	}
}

// Rows that alone decide columns are found among the entries of a sparse matrix, with its columns' means or without
// them: it is never filled with zeros.
func TestLoneRowsOfASparseMatrix(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d, p = 500, 20000
		for _, lone := range []bool{false, true} {
			indptr, indices, values := []int{0}, []int{}, []float64{}
			for i := range d {
				for j := i % 250; j < p; j += 250 { // twice in each column
					if !lone || j != 7 || i < 250 {
						indices, values = append(indices, j), append(values, 1)
					}
				}
				indptr = append(indptr, len(indices))
			}
			a, err := linops.NewCSR(dev, d, p, indptr, indices, values)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Release()
			centered := additive.NewCentered(dev, a)
			defer centered.Release()
			for name, a := range map[string]linops.Operator{"as it is": a, "without means": centered} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if got := pipeline.LoneRows(vjp.Problem{A: a, R: prox.NewL1(1)}); got != lone {
					t.Errorf("%s: a lone row is found: %v, expected %v", name, got, lone)
				}
				runtime.ReadMemStats(&after)
				if got := after.TotalAlloc - before.TotalAlloc; got > 8*d*p/10 {
					t.Errorf("%s: %d bytes for %d entries", name, got, len(values))
				}
			}
		}
	})
}
