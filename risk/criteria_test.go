package risk_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/risk"
)

// ridge is the fit (X*X + lambda I)^{-1} X* y with its hat matrix, by dense algebra. With an
// intercept, X has a column of ones that is not penalized.
func ridge(x *mat.Dense, y []float64, lambda float64, intercept bool) (fit []float64, hat *mat.Dense) {
	d, p := x.Dims()
	if intercept {
		with := mat.NewDense(d, p+1, nil)
		for i := range d {
			with.SetRow(i, append(append([]float64{}, x.RawRowView(i)...), 1))
		}
		x = with
	}
	_, q := x.Dims()
	var gram, inverse, half mat.Dense
	gram.Mul(x.T(), x)
	for j := range p {
		gram.Set(j, j, gram.At(j, j)+lambda)
	}
	eye := mat.NewDiagDense(q, nil)
	for j := range q {
		eye.SetDiag(j, 1)
	}
	if err := inverse.Solve(&gram, eye); err != nil {
		panic(err)
	}
	half.Mul(x, &inverse)
	hat = new(mat.Dense)
	hat.Mul(&half, x.T())
	out := mat.NewVecDense(d, nil)
	out.MulVec(hat, mat.NewVecDense(d, y))
	return out.RawVector().Data, hat
}

func regression(d, p int, seed uint64) (*mat.Dense, []float64) {
	rng := rand.New(rand.NewPCG(seed, 5))
	x, y := mat.NewDense(d, p, nil), make([]float64, d)
	for i := range d {
		for j := range p {
			x.Set(i, j, rng.NormFloat64())
			y[i] += x.At(i, j) / float64(j+1)
		}
		y[i] += 3 + rng.NormFloat64()
	}
	return x, y
}

// without is X and y less row i.
func without(x *mat.Dense, y []float64, i int) (*mat.Dense, []float64) {
	d, p := x.Dims()
	less, rest := mat.NewDense(d-1, p, nil), make([]float64, 0, d-1)
	for k := range d {
		if k != i {
			less.SetRow(len(rest), x.RawRowView(k))
			rest = append(rest, y[k])
		}
	}
	return less, rest
}

// predict is the prediction at a row of the ridge fit to the others.
func predict(x *mat.Dense, y []float64, i int, lambda float64, intercept bool) float64 {
	less, rest := without(x, y, i)
	// The fit at a row of weight 0: with y_i in its place such a row changes nothing, so solve for
	// the coefficients.
	d, p := less.Dims()
	q := p
	if intercept {
		q++
	}
	design := mat.NewDense(d, q, nil)
	for k := range d {
		row := append([]float64{}, less.RawRowView(k)...)
		if intercept {
			row = append(row, 1)
		}
		design.SetRow(k, row)
	}
	var gram mat.Dense
	gram.Mul(design.T(), design)
	for j := range p {
		gram.Set(j, j, gram.At(j, j)+lambda)
	}
	var right, b mat.VecDense
	right.MulVec(design.T(), mat.NewVecDense(d, rest))
	if err := b.SolveVec(&gram, &right); err != nil {
		panic(err)
	}
	sum := 0.0
	for j := range p {
		sum += b.AtVec(j) * x.At(i, j)
	}
	if intercept {
		sum += b.AtVec(p)
	}
	return sum
}

// For least squares and ridge regression, with and without an intercept, leave-one-out is exact:
// the mean of squared residuals of refits, with its standard error over them.
func TestLeaveOneOutIsThatOfRefits(t *testing.T) {
	const d, p = 30, 5
	x, y := regression(d, p, 1)
	for _, lambda := range []float64{0, 0.3, 20} {
		for _, intercept := range []bool{false, true} {
			fit, hat := ridge(x, y, lambda, intercept)
			residuals, diagonal := make([]float64, d), make([]float64, d)
			mean, squares := 0.0, 0.0
			for i := range d {
				residuals[i], diagonal[i] = y[i]-fit[i], hat.At(i, i)
				e := y[i] - predict(x, y, i, lambda, intercept)
				mean += e * e / d
				squares += e * e * e * e
			}
			want := math.Sqrt((squares - d*mean*mean) / (d - 1) / d)
			got, stderr, err := risk.LeaveOneOut(residuals, diagonal)
			if err != nil || math.Abs(got-mean) > 1e-10*mean || math.Abs(stderr-want) > 1e-10*want {
				t.Errorf("lambda %g, intercept %t: %.12g ± %.12g, refits %.12g ± %.12g; %v", lambda, intercept, got,
					stderr, mean, want, err)
			}
		}
	}
}

