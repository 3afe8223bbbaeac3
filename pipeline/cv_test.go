package pipeline_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/risk"
	"surepipe/risk/folds"
	"surepipe/vjp"
)

// familyOf is a problem along lambda.
func familyOf(p *problems.Problem) pipeline.Family {
	return pipeline.Family{Problem: p.Solve(), Solver: p.DefaultSolver,
		Regularizer: func(w []float64) (prox.Prox, error) { return p.Reweighted(w[0], p.Lambda2, p.Gamma) }}
}

// Cross-validation is the mean of the errors of problems that are made of the rows that are kept, with their share of
// lambda, for the squared loss and a likelihood, with an intercept and without, and where the folds read the matrix
// together.
func TestCrossValidationIsThatOfProblemsOfTheRows(t *testing.T) {
	for _, c := range []struct {
		name, loss string
		intercept  bool
		d, p       int
		unit       float64 // of the weights
	}{{"ridge", "squared", true, 60, 6, 1}, {"ridge", "squared", false, 60, 6, 1}, {"lasso", "squared", true, 60, 6, 1},
		{"lasso", "logistic", true, 60, 6, 1}, {"ridge", "poisson", false, 60, 6, 1},
		{"lasso", "squared", false, 520, 510, 20},
		{"lasso", "logistic", true, 520, 510, 3}} {
		d, p := c.d, c.p
		r := rand.New(rand.NewPCG(3, 9))
		x, y := mat.NewDense(d, p, nil), make([]float64, d)
		for i := range d {
			for j := range p {
				x.Set(i, j, r.NormFloat64()+float64(j%6))
			}
			if y[i] = x.At(i, 0) - x.At(i, 1) + 2 + r.NormFloat64(); c.loss != "squared" {
				y[i] = math.Round(1 / (1 + math.Exp(-y[i])))
			}
		}
		grid := []float64{0.5 * c.unit, 2 * c.unit, 8 * c.unit}
		data := problems.Data{X: x, Y: y, Intercept: c.intercept, Loss: problems.Loss{Name: c.loss}}
		f := folds.Folds{K: 5, Repeats: 2, Seed: 8}
		dev := array.NewHost()
		at := func(data problems.Data, w float64) (*problems.Problem, []float64) {
			q, err := problems.New(c.name, dev, data, problems.Hyper{Lambda: problems.Absolute(w)})
			if err != nil {
				t.Fatal(err)
			}
			var b []float64
			o := pipeline.SweepOptions{Refine: -1, Options: pipeline.Options{KeepB: true}}
			for point, err := range pipeline.Sweep(t.Context(), data.Y, familyOf(q), [][]float64{{w}}, o) {
				if err != nil {
					t.Fatal(err)
				}
				if point.Stage != pipeline.MinimizerStage {
					continue
				}
				b = point.B
				if b0, ok := q.Intercept(point.MuHat, point.B); ok {
					b = append([]float64{b0}, q.Coefficients(point.B)...)
				} else {
					b = append([]float64{0}, b[:p]...)
				}
			}
			return q, b
		}
		whole, err := problems.New(c.name, dev, data, problems.Hyper{Lambda: problems.Absolute(1)})
		if err != nil {
			t.Fatal(err)
		}
		values := map[float64]float64{}
		o := pipeline.SweepOptions{Criterion: risk.CV, Folds: f, Rule: pipeline.OneStdErrRule}
		for point, err := range pipeline.Sweep(t.Context(), y, familyOf(whole), [][]float64{grid}, o) {
			if err != nil {
				t.Fatal(c, err)
			}
			values[point.Weights[0]] = point.Value(risk.CV)
			if point.CV.StdErr <= 0 || point.CV.Units != d {
				t.Errorf("%+v", point.CV)
			}
		}
		whole.Release()
		for _, w := range grid {
			want := 0.0
			for repeat := range 2 {
				for _, s := range f.Splits(d, repeat) {
					some := data
					xs, ys := mat.NewDense(len(s.Keep), p, nil), make([]float64, len(s.Keep))
					for k, i := range s.Keep {
						xs.SetRow(k, x.RawRowView(i))
						ys[k] = y[i]
					}
					some.X, some.Y = xs, ys
					q, b := at(some, w*float64(len(s.Keep))/float64(d))
					for _, i := range s.Out {
						z := b[0]
						for j := range p {
							z += b[1+j] * x.At(i, j)
						}
						switch c.loss {
						case "squared":
							want += (y[i] - z) * (y[i] - z)
						case "logistic":
							want += math.Log1p(math.Exp(z)) - y[i]*z
						default:
							want += math.Exp(z) - y[i]*z
						}
					}
					q.Release()
				}
			}
			if want /= 2 * float64(d); math.Abs(values[w]-want) > 1e-5*math.Abs(want) {
				t.Errorf("%+v at %g: %g, expected %g", c, w, values[w], want)
			}
		}
	}
}

