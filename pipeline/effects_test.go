package pipeline_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/vjp"
)

// ratings are a share of the entries of an m x n matrix, effects of rows and columns plus a matrix of
// rank 2 plus noise, and in the last row a single entry. Places are in no order.
func ratings(m, n int, share float64, weighted bool) problems.Data {
	rng := rand.New(rand.NewPCG(21, uint64(m)))
	normal := func(k int) []float64 {
		x := make([]float64, k)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		return x
	}
	r, c, u, v := normal(m), normal(n), normal(2*m), normal(2*n)
	data := problems.Data{Shape: []int{m, n}}
	for _, place := range rng.Perm(m * n) {
		i, j := place/n, place%n
		if rng.Float64() > share && place != (m-1)*n || i == m-1 && j > 0 {
			continue
		}
		data.Indices = append(data.Indices, place)
		data.Y = append(data.Y, 3+2*r[i]+c[j]+1.5*u[2*i]*v[2*j]+u[2*i+1]*v[2*j+1]+0.5*rng.NormFloat64())
		if weighted {
			data.Weights = append(data.Weights, 0.5+rng.Float64())
		}
	}
	return data
}

// completionAt opens a completion, solved as far as rounding allows.
func completionAt(t *testing.T, dev array.Device, data problems.Data, lambda problems.Weight) (*problems.Problem,
	vjp.Solver) {
	t.Helper()
	problem, err := problems.New("matrix-completion", dev, data, problems.Hyper{Lambda: lambda})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(problem.Release)
	solver, err := vjp.NewSolver(t.Context(), problem.DefaultSolver, problem.Solve(),
		vjp.Options{Tol: 1e-10, MaxIter: 100000, Images: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(solver.Release)
	return problem, solver
}

// joint is the same estimate with the effects as coordinates without a penalty: [S Z] (B, theta), by
// iterations on all of them. The columns of Z have unit length.
func joint(t *testing.T, dev array.Device, data problems.Data, lambda float64, o pipeline.Options) pipeline.Risk {
	t.Helper()
	m, n, d := data.Shape[0], data.Shape[1], len(data.Y)
	s, err := linops.NewSelection(dev, m*n, data.Indices)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	count := make([]float64, m+n)
	for _, c := range data.Indices {
		count[c/n]++
		count[m+c%n]++
	}
	var indptr, indices []int
	var values []float64
	for _, c := range data.Indices {
		indptr = append(indptr, len(indices))
		for _, g := range []int{c / n, m + c%n} {
			indices, values = append(indices, g), append(values, 1/math.Sqrt(count[g]))
		}
	}
	z, err := linops.NewCSR(dev, d, m+n, append(indptr, len(indices)), indices, values)
	if err != nil {
		t.Fatal(err)
	}
	p := vjp.Problem{
		A: linops.HStack(s, z), Device: dev,
		R: prox.NewSeparable(prox.Block{Prox: lowrank.NewNuclear(array.Shape{Rows: m, Cols: n}, lambda), N: m * n},
			prox.Block{Prox: prox.Zero(), N: m + n}),
	}
	if data.Weights != nil {
		l, err := loss.WeightedSquared(dev, data.Weights)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
		p.Loss = l
	}
	solver, err := vjp.NewSolver(t.Context(), "fista", p, vjp.Options{Tol: 1e-10, MaxIter: 100000})
	if err != nil {
		t.Fatal(err)
	}
	defer solver.Release()
	risk, err := newPipeline(t, solver, o).Estimate(t.Context(), data.Y)
	if err != nil {
		t.Fatal(err)
	}
	return risk
}

// Effects that are projected out give the estimate, divergence and ||D||_F^2 of the problem in which
// they are unpenalized coordinates, on dense and on factored iterates, with weights too.
func TestEffectsAreUnpenalizedCoordinates(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, c := range []struct {
			m, n     int
			share    float64
			weighted bool
		}{{12, 9, 0.6, false}, {9, 14, 0.5, true}, {64, 64, 0.2, false}} {
			// The exact trace of the larger one takes long.
			o := pipeline.Options{Estimator: hutch.Exact}
			if c.m == 64 {
				o = pipeline.Options{Estimator: hutch.Hutchinson, Queries: 16}
			}
			data := ratings(c.m, c.n, c.share, c.weighted)
			data.Effects = problems.Effects{Mean: true, Rows: true, Columns: true}
			problem, solver := completionAt(t, dev, data, problems.OfMax(0.5))
			var got pipeline.Risk
			leaks(t, dev, func() {
				var err error
				if got, err = newPipeline(t, solver, o).Estimate(t.Context(), data.Y); err != nil {
					t.Fatal(err)
				}
			})
			if factored := slices.ContainsFunc(got.Choices,
				func(v vjp.Choice) bool { return v.Chosen == "iterates in factored form" }); factored != (c.m == 64) {
				t.Errorf("%+v: %+v", c, got.Choices)
			}
			want := joint(t, array.NewHost(), data, problem.Lambda, o)
			if !got.Converged || !want.Converged {
				t.Fatalf("%+v: converged %t, %t", c, got.Converged, want.Converged)
			}
			for i, v := range want.MuHat {
				if math.Abs(v-got.MuHat[i]) > 1e-6 {
					t.Fatalf("%+v: mu_hat %d is %v, expected %v", c, i, got.MuHat[i], v)
				}
			}
			for _, v := range []struct {
				name            string
				got, want, bars float64
			}{
				{"divergence", got.Trace.Trace, want.Trace.Trace, got.Trace.Error() + want.Trace.Error()},
				{"residual", got.Residual, want.Residual, 0},
				{"||D||^2", got.Trace.Frobenius2, want.Trace.Frobenius2, 0}, {"SURE", got.SURE, want.SURE, 0},
				{"gcv", got.GCV, want.GCV, 0},
			} {
				if c.m == 64 && v.bars == 0 && v.name != "residual" {
					continue
				}
				if math.Abs(v.got-v.want) > 1e-5*math.Abs(v.want)+4*v.bars {
					t.Errorf("%+v: %s %.9g, expected %.9g", c, v.name, v.got, v.want)
				}
			}
			// The effects and B make up mu_hat.
			e := problem.FitEffectsAt(got.MuHat, lists.Pick(got.B, problem.Observed()))
			for i, place := range data.Indices {
				if fit := e.At(place/c.n, place%c.n) + got.B[place]; math.Abs(fit-got.MuHat[i]) > 1e-9 {
					t.Fatalf("%+v: effects and B give %v at entry %d, mu_hat is %v", c, fit, i, got.MuHat[i])
				}
			}
		}
	})
}