// For a constant diagonal leave-one-out is GCV, with the same standard error.
func TestGCVIsLeaveOneOutOfAConstantDiagonal(t *testing.T) {
	const d = 12
	rng := rand.New(rand.NewPCG(3, 3))
	residuals, diagonal, sum := make([]float64, d), make([]float64, d), 0.0
	for i := range d {
		residuals[i], diagonal[i] = rng.NormFloat64(), 0.4
		sum += residuals[i] * residuals[i]
	}
	for _, unit := range []float64{1e-120, 1, 1e120} {
		scaled := make([]float64, d)
		for i, r := range residuals {
			scaled[i] = unit * r
		}
		terms := risk.Terms{D: d, Residual: unit * unit * sum, Divergence: 0.4 * d}
		c := terms.Criteria(0, scaled)
		mean, stderr, err := risk.LeaveOneOut(scaled, diagonal)
		if err != nil || !near(c.GCV/mean, 1) || !near(c.GCVStdErr/stderr, 1) {
			t.Errorf("unit %g: GCV %g ± %g, leave-one-out %g ± %g; %v", unit, c.GCV, c.GCVStdErr, mean, stderr, err)
		}
		if !near(c.Sigma2DF/(unit*unit), sum/(0.6*d)) || !math.IsNaN(c.ALO) {
			t.Errorf("unit %g: sigma2 %g, alo %g", unit, c.Sigma2DF, c.ALO)
		}
	}
}

// AIC and BIC against minus twice the sum of the logarithms of normal densities. For the unknown
// sigma2 the numbers are those of R: AIC(lm(dist ~ speed, cars)) = 419.1569 and BIC 424.8929.
func TestInformationCriteria(t *testing.T) {
	const sigma2 = 1.7
	residuals := []float64{0.3, -1.2, 0.7, 2.1, -0.4}
	terms := risk.Terms{D: len(residuals), Sigma2: sigma2, Divergence: 1.5}
	loglik := 0.0
	for _, r := range residuals {
		terms.Residual += r * r
		loglik += math.Log(math.Exp(-r*r/2/sigma2) / math.Sqrt(2*math.Pi*sigma2))
	}
	if want := -2*loglik + 2*1.5; !near(terms.AIC(), want) {
		t.Errorf("AIC %g, expected %g", terms.AIC(), want)
	}
	if want := -2*loglik + math.Log(5)*1.5; !near(terms.BIC(), want) {
		t.Errorf("BIC %g, expected %g", terms.BIC(), want)
	}
	// Up to a constant, AIC is SURE/sigma2.
	other := terms
	other.Residual, other.Divergence = 3, 2.5
	if got, want := terms.AIC()-other.AIC(), (terms.SURE()-other.SURE())/sigma2; !near(got, want) {
		t.Errorf("AIC differs by %g, SURE/sigma2 by %g", got, want)
	}
	cars := risk.Terms{D: 50, Residual: 11353.521051094888, Divergence: 2}
	if math.Abs(cars.AIC()-419.1569) > 1e-4 || math.Abs(cars.BIC()-424.8929) > 1e-4 {
		t.Errorf("AIC %.5f, BIC %.5f", cars.AIC(), cars.BIC())
	}
}

