package pipeline_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/risk"
	"surepipe/verify"
	"surepipe/vjp"
)

// unknown is a problem's risk at its y without sigma2, with leave-one-out.
func unknown(t *testing.T, dev array.Device, name string, data problems.Data, hyper problems.Hyper) pipeline.Risk {
	t.Helper()
	p, err := problems.New(name, dev, data, hyper)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	solver, err := vjp.NewSolver(t.Context(), p.DefaultSolver, p.Solve(), vjp.Options{Tol: 1e-12, MaxIter: 100000})
	if err != nil {
		t.Fatal(err)
	}
	defer solver.Release()
	pipe, err := pipeline.New(solver, pipeline.Options{ALO: true, KeepB: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := pipe.Estimate(t.Context(), data.Y)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func weight(text string) problems.Weight {
	w, err := problems.ParseWeight(text)
	if err != nil {
		panic(err)
	}
	return w
}

// predictions is the prediction at every row of x by the problem's fit to the rows of data.
func predictions(t *testing.T, dev array.Device, name string, data problems.Data, hyper problems.Hyper,
	x *mat.Dense) []float64 {
	t.Helper()
	p, err := problems.New(name, dev, data, hyper)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	solver, err := vjp.NewSolver(t.Context(), p.DefaultSolver, p.Solve(), vjp.Options{Tol: 1e-12, MaxIter: 100000})
	if err != nil {
		t.Fatal(err)
	}
	defer solver.Release()
	pipe, err := pipeline.New(solver, pipeline.Options{KeepB: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := pipe.Estimate(t.Context(), data.Y)
	if err != nil {
		t.Fatal(err)
	}
	constant := 0.0
	if data.Intercept {
		constant, _ = p.Intercept(r.MuHat, r.B)
	}
	rows, _ := x.Dims()
	out := make([]float64, rows)
	for i := range rows {
		out[i] = constant
		for j, v := range x.RawRowView(i) {
			out[i] += v * r.B[j]
		}
	}
	return out
}

// leftOut is the mean of squared errors of fits without one observation, and its standard error.
func leftOut(t *testing.T, dev array.Device, name string, data problems.Data, hyper problems.Hyper) (mean,
	stdErr float64) {
	t.Helper()
	d, p := data.X.Dims()
	errs := make([]float64, d)
	for i := range d {
		less := data
		less.X, less.Y = mat.NewDense(d-1, p, nil), slices.Delete(slices.Clone(data.Y), i, i+1)
		less.YShape, less.Mu = nil, nil
		for k := range d - 1 {
			at := k
			if k >= i {
				at++
			}
			less.X.(*mat.Dense).SetRow(k, data.X.(*mat.Dense).RawRowView(at))
		}
		row := mat.NewDense(1, p, slices.Clone(data.X.(*mat.Dense).RawRowView(i)))
		errs[i] = data.Y[i] - predictions(t, dev, name, less, hyper, row)[0]
	}
	mean, stdErr, err := risk.LeaveOneOut(errs, make([]float64, d))
	if err != nil {
		t.Fatal(err)
	}
	return mean, stdErr
}

// Without sigma2, with and without an intercept: OLS and ridge regression have the leave-one-out
// error of refits, and all have the criteria of dense formulas. For the LASSO, leave-one-out is that
// of refits as long as none changes the support.
func TestRegressionsWithoutSigma2AgainstRefits(t *testing.T) {
	dev := array.NewHost()
	for name, c := range map[string]struct {
		hyper problems.Hyper
		// gap is the relative difference that is allowed between leave-one-out and refits.
		gap float64
	}{
		"ols":         {gap: 1e-8},
		"ridge":       {hyper: problems.Hyper{Lambda: weight("7")}, gap: 1e-8},
		"lasso":       {hyper: problems.Hyper{Lambda: weight("3")}, gap: 1e-8},
		"elastic-net": {hyper: problems.Hyper{Lambda: weight("3"), Lambda2: weight("2")}, gap: 1e-8},
	} {
		for _, intercept := range []bool{false, true} {
			data := regression(40, 6)
			data.Intercept = intercept
			r := unknown(t, dev, name, data, c.hyper)
			if !math.IsNaN(r.SURE) || !math.IsNaN(r.StdErr) || r.Sigma2 != 0 || r.Floored || len(r.Warnings()) > 0 ||
				!r.Converged {
				t.Errorf("%s: SURE %g ± %g without sigma2; %v", name, r.SURE, r.StdErr, r.Warnings())
			}
			mean, stdErr := leftOut(t, dev, name, data, c.hyper)
			if math.Abs(r.ALO-mean) > c.gap*mean || math.Abs(r.ALOStdErr-stdErr) > 3*c.gap*stdErr {
				t.Errorf("%s, intercept %t: leave-one-out %.10g ± %.10g, refits %.10g ± %.10g", name, intercept,
					r.ALO, r.ALOStdErr, mean, stdErr)
			}
			t.Logf("%s, intercept %t: leave-one-out %.6g, off refits by %.1e; gcv %.6g ± %.2g", name, intercept,
				r.ALO, r.ALO/mean-1, r.GCV, r.GCVStdErr)
			d, rss := float64(len(data.Y)), 0.0
			for i, y := range data.Y {
				rss += (y - r.MuHat[i]) * (y - r.MuHat[i])
			}
			df := denseDF(data, r.B, c.hyper, name)
			for what, v := range map[string][2]float64{
				"df": {r.Trace.Trace, df}, "gcv": {r.GCV, d * rss / (d - df) / (d - df)},
				"sigma2": {r.Sigma2DF, rss / (d - df)},
				"aic":    {r.AIC, d*math.Log(2*math.Pi*rss/d) + d + 2*(df+1)},
				"bic":    {r.BIC, d*math.Log(2*math.Pi*rss/d) + d + math.Log(d)*(df+1)},
			} {
				if math.Abs(v[0]-v[1]) > 1e-8*math.Abs(v[1]) {
					t.Errorf("%s, intercept %t: %s is %.12g, expected %.12g", name, intercept, what, v[0], v[1])
				}
			}
		}
	}
}

// denseDF is the trace of the hat matrix of the active columns.
func denseDF(data problems.Data, b []float64, hyper problems.Hyper, name string) float64 {
	ridge := map[string]float64{"ridge": 7, "elastic-net": 2}[name]
	x := mat.DenseCopyOf(data.X)
	d, p := x.Dims()
	df := 0.0
	if data.Intercept {
		df = 1
		for j := range p {
			mean := mat.Sum(x.ColView(j)) / float64(d)
			for i := range d {
				x.Set(i, j, x.At(i, j)-mean)
			}
		}
	}
	return df + ridgeTrace(columns(x, b), ridge)
}

// Leave-one-out of the LASSO is near refits, and of few observations it is theirs.
func TestLeaveOneOutOfTheLassoApproachesRefits(t *testing.T) {
	dev := array.NewHost()
	var gaps []float64
	for _, d := range []int{20, 160} {
		gap := 0.0
		for seed := range uint64(4) {
			rng := rand.New(rand.NewPCG(seed, 11))
			p := d / 2
			data := problems.Data{X: mat.NewDense(d, p, nil), Y: make([]float64, d)}
			for i := range d {
				for j := range p {
					data.X.(*mat.Dense).Set(i, j, rng.NormFloat64()/math.Sqrt(float64(d)))
				}
				for j := range p / 4 {
					data.Y[i] += 3 * data.X.At(i, j)
				}
				data.Y[i] += 0.5 * rng.NormFloat64()
			}
			hyper := problems.Hyper{Lambda: weight("0.3")}
			r := unknown(t, dev, "lasso", data, hyper)
			mean, _ := leftOut(t, dev, "lasso", data, hyper)
			gap += math.Abs(r.ALO/mean-1) / 4
		}
		gaps = append(gaps, gap)
	}
	t.Logf("mean gaps %.2g at d = 20, %.2g at d = 160", gaps[0], gaps[1])
	if gaps[0] > 1e-6 || gaps[1] > 0.04 {
		t.Errorf("gaps %v", gaps)
	}
}

// A unit of y that changes changes the criteria with it, also where the trace is estimated: what
// stands in for sigma2 has the units of y^2.
func TestCriteriaWithoutSigma2AreEquivariant(t *testing.T) {
	dev := array.NewHost()
	const d, p = 300, 200
	rng := rand.New(rand.NewPCG(5, 6))
	x, y := gaussian(rng, d*p), gaussian(rng, d)
	var first pipeline.Risk
	for _, unit := range []float64{1, 0x1p-40, 0x1p+60} {
		a := linops.NewDense(dev, mat.NewDense(d, p, x))
		s, err := vjp.NewSolver(t.Context(), "fista", vjp.Problem{A: a, R: prox.NewL1(60 * unit), Device: dev},
			vjp.Options{Tol: 1e-9})
		if err != nil {
			t.Fatal(err)
		}
		pipe, err := pipeline.New(s, pipeline.Options{Estimator: "hutchinson", Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		r, err := pipe.Estimate(t.Context(), scaled(unit, slices.Clone(y)))
		if err != nil {
			t.Fatal(err)
		}
		s.Release()
		a.Release()
		if unit == 1 {
			first = r
			// The trace's share of the error is at most a fifth, as where sigma2 is the residual variance.
			terms := r.Terms()
			terms.Sigma2 = r.Sigma2DF
			if share := terms.StdErrOfTrace(r.Trace.Error()) / terms.Scale(terms.UnbiasedStdErr()); share > 1.3*pipeline.DefaultTraceError ||
				r.Trace.Exact {
				t.Errorf("the trace's share of the error is %g with %d queries", share, r.Trace.Queries)
			}
			if want := 2 * r.GCV / (d - r.Trace.Trace) * r.Trace.Error(); math.Abs(r.GCVTraceErr-want) > 1e-12*want ||
				r.GCVStdErr < r.GCVTraceErr {
				t.Errorf("the trace's share of GCV's error is %g, expected %g", r.GCVTraceErr, want)
			}
			continue
		}
		if r.Trace.Queries != first.Trace.Queries || math.Abs(r.GCV/unit/unit/first.GCV-1) > 1e-9 ||
			math.Abs(r.Sigma2DF/unit/unit/first.Sigma2DF-1) > 1e-9 {
			t.Errorf("unit %g: gcv %g with %d queries, expected %g with %d", unit, r.GCV, r.Trace.Queries,
				first.GCV*unit*unit, first.Trace.Queries)
		}
	}
}

// Fits without residual degrees of freedom are never the minimizer of GCV, and where all are, the
// sweep says so.
func TestSweepLeavesOutWhereTheCriterionIsNotDefined(t *testing.T) {
	dev := array.NewHost()
	rng := rand.New(rand.NewPCG(9, 1))
	const d = 12
	y := gaussian(rng, d)
	largest := 0.0
	for _, v := range y {
		largest = max(largest, math.Abs(v))
	}
	family := pipeline.Family{Problem: vjp.Problem{A: linops.Identity(d), Device: dev}, Solver: "ista",
		Regularizer: func(w []float64) (prox.Prox, error) { return prox.NewL1(w[0]), nil }}
	// At 1e-9 nothing is zero: d - df = 0.
	var last pipeline.SweepPoint
	undefined := 0
	for point, err := range pipeline.Sweep(t.Context(), y, family, [][]float64{{1e-9, largest / 2, largest}},
		pipeline.SweepOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if last = point; math.IsNaN(point.GCV) {
			undefined++
		}
	}
	if undefined == 0 || math.IsNaN(last.GCV) || last.Weights[0] < 1e-8 {
		t.Errorf("%d undefined; minimizer at %v, gcv %g", undefined, last.Weights, last.GCV)
	}
	var err error
	for _, err = range pipeline.Sweep(t.Context(), y, family, [][]float64{{1e-9, 1e-8}}, pipeline.SweepOptions{}) {
	}
	if err == nil || !strings.Contains(err.Error(), "gcv is not defined at any point") {
		t.Errorf("error %v", err)
	}
}

// An observation that determines its own fit has no fit without it: leave-one-out is absent, and the rest is there.
func TestLeaveOneOutIsAbsentWhereAnObservationIsAlone(t *testing.T) {
	dev := array.NewHost()
	x := mat.NewDense(4, 2, []float64{1, 0, 1, 0, 1, 0, 0, 1})
	data := problems.Data{X: x, Y: []float64{1, 2, 4, 3}}
	r := unknown(t, dev, "ols", data, problems.Hyper{})
	if !math.IsNaN(r.ALO) || !errors.Is(r.ALOErr, risk.ErrLeverage) || math.IsNaN(r.GCV) ||
		!strings.Contains(r.ALOErr.Error(), "observation 3") {
		t.Errorf("alo %g, %v", r.ALO, r.ALOErr)
	}
}

// A verification without sigma2 weighs errors by the residual variance.
func TestVerifyWithoutSigma2(t *testing.T) {
	dev := array.NewHost()
	s, d := lasso(t, dev)
	pipe, err := pipeline.New(s, pipeline.Options{Verify: new(verify.Options)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := pipe.Estimate(t.Context(), gaussian(rand.New(rand.NewPCG(3, 4)), d))
	if err != nil || r.Verification == nil || !r.Verification.Passed() || len(r.Verification.Comparisons) < 4 {
		t.Errorf("%+v, %v", r.Verification, err)
	}
}

// dense is D mu_hat at y as a matrix, column by column, by central differences of solves to a far
// smaller tolerance.
func dense(t *testing.T, s vjp.Solver, y []float64) *mat.Dense {
	t.Helper()
	const h = 1e-4
	d := len(y)
	out := mat.NewDense(d, d, nil)
	solve := func(y []float64) []float64 {
		b := s.Problem().Device.Alloc(1, d)
		defer b.Free()
		s.Problem().Device.Upload(b, y)
		sol, err := s.Solve(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		defer sol.Release()
		return sol.MuHat.ToHost()
	}
	for i := range d {
		moved := slices.Clone(y)
		moved[i] = y[i] + h
		up := solve(moved)
		moved[i] = y[i] - h
		down := solve(moved)
		for k := range d {
			out.Set(k, i, (up[k]-down[k])/(2*h))
		}
	}
	return out
}

// lowRank is d entries of an m x n matrix of rank 2 with noise, at random places.
func lowRank(m, n, d int) problems.Data {
	rng := rand.New(rand.NewPCG(2, 9))
	u, v := gaussian(rng, 2*m), gaussian(rng, 2*n)
	data := problems.Data{Shape: []int{m, n}}
	places := rng.Perm(m * n)[:d]
	slices.Sort(places)
	for _, at := range places {
		data.Indices = append(data.Indices, at)
		row, col := at/n, at%n
		data.Y = append(data.Y, u[row]*v[col]/4+u[m+row]*v[n+col]/4+0.3*rng.NormFloat64())
	}
	return data
}

// Matrix completion, robust PCA, singular value thresholding and total variation, small: the criteria
// and leave-one-out of the exact trace are those of the dense derivative.
func TestCriteriaOfOtherProblemsAgainstTheDenseDerivative(t *testing.T) {
	dev := array.NewHost()
	completion := func() (problems.Data, error) { return lowRank(9, 8, 50), nil }
	for name, c := range map[string]struct {
		generate func() (problems.Data, error)
		hyper    problems.Hyper
		// leverage says that some entries determine their own fit: those of the sparse part.
		leverage bool
	}{
		"matrix-completion": {generate: completion, hyper: problems.Hyper{Lambda: weight("1.5")}},
		"robust-pca": {generate: func() (problems.Data, error) { return problems.GenerateRobustPCA(5, 6, 4) },
			leverage: true},
		"svt": {generate: func() (problems.Data, error) { return problems.GenerateSVT(5, 6, 5) }},
		"tv1d": {generate: func() (problems.Data, error) { return problems.GenerateTV1D(30, 6) },
			hyper: problems.Hyper{Lambda: weight("25")}},
	} {
		data, err := c.generate()
		if err != nil {
			t.Fatal(err)
		}
		p, err := problems.New(name, dev, data, c.hyper)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release()
		s, err := vjp.NewSolver(t.Context(), p.DefaultSolver, p.Solve(), vjp.Options{Tol: 1e-13, MaxIter: 200000})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		pipe, err := pipeline.New(s, pipeline.Options{ALO: true, Estimator: "exact"})
		if err != nil {
			t.Fatal(err)
		}
		r, err := pipe.Estimate(t.Context(), data.Y)
		if err != nil {
			t.Fatal(err)
		}
		j := dense(t, s, data.Y)
		d, df, rss, left := float64(len(data.Y)), mat.Trace(j), 0.0, 0.0
		steps := make([]float64, len(data.Y))
		for i, y := range data.Y {
			e := y - r.MuHat[i]
			rss += e * e
			steps[i] = e / (1 - j.At(i, i))
			left += steps[i] * steps[i] / d
		}
		if r.Refits > 0 {
			withRefits(t, r, data.Y, steps, func(y []float64) []float64 {
				r, err := pipe.Estimate(t.Context(), y)
				if err != nil {
					t.Fatal(err)
				}
				return r.MuHat
			})
			left = r.ALO
		}
		if errors.Is(r.ALOErr, risk.ErrLeverage) != c.leverage {
			t.Errorf("%s: leave-one-out %g, %v", name, r.ALO, r.ALOErr)
		}
		if c.leverage {
			r.ALO = left
		}
		worst := 0.0
		for _, v := range [][2]float64{{r.Trace.Trace, df}, {r.GCV, d * rss / (d - df) / (d - df)},
			{r.Sigma2DF, rss / (d - df)}, {r.ALO, left},
			{r.AIC, d*math.Log(2*math.Pi*rss/d) + d + 2*(df+1)}} {
			worst = max(worst, math.Abs(v[0]/v[1]-1))
		}
		t.Logf("%s, d = %g: df %.6g, gcv %.6g, leave-one-out %.6g; off by %.1e at most", name, d, r.Trace.Trace,
			r.GCV, r.ALO, worst)
		if !(worst <= 1e-7) {
			t.Errorf("%s: off by %.1e: df %.12g, expected %.12g; leave-one-out %.12g, expected %.12g; %v", name,
				worst, r.Trace.Trace, df, r.ALO, left, r.ALOErr)
		}
	}
}

// Leave-one-out of matrix completion is close to the error of refits without one entry, at that
// entry: the error at a missing one, where SURE's is that at the observed ones. It is 26% above at
// these 120 entries, and 7% at 480 of a matrix of 32 x 24.
func TestLeaveOneOutOfCompletionAgainstRefits(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	dev := array.NewHost()
	data, hyper := lowRank(16, 12, 120), problems.Hyper{Lambda: weight("2")}
	fitted := func(data problems.Data) pipeline.Risk {
		p, err := problems.New("matrix-completion", dev, data, hyper)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release()
		s, err := vjp.NewSolver(t.Context(), p.DefaultSolver, p.Solve(), vjp.Options{Tol: 1e-7})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		pipe, err := pipeline.New(s, pipeline.Options{ALO: len(data.Y) == 120, Estimator: "exact", KeepB: true})
		if err != nil {
			t.Fatal(err)
		}
		r, err := pipe.Estimate(t.Context(), data.Y)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	whole := fitted(data)
	errs := make([]float64, len(data.Y))
	for i := range data.Y {
		less := data
		less.Y, less.Indices = slices.Delete(slices.Clone(data.Y), i, i+1), slices.Delete(slices.Clone(data.Indices),
			i, i+1)
		errs[i] = data.Y[i] - fitted(less).B[data.Indices[i]]
	}
	mean, stdErr, err := risk.LeaveOneOut(errs, make([]float64, len(errs)))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("leave-one-out %.4g ± %.2g, refits %.4g ± %.2g; gcv %.4g, mean squared residual %.4g", whole.ALO,
		whole.ALOStdErr, mean, stdErr, whole.GCV, whole.Residual/float64(len(data.Y)))
	if math.Abs(whole.ALO/mean-1) > 0.35 {
		t.Errorf("leave-one-out %g, refits %g; %v", whole.ALO, mean, whole.ALOErr)
	}
}
