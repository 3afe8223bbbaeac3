package pipeline_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
	"surepipe/risk/folds"
	"surepipe/vjp"
)

var coupledDraws = flag.Int("coupled", 1, "draws of each case of the leave-one-out of coupled losses against refits")

// survived draws times that depend on the first columns of X, rounded so that there are ties.
func survived(r *rand.Rand, d, p, kind int) problems.Data {
	data := problems.Data{X: mat.NewDense(d, p, nil), Y: make([]float64, d), Standardize: true,
		Loss: problems.Loss{Name: []string{"cox", "cox-efron"}[kind%2]}}
	x := data.X.(*mat.Dense)
	for i := range d {
		for j := range p {
			x.Set(i, j, r.NormFloat64()+float64(j))
		}
		event := r.ExpFloat64() * math.Exp(-x.At(i, 0)+0.7*x.At(i, 1)-0.7)
		end := 2 * r.ExpFloat64()
		if event <= end {
			data.Y[i] = 1
		}
		data.Time = append(data.Time, math.Ceil(10*min(event, end)))
		if kind/2%2 == 1 {
			data.Strata = append(data.Strata, float64(i%2))
		}
		if kind/4%2 == 1 {
			data.Start = append(data.Start, math.Floor(0.5*r.Float64()*data.Time[i]))
		}
	}
	return data
}

// Leave-one-out of the partial likelihood is that of fits without each observation: exactly so, to the tolerance of its
// steps, where no coefficient comes or goes. The degrees of freedom are those of the second derivative as a matrix.
func TestLeaveOneOutOfCoxAgainstRefits(t *testing.T) {
	kinds, d := []int{0, 3, 5, 6}, 24
	if *coupledDraws > 1 {
		kinds, d = []int{0, 1, 2, 3, 4, 5, 6, 7}, 60
	}
	for _, kind := range kinds {
		for _, c := range []struct {
			problem string
			lambda  float64
			tol     float64 // of the difference from refits, over the optimism
		}{{"ols", 0, 1e-3}, {"ridge", 3, 1e-3}, {"lasso", 2, 0.25}} {
			name := fmt.Sprintf("%s, kind %d", c.problem, kind)
			var off, optimism float64
			for draw := range *coupledDraws {
				data := survived(rand.New(rand.NewPCG(uint64(draw), uint64(kind))), d, 4, kind)
				got, want, plain := leftOutOfCox(t, c.problem, c.lambda, data)
				off += got - want
				optimism += want - plain
				if *coupledDraws > 1 {
					t.Logf("%s: %.6g, refits %.6g, without leaving out %.6g", name, got, want, plain)
				}
			}
			if !(math.Abs(off) <= c.tol*math.Abs(optimism)) {
				t.Errorf("%s: leave-one-out is off by %g of an optimism of %g", name, off, optimism)
			}
		}
	}
}

// Offsets that differ by much fill risk sets with one observation: some fits without one have more curvature, and some
// observations move the fit by rounding errors alone.
func TestLeaveOneOutOfCoxWithLargeOffsets(t *testing.T) {
	for seed := range uint64(2) {
		rng, data := rand.New(rand.NewPCG(seed, 99)), problems.Data{Standardize: true,
			Loss: problems.Loss{Name: "cox"}}
		n := 60 + rng.IntN(120)
		data.X, data.Y = mat.NewDense(n, 6, nil), make([]float64, n)
		for i := range n {
			for j := range 6 {
				data.X.(*mat.Dense).Set(i, j, rng.NormFloat64())
			}
			if data.Time = append(data.Time, rng.ExpFloat64()); rng.Float64() < 0.6 {
				data.Y[i] = 1
			}
			data.Offset = append(data.Offset, 5*rng.NormFloat64())
		}
		if got, want, plain := leftOutOfCox(t, "ridge", 2, data); !(math.Abs(got-want) < 1e-3*(want-plain)) {
			t.Errorf("%d observations: leave-one-out %g, refits %g, in the fits %g", n, got, want, plain)
		}
	}
}

// leftOutOfCox is leave-one-out, the same by refits, and the mean part of the loss of an observation in its own fit.
func leftOutOfCox(t *testing.T, problem string, lambda float64, data problems.Data) (got, want, plain float64) {
	t.Helper()
	fit := func(data problems.Data) (*problems.Problem, pipeline.Risk) {
		p, err := problems.New(problem, array.NewHost(), data, problems.Hyper{Lambda: problems.Absolute(lambda)})
		if problem == "ols" {
			p, err = problems.New(problem, array.NewHost(), data, problems.Hyper{})
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Release)
		return p, solvedRisk(t, p, data.Y, data.Weights == nil)
	}
	p, all := fit(data)
	l, err := loss.NewCox(loss.Observed{Times: data.Times, Offset: data.Offset}, data.Loss.Name == "cox-efron")
	if err != nil {
		t.Fatal(err)
	}
	d := len(data.Y)
	for i := range d {
		w := make([]float64, d)
		floats.AddConst(1, w)
		w[i] = 0
		part := data
		part.Standardize, part.Weights = false, w
		x := mat.DenseCopyOf(data.X)
		for j, s := range p.Scales() {
			for k := range d {
				x.Set(k, j, x.At(k, j)/s)
			}
		}
		part.X = x
		_, r := fit(part)
		want += l.Share(i, r.MuHat, data.Y) / float64(d)
		plain += l.Share(i, all.MuHat, data.Y) / float64(d)
	}
	degrees(t, p, data, l, all, lambda, problem)
	return all.ALO, want, plain
}