// Entries of a matrix that are left out are predicted by the others, with the effects that these determine, as in a
// completion of the others alone, with Burman's correction; and a row that is left out by the effects of the columns.
func TestCrossValidationOfEntriesIsThatOfCompletionsOfTheOthers(t *testing.T) {
	const m, n = 14, 9
	r := rand.New(rand.NewPCG(4, 1))
	data := problems.Data{Shape: []int{m, n}, Effects: problems.Effects{Rows: true, Columns: true}}
	for c := range m * n {
		if r.Float64() < 0.8 {
			data.Indices = append(data.Indices, c)
			data.Y = append(data.Y, float64(c%n)-float64(c/n)/2+math.Sin(float64(c%n*(c/n)))*2+r.NormFloat64()/3)
		}
	}
	dev := array.NewHost()
	for name, f := range map[string]folds.Folds{"entries": {K: 4}, "rows": {K: 4, Groups: folds.Lines(data.Indices, n, true)}} {
		const w = 1.5
		open := func(d problems.Data, w float64) *problems.Problem {
			q, err := problems.New("matrix-completion", dev, d, problems.Hyper{Lambda: problems.Absolute(w)})
			if err != nil {
				t.Fatal(err)
			}
			return q
		}
		value := func(q *problems.Problem, y []float64, w float64, o pipeline.SweepOptions) (last pipeline.SweepPoint) {
			o.Refine, o.KeepB = -1, true
			for point, err := range pipeline.Sweep(t.Context(), y, familyOf(q), [][]float64{{w}}, o) {
				if err != nil {
					t.Fatal(name, err)
				}
				last = point
			}
			return last
		}
		got := value(open(data, w), data.Y, w, pipeline.SweepOptions{Criterion: risk.CV, Folds: f})
		want, all := 0.0, 0.0
		for _, s := range f.Splits(len(data.Y), 0) {
			some := data
			some.Y, some.Indices = nil, nil
			for _, i := range s.Keep {
				some.Y, some.Indices = append(some.Y, data.Y[i]), append(some.Indices, data.Indices[i])
			}
			share := w * float64(len(s.Keep)) / float64(len(data.Y))
			q := open(some, share)
			point := value(q, some.Y, share, pipeline.SweepOptions{})
			b := point.DenseB()
			fit := q.FitEffectsAt(point.MuHat, lists.Pick(b, q.Observed()))
			for _, i := range s.Out {
				c := data.Indices[i]
				e := data.Y[i] - b[c] - fit.At(c/n, c%n)
				want += e * e / float64(len(data.Y))
			}
			for i, c := range data.Indices {
				e := data.Y[i] - b[c] - fit.At(c/n, c%n)
				all += e * e / float64(len(data.Y)) * float64(len(s.Out)) / float64(len(data.Y))
			}
		}
		if name == "entries" { // whole rows have parameters of their own
			whole := value(open(data, w), data.Y, w, pipeline.SweepOptions{})
			for i, m := range whole.MuHat {
				want += (data.Y[i] - m) * (data.Y[i] - m) / float64(len(data.Y))
			}
			want -= all
		}
		if value := got.Value(risk.CV); math.Abs(value-want) > 1e-4*want {
			t.Errorf("%s: %g, expected %g", name, value, want)
		}
		if name == "rows" && got.CV.Units != m {
			t.Errorf("%d units, expected %d rows", got.CV.Units, m)
		}
	}
}