// The error of GCV by the trace, against a difference.
func TestGCVErrOfTrace(t *testing.T) {
	terms := risk.Terms{D: 10, Residual: 17, Divergence: 3.5}
	const h = 1e-6
	moved := terms
	moved.Divergence += h
	if got, want := terms.GCVErrOfTrace(h), moved.GCV()-terms.GCV(); math.Abs(got-want) > 1e-11 {
		t.Errorf("%g, expected %g", got, want)
	}
	residuals := []float64{1, 4, 0, 0, 0, 0, 0, 0, 0, 0}
	exact, noisy := terms.Criteria(0, residuals), terms.Criteria(0.5, residuals)
	if want := math.Hypot(exact.GCVStdErr, terms.GCVErrOfTrace(0.5)); !near(noisy.GCVStdErr, want) ||
		exact.GCVTraceErr != 0 {
		t.Errorf("%g, expected %g", noisy.GCVStdErr, want)
	}
}

// What is not defined is NaN, never a number or an infinity.
func TestUndefinedCriteriaAreNaN(t *testing.T) {
	for _, terms := range []risk.Terms{
		{D: 5, Residual: 1e-30, Divergence: 5},
		{D: 5, Residual: 1, Divergence: 5 + 1e-12},
		{D: 5, Residual: 0, Divergence: 5 - 1e-12},
	} {
		c := terms.Criteria(0, make([]float64, 5))
		for name, v := range map[string]float64{"gcv": c.GCV, "its error": c.GCVStdErr, "aic": c.AIC, "bic": c.BIC,
			"sigma2": c.Sigma2DF,
			"sure":   terms.SURE(), "its bar": terms.StdErr()} {
			if !math.IsNaN(v) {
				t.Errorf("%+v: %s is %g", terms, name, v)
			}
		}
	}
	if v := (risk.Terms{D: 5, Divergence: 2}).AIC(); !math.IsNaN(v) {
		t.Errorf("AIC of a residual of 0 is %g", v)
	}
	if _, _, err := risk.LeaveOneOut([]float64{1, 1e-17}, []float64{0.2, 1}); !errors.Is(err, risk.ErrLeverage) {
		t.Errorf("leverage 1: %v", err)
	}
	if _, _, err := risk.LeaveOneOut([]float64{1, 1}, []float64{math.NaN(), 0}); err == nil {
		t.Error("a diagonal of NaN passes")
	}
	if _, _, err := risk.LeaveOneOut([]float64{1, 1}, []float64{1}); err == nil {
		t.Error("lengths that differ pass")
	}
}

func TestCriterionNames(t *testing.T) {
	for _, c := range risk.CriterionNames() {
		if got, err := risk.ParseCriterion(string(c)); got != c || err != nil {
			t.Errorf("%s: %s, %v", c, got, err)
		}
	}
	if _, err := risk.ParseCriterion("cp"); err == nil {
		t.Error("cp is a criterion")
	}
	if risk.DefaultCriterion(0, true, false, false, false) != risk.GCV ||
		risk.DefaultCriterion(2, true, true, true, false) != risk.SURE ||
		risk.DefaultCriterion(0, false, false, false, false) != risk.ALO ||
		risk.DefaultCriterion(0, false, true, true, false) != risk.ALO ||
		risk.DefaultCriterion(0, false, false, true, false) != risk.CV ||
		risk.DefaultCriterion(0, true, true, true, false) != risk.ALO ||
		risk.DefaultCriterion(0, true, false, true, false) != risk.CV ||
		risk.DefaultCriterion(2, true, true, false, true) != risk.LGO {
		t.Error("defaults")
	}
}