// solvedRisk is the estimate of a problem.
func solvedRisk(t *testing.T, p *problems.Problem, y []float64, alo bool) pipeline.Risk {
	t.Helper()
	return riskWithin(t, p, y, alo, 1e-10)
}

func riskWithin(t *testing.T, p *problems.Problem, y []float64, alo bool, tol float64) pipeline.Risk {
	t.Helper()
	solver, err := vjp.NewSolver(t.Context(), p.DefaultSolver, p.Solve(), vjp.Options{Tol: tol, Images: alo})
	if err != nil {
		t.Fatal(err)
	}
	defer solver.Release()
	pipe, err := pipeline.New(solver, pipeline.Options{KeepB: true, ALO: alo})
	if err != nil {
		t.Fatal(err)
	}
	r, err := pipe.Estimate(t.Context(), y)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// degrees checks the degrees of freedom.
func degrees(t *testing.T, p *problems.Problem, data problems.Data, l *loss.Cox, r pipeline.Risk, lambda float64,
	problem string) {
	t.Helper()
	dev := array.NewHost()
	d := len(data.Y)
	x := mat.DenseCopyOf(data.X)
	var set []int
	for j, s := range p.Scales() {
		for i := range d {
			x.Set(i, j, (x.At(i, j)-p.Means()[j])/s)
		}
		if r.B[j] != 0 {
			set = append(set, j)
		}
	}
	h := mat.NewDense(len(set), len(set), nil)
	z, y, v := dev.Put(r.MuHat, 1, d), dev.Put(data.Y, 1, d), dev.Alloc(1, d)
	for a, j := range set {
		dev.Upload(v, mat.Col(nil, j, x))
		l.Product(v, v, z, y)
		hx := v.ToHost()
		for b, k := range set {
			h.Set(b, a, floats.Dot(hx, mat.Col(nil, k, x)))
		}
	}
	var m, s mat.Dense
	m.CloneFrom(h)
	if problem == "ridge" {
		for a := range set {
			m.Set(a, a, m.At(a, a)+lambda)
		}
	}
	if err := s.Solve(&m, h); err != nil {
		t.Fatal(err)
	}
	if want := s.Trace(); math.Abs(r.Trace.Trace-want) > 1e-6*want {
		t.Errorf("%s: %g degrees of freedom, expected %g", problem, r.Trace.Trace, want)
	}
}

// Cross-validation of the partial likelihood is l(z; y) less the loss of the rows that are kept, summed over the folds.
func TestCrossValidationOfCox(t *testing.T) {
	data := survived(rand.New(rand.NewPCG(2, 2)), 60, 3, 3)
	p, err := problems.New("ridge", array.NewHost(), data, problems.Hyper{Lambda: problems.Absolute(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	f := folds.Folds{K: 5, Seed: 3}
	var got pipeline.SweepPoint
	for point, err := range pipeline.Sweep(t.Context(), data.Y, familyOf(p), [][]float64{{3}},
		pipeline.SweepOptions{Criterion: risk.CV, Folds: f, Refine: -1}) {
		if err != nil {
			t.Fatal(err)
		}
		got = point
	}
	want, d := 0.0, len(data.Y)
	l, err := loss.NewCox(loss.Observed{Times: data.Times}, true)
	if err != nil {
		t.Fatal(err)
	}
	x := mat.DenseCopyOf(data.X)
	for j, s := range p.Scales() {
		for i := range d {
			x.Set(i, j, x.At(i, j)/s)
		}
	}
	for _, s := range f.Splits(d, 0) {
		part := problems.Data{X: mat.NewDense(len(s.Keep), 3, nil), Loss: data.Loss}
		for k, i := range s.Keep {
			part.X.(*mat.Dense).SetRow(k, x.RawRowView(i))
			part.Y, part.Time, part.Strata = append(part.Y, data.Y[i]), append(part.Time, data.Time[i]),
				append(part.Strata, data.Strata[i])
		}
		q, err := problems.New("ridge", array.NewHost(), part, problems.Hyper{
			Lambda: problems.Absolute(3 * float64(len(s.Keep)) / float64(d))})
		if err != nil {
			t.Fatal(err)
		}
		r := solvedRisk(t, q, part.Y, false)
		var z mat.VecDense
		z.MulVec(x, mat.NewVecDense(3, r.B))
		parts := make([]float64, d)
		l.Parts(parts, z.RawVector().Data, data.Y)
		want += (floats.Sum(parts) - r.LossTerms.Value) / float64(d)
		q.Release()
	}
	if v := got.Value(risk.CV); math.Abs(v-want) > 1e-6*want || !(got.CV.StdErr > 0) {
		t.Errorf("cv is %g ± %g, expected %g", v, got.CV.StdErr, want)
	}
}