// A sweep in Go minimizes by default what the command does.
func TestDefaultCriterionOfCompletions(t *testing.T) {
	data := problems.Data{Shape: []int{8, 5}}
	r := rand.New(rand.NewPCG(1, 7))
	for c := range 40 {
		if c%7 != 3 {
			data.Indices, data.Y = append(data.Indices, c), append(data.Y, float64(c%5+c/5)+r.NormFloat64())
		}
	}
	q, err := problems.New("matrix-completion", array.NewHost(), data, problems.Hyper{Lambda: problems.Absolute(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Release()
	family := familyOf(q)
	family.Problem.R = nil // as where a family is made by hand
	for point, err := range pipeline.Sweep(t.Context(), data.Y, family, [][]float64{{2, 4}}, pipeline.SweepOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if c := point.Choice; c != nil && c.Criterion != risk.ALO {
			t.Errorf("criterion %s, expected %s", c.Criterion, risk.ALO)
		}
	}
}

// Small tables with as many columns as rows, of which some are chosen, are cross-validated, and tables with more rows
// than leave-one-out serves fast where these share risk sets.
func TestDefaultCriterionOfWideTables(t *testing.T) {
	for _, c := range []struct {
		name   string
		loss   string
		d, p   int
		sigma2 float64
		want   risk.Criterion
	}{{"lasso", "", 20, 50, 0, risk.CV}, {"group-lasso", "", 20, 50, 0, risk.CV}, {"lasso", "", 20, 50, 1, risk.SURE},
		{"ridge", "", 20, 50, 0, risk.GCV}, {"lasso", "", 50, 20, 0, risk.GCV}, {"lasso", "", 250, 300, 0, risk.GCV},
		{"lasso", "logistic", 20, 50, 0, risk.CV}, {"lasso", "logistic", 50, 20, 0, risk.ALO},
		{"lasso", "cox", 256, 2, 0, risk.ALO}, {"lasso", "cox", 257, 2, 0, risk.CV}} {
		x, y := mat.NewDense(c.d, c.p, nil), make([]float64, c.d)
		r := rand.New(rand.NewPCG(1, 8))
		for i := range y {
			if y[i] = r.NormFloat64(); c.loss != "" {
				y[i] = float64(i % 2)
			}
			for j := range c.p {
				x.Set(i, j, r.NormFloat64())
			}
		}
		data := problems.Data{X: x, Y: y, Intercept: true, Groups: make([]int, c.p), Loss: problems.Loss{Name: c.loss}}
		if c.loss == "cox" {
			data.Intercept, data.Times.Time = false, mat.Col(nil, 0, x)
		}
		for j := range data.Groups {
			data.Groups[j] = j / 2
		}
		if c.name != "group-lasso" {
			data.Groups = nil
		}
		q, err := problems.New(c.name, array.NewHost(), data, problems.Hyper{Lambda: problems.Absolute(1)})
		if err != nil {
			t.Fatal(err)
		}
		if got := pipeline.SweepCriterion(q.Solve(), c.sigma2, false); got != c.want {
			t.Errorf("%s %s %d x %d, sigma2 %g: %s, expected %s", c.name, c.loss, c.d, c.p, c.sigma2, got, c.want)
		}
		q.Release()
	}
}

// The standard error of a difference is that of the mean of the differences over the units.
func TestDifferencesOfCrossValidationArePaired(t *testing.T) {
	const d, groups = 40, 8
	r := rand.New(rand.NewPCG(6, 2))
	x, y, labels := mat.NewDense(d, 2, nil), make([]float64, d), make([]int, d)
	for i := range d {
		labels[i] = i % groups
		x.Set(i, 0, r.NormFloat64())
		x.Set(i, 1, r.NormFloat64())
		y[i] = x.At(i, 0) + r.NormFloat64()
	}
	q, err := problems.New("ridge", array.NewHost(), problems.Data{X: x, Y: y}, problems.Hyper{Lambda: problems.Absolute(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Release()
	grid := []float64{1, 30}
	f := folds.Folds{K: 4, Groups: labels}
	var choice *pipeline.Choice
	for point, err := range pipeline.Sweep(t.Context(), y, familyOf(q), [][]float64{grid},
		pipeline.SweepOptions{Criterion: risk.CV, Folds: f}) {
		if err != nil {
			t.Fatal(err)
		}
		choice = point.Choice
	}
	sums := make([]float64, groups)
	for _, s := range f.Splits(d, 0) {
		for k, w := range grid {
			var gram mat.Dense
			right := mat.NewVecDense(2, nil)
			gram.Mul(x.T(), x)
			for _, i := range s.Out {
				gram.Sub(&gram, outer(x.RawRowView(i)))
			}
			for _, i := range s.Keep {
				right.AddScaledVec(right, y[i], x.RowView(i))
			}
			for j := range 2 {
				gram.Set(j, j, gram.At(j, j)+w*float64(len(s.Keep))/d)
			}
			var b mat.VecDense
			if err := b.SolveVec(&gram, right); err != nil {
				t.Fatal(err)
			}
			for _, i := range s.Out {
				e := y[i] - mat.Dot(&b, x.RowView(i))
				sums[labels[i]] += e * e * float64(2*k-1)
			}
		}
	}
	want := risk.OverUnits(sums, d)
	want.StdErr *= hutch.Widened(groups - 1)
	got := choice.Differences[1-choice.Minimizer]
	if math.Abs(math.Abs(got.Value)-math.Abs(want.Mean)) > 1e-6*math.Abs(want.Mean) ||
		math.Abs(got.StdErr-want.StdErr) > 1e-4*want.StdErr {
		t.Errorf("difference %+v, expected %+v", got, want)
	}
}

// outer is v v*.
func outer(v []float64) *mat.Dense {
	var m mat.Dense
	m.Outer(1, mat.NewVecDense(len(v), v), mat.NewVecDense(len(v), v))
	return &m
}

// The errors of what is left out are those of all observations alike, as leave-one-out's are: a factor of all weights of
// the observations, with lambda's, changes nothing.
func TestCrossValidationHasTheUnitsOfLeaveOneOut(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 12))
	const d, p = 60, 5
	x, y, w := mat.NewDense(d, p, nil), make([]float64, d), make([]float64, d)
	for i := range d {
		for j := range p {
			x.Set(i, j, r.NormFloat64())
		}
		y[i], w[i] = x.At(i, 0)+r.NormFloat64(), 0.5+r.Float64()
	}
	for _, unit := range []float64{1, 100} {
		weights := make([]float64, d)
		for i := range w {
			weights[i] = unit * w[i]
		}
		dev := array.NewHost()
		l, err := loss.WeightedSquared(dev, weights)
		if err != nil {
			t.Fatal(err)
		}
		a := linops.NewDense(dev, x)
		f := pipeline.Family{Problem: vjp.Problem{A: a, Loss: l, Device: dev}, Solver: "direct",
			Regularizer: func(w []float64) (prox.Prox, error) { return prox.NewSquaredL2(w[0]), nil }}
		o := pipeline.SweepOptions{Refine: -1, Criterion: risk.CV, Folds: folds.Folds{K: d}, Audit: pipeline.AlwaysAudit,
			Options: pipeline.Options{ALO: true}}
		for point, err := range pipeline.Sweep(t.Context(), y, f, [][]float64{{3 * unit}}, o) {
			if err != nil {
				t.Fatal(err)
			}
			if alo, cv := point.ALO, point.Value(risk.CV); math.Abs(cv/alo-1) > 0.05 {
				t.Errorf("unit %g: cross-validation %g, leave-one-out %g", unit, cv, alo)
			}
		}
		a.Release()
		l.Release()
	}
}

// The bar of cross-validation is about as long as the estimate varies over draws, up to fits that nearly interpolate.
func TestBarsOfCrossValidationWhereFitsInterpolate(t *testing.T) {
	const d, p, draws = 60, 120, 40
	r := rand.New(rand.NewPCG(4, 2))
	dev := array.NewHost()
	grid := []float64{0.5, 4, 20}
	values, bars := make([][]float64, len(grid)), make([][]float64, len(grid))
	for range draws {
		x, y := mat.NewDense(d, p, nil), make([]float64, d)
		for i := range d {
			for j := range p {
				x.Set(i, j, r.NormFloat64())
			}
			y[i] = x.At(i, 0) + r.NormFloat64()
		}
		q, err := problems.New("lasso", dev, problems.Data{X: x, Y: y}, problems.Hyper{Lambda: problems.Absolute(1)})
		if err != nil {
			t.Fatal(err)
		}
		o := pipeline.SweepOptions{Criterion: risk.CV, Refine: -1, Folds: folds.Folds{K: 5}}
		for point, err := range pipeline.Sweep(t.Context(), y, familyOf(q), [][]float64{grid}, o) {
			if err != nil {
				t.Fatal(err)
			}
			if point.Stage == pipeline.GridStage {
				value, bar := risk.CV.Rule().Value(point.Fitted())
				i := slices.Index(grid, point.Weights[0])
				values[i], bars[i] = append(values[i], value), append(bars[i], bar)
			}
		}
	}
	for i, lambda := range grid {
		mean, sd := stat.MeanStdDev(values[i], nil)
		if bar := stat.Mean(bars[i], nil); !(bar > 0.7*sd && bar < 3*sd && bar < mean) {
			t.Errorf("lambda %g: %.3g varies by %.3g, and its bar is %.3g", lambda, mean, sd, bar)
		}
	}
}