// The diagonal is that of central differences of the whole estimate: the divergence is its sum, and
// leave-one-out divides the residuals by 1 minus it, but for the single entry of the last row, which
// cannot be left out.
func TestEffectsAgainstCentralDifferences(t *testing.T) {
	dev := array.NewHost()
	data := ratings(10, 8, 0.8, false)
	data.Effects = problems.Effects{Mean: true, Rows: true, Columns: true}
	_, solver := completionAt(t, dev, data, problems.OfMax(0.4))
	p := newPipeline(t, solver, pipeline.Options{Estimator: hutch.Exact, ALO: true})
	at := func(y []float64) pipeline.Risk {
		r, err := p.Estimate(t.Context(), y)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	got := at(data.Y)
	const h = 1e-4
	divergence, left, n := 0.0, 0.0, 0.0
	steps := make([]float64, len(data.Y))
	for i, v := range data.Y {
		data.Y[i] = v + h
		up := at(data.Y).MuHat[i]
		data.Y[i] = v - h
		slope := (up - at(data.Y).MuHat[i]) / (2 * h)
		data.Y[i] = v
		divergence += slope
		if data.Indices[i]/8 != 9 {
			e := (v - got.MuHat[i]) / (1 - slope)
			left += e * e
			steps[i] = e * math.Sqrt(float64(got.D)/float64(got.D-1))
			n++
		}
	}
	if math.Abs(got.Trace.Trace-divergence) > 1e-4 {
		t.Errorf("divergence %v, by central differences %v", got.Trace.Trace, divergence)
	}
	if got.NotLeftOut != 1 {
		t.Errorf("%d entries are not left out, expected 1", got.NotLeftOut)
	}
	withRefits(t, got, data.Y, steps, func(y []float64) []float64 { return at(y).MuHat })
	// Probes know of the effects too.
	probes, err := newPipeline(t, solver, pipeline.Options{Estimator: hutch.Hutchinson,
		Queries: 400}).Estimate(t.Context(), data.Y)
	if err != nil {
		t.Fatal(err)
	}
	if off := probes.ALO - left/n; math.Abs(off) > 4*probes.ALOProbesErr+1e-3*left/n {
		t.Errorf("leave-one-out from probes %v ± %v, exact %v", probes.ALO, probes.ALOProbesErr, left/n)
	}
}

// Above the largest weight that keeps anything only the effects are left, and leave-one-out is that of
// refits to rounding.
func TestEffectsAloneAgainstRefits(t *testing.T) {
	dev := array.NewHost()
	data := ratings(7, 6, 0.8, false)
	data.Effects = problems.Effects{Mean: true, Rows: true, Columns: true}
	problem, solver := completionAt(t, dev, data, problems.OfMax(3))
	got, err := newPipeline(t, solver, pipeline.Options{Estimator: hutch.Exact, ALO: true}).Estimate(t.Context(),
		data.Y)
	if err != nil {
		t.Fatal(err)
	}
	sum, n := 0.0, 0.0
	for i, place := range data.Indices {
		if place/6 == 6 {
			continue
		}
		rest := data
		rest.Y = append(append([]float64(nil), data.Y[:i]...), data.Y[i+1:]...)
		rest.Indices = append(append([]int(nil), data.Indices[:i]...), data.Indices[i+1:]...)
		less, s := completionAt(t, dev, rest, problems.Absolute(problem.Lambda))
		r, err := newPipeline(t, s, pipeline.Options{}).Estimate(t.Context(), rest.Y)
		if err != nil {
			t.Fatal(err)
		}
		e := data.Y[i] - less.FitEffectsAt(r.MuHat, lists.Pick(r.B, less.Observed())).At(place/6, place%6)
		sum += e * e
		n++
	}
	if math.Abs(got.ALO/(sum/n)-1) > 1e-9 {
		t.Errorf("leave-one-out %v, by refits %v", got.ALO, sum/n)
	}
}
