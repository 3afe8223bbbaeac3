package pipeline_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/stages"
	"surepipe/vjp"
)

var calibrationSeeds = flag.Int("calibration", 0,
	"seeds of the full study of the error bar of leave-one-out from probes; 0 for the short one")

// replay is a solver that gives the solution at one y, with its Jacobian as a matrix. With closed set its
// trace is known, and nothing else is.
type replay struct {
	problem  vjp.Problem
	b, mu    array.Batch
	jacobian array.Batch // d x d, symmetric
	closed   bool
}

func (r replay) Name() string         { return "replay" }
func (r replay) Release()             {}
func (r replay) Problem() vjp.Problem { return r.problem }
func (r replay) SolveFrom(ctx context.Context, y array.Batch, _ vjp.From) (*vjp.Solution, error) {
	return r.Solve(ctx, y)
}
func (r replay) Reweight(context.Context, prox.Prox) (vjp.Solver, error) { return r, nil }
func (replay) Again(context.Context, vjp.Problem) (vjp.Solver, error) {
	return nil, errors.ErrUnsupported
}

func (r replay) Solve(_ context.Context, y array.Batch) (*vjp.Solution, error) {
	dev := y.Device()
	m := matrix{given: given{r.jacobian}}
	m.Plain = vjp.Plain{Images: m.VJP}
	s := &vjp.Solution{B: dev.Alloc(1, r.b.N()), MuHat: dev.Alloc(1, y.N()), Linearization: m,
		Convergence: vjp.Convergence{Converged: true}}
	if r.closed {
		s.Linearization = traced{m}
	}
	dev.Copy(s.B, r.b)
	dev.Copy(s.MuHat, r.mu)
	return s, nil
}

// traced is a matrix whose trace is known.
type traced struct{ matrix }

func (t traced) Closed() vjp.Closed {
	c, n := vjp.Closed{Known: true, Margin: math.Inf(1)}, t.jacobian.N()
	for i, v := range t.jacobian.ToHost() {
		c.Frobenius2 += v * v
		if i%(n+1) == 0 {
			c.Trace += v
		}
	}
	c.Low, c.High = c.Trace, c.Trace
	return c
}

// replayed solves a problem at its data, and returns the solver of its solution and Jacobian.
func replayed(t testing.TB, dev array.Device, c calibrationCase) replay {
	t.Helper()
	p, err := problems.New(c.name, dev, c.data, c.hyper)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Release)
	s, err := vjp.NewSolver(t.Context(), p.DefaultSolver, p.Solve(), vjp.Options{Tol: 1e-9})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	y := stages.Observations(dev, p.Solve(), c.data.Y)
	t.Cleanup(y.Free)
	sol, err := s.Solve(t.Context(), y)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sol.Release)
	identity, out := dev.Alloc(p.D, p.D), dev.Alloc(p.D, p.D)
	defer identity.Free()
	t.Cleanup(out.Free)
	hutch.UnitVectors(identity, 0)
	if err := sol.Linearization.VJP(t.Context(), out, identity); err != nil {
		t.Fatal(err)
	}
	return replay{problem: p.Solve(), b: sol.B, mu: sol.MuHat, jacobian: out}
}

// calibrationCase is a problem at a weight.
type calibrationCase struct {
	label, name string
	data        problems.Data
	hyper       problems.Hyper
}

// normalTable has d rows of p normal numbers, with a heavy tail of their lengths where wanted, and a
// response to the first five columns.
func normalTable(rng *rand.Rand, d, p int, heavy bool) problems.Data {
	x, b, y := mat.NewDense(d, p, nil), gaussian(rng, p), gaussian(rng, d)
	for i := range d {
		s := 1.0
		if heavy {
			s = 1 / math.Sqrt(rng.Float64())
		}
		for j := range p {
			x.Set(i, j, s*rng.NormFloat64())
			if j < 5 {
				y[i] += x.At(i, j) * b[j]
			}
		}
	}
	return problems.Data{X: x, Y: y}
}

// calibrationCases are problems of every kind, with leverages from low to near 1.
func calibrationCases(t testing.TB) (all []calibrationCase) {
	t.Helper()
	add := func(label, name string, data problems.Data, err error, weights ...problems.Weight) {
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range weights {
			c := calibrationCase{fmt.Sprintf("%s/%d", label, i), name, data, problems.Hyper{Lambda: w}}
			if name == "robust-pca" { // entries of the sparse part determine their own fit: it is to be empty
				c.hyper.Gamma = problems.OfMax(2)
			}
			all = append(all, c)
		}
	}
	of := problems.OfMax
	rng := rand.New(rand.NewPCG(1, 2))
	add("lasso", "lasso", normalTable(rng, 150, 200, false), nil, of(0.5), of(0.2), of(0.1), of(0.05), of(0.02))
	add("lasso, heavy rows", "lasso", normalTable(rng, 150, 60, true), nil, of(0.2), of(0.05), of(0.01))
	add("ridge", "ridge", normalTable(rng, 120, 80, false), nil, problems.Absolute(300), problems.Absolute(30),
		problems.Absolute(1))
	add("ridge, heavy rows", "ridge", normalTable(rng, 120, 40, true), nil, problems.Absolute(30), problems.Absolute(1))
	centered := normalTable(rng, 150, 200, false)
	centered.Intercept = true
	add("lasso with intercept", "lasso", centered, nil, of(0.2), of(0.05))
	rpca, err := problems.GenerateSVT(16, 16, 1)
	add("robust-pca", "robust-pca", rpca, err, of(0.1))
	svt, err := problems.GenerateSVT(14, 10, 1)
	add("svt", "svt", svt, err, of(0.5), of(0.2), of(0.1), of(0.05))
	ratings, err := problems.GenerateRatings(40, 30, 300, 2, 1)
	add("completion", "matrix-completion", ratings, err, of(0.5), of(0.3), of(0.15))
	ratings.Effects = problems.Effects{Mean: true, Rows: true, Columns: true}
	add("completion with effects", "matrix-completion", ratings, err, of(0.5), of(0.3), of(0.15))
	logistic := normalTable(rng, 150, 40, false)
	for i, v := range logistic.Y {
		logistic.Y[i] = 0
		if v+rng.NormFloat64() > 0 {
			logistic.Y[i] = 1
		}
	}
	logistic.Loss = problems.Loss{Name: "logistic"}
	add("logistic", "lasso", logistic, nil, of(0.2), of(0.05))
	return all
}