// From probes of a projection of known diagonal: least squares on one column of ones, and on the
// first unit vector, whose observation cannot be left out.
func TestLeaveOneOutFromProbes(t *testing.T) {
	dev := array.NewHost()
	const d = 40
	residuals := make([]float64, d)
	for i := range residuals {
		residuals[i] = float64(i%7) - 3
	}
	probe := func(image hutch.Oracle) *hutch.Leverages {
		plan, err := hutch.NewPlan(hutch.Hutchinson, 30, d)
		if err != nil {
			t.Fatal(err)
		}
		r := hutch.NewRun(dev, plan, hutch.Exactly(image), hutch.Options{Seed: 1, Diagonal: true})
		t.Cleanup(r.Free)
		if err := errors.Join(r.EndSketch(), r.Do(t.Context(), hutch.Residual, 0, 30)); err != nil {
			t.Fatal(err)
		}
		return r.Leverages()
	}
	ones := func(_ context.Context, dst, v array.Batch, _ []float64) error {
		x := v.ToHost()
		for k := range v.K() {
			mean := stat.Mean(x[k*d:(k+1)*d], nil)
			for i := range d {
				x[k*d+i] = mean
			}
		}
		dev.Upload(dst, x)
		return nil
	}
	diagonal := slices.Repeat([]float64{1. / d}, d)
	want, spread, err := risk.LeaveOneOut(residuals, diagonal)
	if err != nil {
		t.Fatal(err)
	}
	got, err := risk.LeaveOneOutFromProbes(probe(ones), risk.SquaredLeftOut(residuals))
	if err != nil || math.Abs(got.Mean-want) > 4*got.ProbesErr || !(got.ProbesErr > 0) ||
		math.Abs(got.StdErr/math.Hypot(spread, got.ProbesErr)-1) > 0.1 {
		t.Errorf("%+v, %v, expected %g ± %g", got, err, want, spread)
	}
	// The error of a likelihood is any function of the leverage: here the sum of the squared loss and
	// a constant.
	more, err := risk.LeaveOneOutFromProbes(probe(ones),
		func(i int, h float64) float64 { return 5 + risk.SquaredLeftOut(residuals)(i, h) })
	if err != nil || math.Abs(more.Mean-5-got.Mean) > 1e-9 ||
		math.Abs(more.ProbesErr-got.ProbesErr) > 1e-6*got.ProbesErr {
		t.Errorf("with a constant: %+v, %v, expected %+v and 5", more, err, got)
	}
	unresolved := new(risk.UnresolvedError)
	first := func(_ context.Context, dst, v array.Batch, _ []float64) error {
		dev.Fill(dst, 0)
		dev.Copy(dst.Cols(0, 1), v.Cols(0, 1))
		return nil
	}
	if _, err := risk.LeaveOneOutFromProbes(probe(first), risk.SquaredLeftOut(residuals)); !errors.As(err,
		&unresolved) || unresolved.Count != 1 || unresolved.D != d {
		t.Errorf("error %v, expected one observation that is not resolved", err)
	}
}

// With few residual degrees of freedom the error of GCV is theirs, not that of d residuals: its root
// mean square is about the spread of GCV, for projections that leave 2 to 30 of 60.
func TestGCVStdErrWithFewDegreesOfFreedom(t *testing.T) {
	const d, draws = 60, 4000
	r := rand.New(rand.NewPCG(5, 14))
	for _, left := range []int{2, 6, 30} {
		basis := make([][]float64, left)
		for i := range basis {
			basis[i] = make([]float64, d)
			for j := range basis[i] {
				basis[i][j] = r.NormFloat64()
			}
			for _, b := range basis[:i] {
				floats.AddScaled(basis[i], -floats.Dot(b, basis[i]), b)
			}
			floats.Scale(1/floats.Norm(basis[i], 2), basis[i])
		}
		var values []float64
		bars := 0.0
		for range draws {
			residuals := make([]float64, d)
			for _, b := range basis {
				floats.AddScaled(residuals, r.NormFloat64(), b)
			}
			df := float64(d - left)
			terms := risk.Terms{D: d, Residual: floats.Dot(residuals, residuals), Divergence: df, Frobenius2: df}
			c := terms.Criteria(0, residuals)
			values = append(values, c.GCV)
			bars += c.GCVStdErr * c.GCVStdErr / draws
		}
		// With so few the mean square of a chi squared variable is more than that of its mean.
		most := 1.1 * math.Sqrt(1+2/float64(left))
		if ratio := math.Sqrt(bars) / stat.StdDev(values, nil); !(ratio > 0.9 && ratio < most) {
			t.Errorf("%d degrees of freedom: the error is %.3g of the spread", left, ratio)
		}
	}
}