// aloOverSeeds are the results of a pipeline with the probes of each seed.
func aloOverSeeds(t testing.TB, solver vjp.Solver, y []float64, o pipeline.Options, seeds int) (all []pipeline.Risk) {
	t.Helper()
	o.ALO = true
	pipe, err := pipeline.New(solver, o)
	if err != nil {
		t.Fatal(err)
	}
	each := func(yield func(uint64) bool) {
		for s := range uint64(seeds) {
			if !yield(s) {
				return
			}
		}
	}
	for r, err := range pipe.Repeat(t.Context(), 0, y, each) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// Twice the error bar of leave-one-out from probes holds the exact value, or the number is null: in the
// full study, with -calibration 2000, in 92% to 99% of the seeds for each problem and number of probes;
// in the short one, where that is a matter of chance, over all of them. Where most seeds are null the
// others are a choice of these, and what counts is how many are wrong and not null.
func TestLeaveOneOutCalibration(t *testing.T) {
	seeds, full := *calibrationSeeds, *calibrationSeeds > 0
	counts := []int{6, 18, 24, 34, 48, 102}
	if !full {
		seeds, counts = 20, []int{18, 24, 48}
	}
	dev := array.NewHost()
	known, covered := 0.0, 0.0
	for _, c := range calibrationCases(t) {
		for _, closed := range []bool{false, true} {
			solver := replayed(t, dev, c)
			solver.closed = closed
			exact := aloOverSeeds(t, solver, c.data.Y, pipeline.Options{Estimator: hutch.Exact}, 1)[0]
			if exact.ALOProbesErr != 0 || !(exact.ALO > 0) {
				t.Fatalf("%s: exact %g ± %g, %v", c.label, exact.ALO, exact.ALOProbesErr, exact.ALOErr)
			}
			for _, probes := range counts {
				o := pipeline.Options{Estimator: hutch.Hutchinson, Queries: probes}
				if closed {
					if o = (pipeline.Options{}); probes != 48 {
						continue
					}
				}
				var within [4]float64
				n := 0.0
				for _, r := range aloOverSeeds(t, solver, c.data.Y, o, seeds) {
					if math.IsNaN(r.ALO) {
						if few := probes < hutch.LeastProbes; few == (r.Unresolved > 0) || r.ALOErr == nil {
							t.Fatalf("%s, %d probes: %d unresolved, %v", c.label, probes, r.Unresolved, r.ALOErr)
						}
						continue
					}
					n++
					off := math.Abs(r.ALO-exact.ALO) - 1e-7*exact.ALO
					for k := range within {
						if off <= float64(k)*r.ALOProbesErr {
							within[k]++
						}
					}
				}
				known, covered = known+n, covered+within[2]
				t.Logf("%-28s %5t, %3d probes: %3.0f%% null, %5.1f %5.1f %5.1f%% within 1, 2, 3 bars",
					fmt.Sprintf("%s, df/d %.2f", c.label, exact.Trace.Trace/float64(exact.D)), closed, probes,
					100*(1-n/float64(seeds)), 100*within[1]/n, 100*within[2]/n, 100*within[3]/n)
				if probes < hutch.LeastProbes && n > 0 {
					t.Errorf("%s: leave-one-out from %d probes", c.label, probes)
				}
				if wrong := (n - within[2]) / float64(seeds); full && n > 0 &&
					(wrong > 0.08 || wrong < 0.01 && n == float64(seeds)) {
					t.Errorf("%s, %d probes: 2 bars do not hold the exact value in %.1f%%", c.label, probes, 100*wrong)
				}
			}
		}
	}
	t.Logf("%.1f%% of %g within 2 bars", 100*covered/known, known)
	if p := covered / known; p < 0.945 || p > 0.985 {
		t.Errorf("2 bars hold the exact value in %.1f%% of %g", 100*p, known)
	}
}

// Hutch++ does not show the diagonal: it projects its probes off a sketch.
func TestASketchHidesTheDiagonal(t *testing.T) {
	c := calibrationCases(t)[2]
	solver := replayed(t, array.NewHost(), c)
	alo := func(estimator string, queries int) pipeline.Risk {
		return aloOverSeeds(t, solver, c.data.Y, pipeline.Options{Estimator: estimator, Queries: queries}, 1)[0]
	}
	if got := alo(hutch.HutchPP, 102); !math.IsNaN(got.ALO) || got.ALOErr != pipeline.ErrNoDiagonal {
		t.Errorf("hutch++: %g, %v", got.ALO, got.ALOErr)
	}
}
