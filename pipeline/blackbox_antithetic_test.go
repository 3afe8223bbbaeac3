package pipeline_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/prox/clustered"
)

// experiment is an estimator of mu from y ~ N(mu, sigma2 I).
type experiment struct {
	name   string
	mu     []float64
	sigma2 float64
	fit    func(y []float64) []float64
}

func (e experiment) box(method pipeline.BlackBoxMethod, alpha float64) *pipeline.BlackBox {
	return &pipeline.BlackBox{Name: e.name, D: len(e.mu), Divergence: method, Alpha: alpha,
		Eval: func(_ context.Context, _, y []float64) ([]float64, error) { return e.fit(y), nil }}
}

func (e experiment) draw(r *rand.Rand) []float64 {
	y := make([]float64, len(e.mu))
	for i, m := range e.mu {
		y[i] = m + math.Sqrt(e.sigma2)*r.NormFloat64()
	}
	return y
}

// The settings of Liu, Panigrahi and Soloff: isotonic regression of steps on 100 places, a LASSO of 100 x 200 with five
// columns and a signal-to-noise ratio of 0.4, a fused LASSO (here of a sequence), and a logistic regression on eight
// columns in its sufficient statistic X'y, which is nearly normal with the covariance X'WX, in units of which it is
// white.
func experiments() []experiment {
	r := rand.New(rand.NewPCG(20, 25))
	steps := make([]float64, 100)
	for i := range steps {
		steps[i] = 2*math.Ceil(float64(i+1)/20) - 6
	}
	x, b := mat.NewDense(100, 200, nil), make([]float64, 200)
	for i := range x.RawMatrix().Data {
		x.RawMatrix().Data[i] = r.NormFloat64()
	}
	for range 5 {
		b[r.IntN(200)] = 2*r.Float64() - 1
	}
	signal := mat.NewVecDense(100, nil)
	signal.MulVec(x, mat.NewVecDense(200, b))
	noise := stat.Variance(signal.RawVector().Data, nil) / 0.4
	tv := clustered.NewTV1D(100, 2)
	return []experiment{
		{"isotonic", steps, 1, isotonic},
		{"LASSO", signal.RawVector().Data, noise, func(y []float64) []float64 { return lassoFit(x, y, 0.15*100) }},
		{"fused LASSO", steps, 1, func(y []float64) []float64 { return proxOf(tv, y) }},
		logisticExperiment(r),
	}
}

// isotonic is the nearest sequence that nowhere falls, by pooling neighbours that do.
func isotonic(y []float64) []float64 {
	var means, sizes []float64
	for _, v := range y {
		means, sizes = append(means, v), append(sizes, 1)
		for k := len(means) - 1; k > 0 && means[k-1] > means[k]; k-- {
			n := sizes[k-1] + sizes[k]
			means[k-1] = (means[k-1]*sizes[k-1] + means[k]*sizes[k]) / n
			sizes[k-1] = n
			means, sizes = means[:k], sizes[:k]
		}
	}
	var fit []float64
	for k, m := range means {
		for range int(sizes[k]) {
			fit = append(fit, m)
		}
	}
	return fit
}

// lassoFit is X b for the LASSO 1/2 ||X b - y||^2 + lambda |b|_1, by coordinate descent.
func lassoFit(x *mat.Dense, y []float64, lambda float64) []float64 {
	n, p := x.Dims()
	columns, norms, b := make([][]float64, p), make([]float64, p), make([]float64, p)
	for j := range columns {
		columns[j] = mat.Col(nil, j, x)
		norms[j] = floats.Dot(columns[j], columns[j])
	}
	rest := make([]float64, n)
	copy(rest, y)
	for range 300 {
		moved := 0.0
		for j, c := range columns {
			at := floats.Dot(c, rest) + norms[j]*b[j]
			next := math.Copysign(max(math.Abs(at)-lambda, 0), at) / norms[j]
			if next != b[j] {
				floats.AddScaled(rest, b[j]-next, c)
				moved = max(moved, math.Abs(next-b[j]))
				b[j] = next
			}
		}
		if moved < 1e-7 {
			break
		}
	}
	fit := make([]float64, n)
	floats.SubTo(fit, y, rest)
	return fit
}

func proxOf(p prox.Prox, y []float64) []float64 {
	dev := array.NewHost()
	in, out := dev.Alloc(1, len(y)), dev.Alloc(1, len(y))
	dev.Upload(in, y)
	p.Eval(out, in, 1)
	return out.ToHost()
}

func logisticExperiment(r *rand.Rand) experiment {
	const n, p = 100, 8
	x, b := mat.NewDense(n, p, nil), []float64{1, -1, 1, -1, 0.5, -0.5, 0.5, -0.5}
	chance := func(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
	score := func(b []float64) (s *mat.VecDense, h *mat.SymDense) {
		s, h = mat.NewVecDense(p, nil), mat.NewSymDense(p, nil)
		for i := range n {
			row := mat.NewVecDense(p, x.RawRowView(i))
			m := chance(floats.Dot(x.RawRowView(i), b))
			s.AddScaledVec(s, m, row)
			h.SymRankOne(h, m*(1-m), row)
		}
		return s, h
	}
	for i := range x.RawMatrix().Data {
		x.RawMatrix().Data[i] = r.NormFloat64()
	}
	mean, h := score(b)
	var eigen mat.EigenSym
	eigen.Factorize(h, true)
	var v, white, colour mat.Dense
	eigen.VectorsTo(&v)
	power := func(dst *mat.Dense, e float64) {
		scaled := mat.DenseCopyOf(&v)
		scaled.Apply(func(_, j int, u float64) float64 { return u * math.Pow(eigen.Values(nil)[j], e) }, scaled)
		dst.Mul(scaled, v.T())
	}
	power(&white, -0.5)
	power(&colour, 0.5)
	product := func(a *mat.Dense, u []float64) []float64 {
		out := mat.NewVecDense(p, nil)
		out.MulVec(a, mat.NewVecDense(p, u))
		return out.RawVector().Data
	}
	fit := func(y []float64) []float64 {
		s, b := product(&colour, y), make([]float64, p)
		var at *mat.VecDense
		for range 30 { // Newton's method with a ridge
			var hess *mat.SymDense
			at, hess = score(b)
			g := mat.NewVecDense(p, nil)
			for j := range p {
				g.SetVec(j, s[j]-at.AtVec(j)-b[j])
				hess.SetSym(j, j, hess.At(j, j)+1)
			}
			var step mat.VecDense
			if step.SolveVec(hess, g) != nil {
				break
			}
			length := mat.Norm(&step, 2)
			floats.AddScaled(b, min(1, 2/length), step.RawVector().Data)
			if length < 1e-9 {
				break
			}
		}
		at, _ = score(b)
		return product(&white, at.RawVector().Data)
	}
	return experiment{"logistic", product(&white, mean.RawVector().Data), 1, fit}
}

// independentDraws is the coupled bootstrap as it was published, from draws that are independent.
func (e experiment) independentDraws(y []float64, alpha float64, draws int, r *rand.Rand) float64 {
	mean, d := 0.0, float64(len(y))
	for range draws {
		at, test, norm := make([]float64, len(y)), make([]float64, len(y)), 0.0
		for i, v := range y {
			w := math.Sqrt(e.sigma2) * r.NormFloat64()
			at[i], test[i] = v+math.Sqrt(alpha)*w, v-w/math.Sqrt(alpha)
			norm += w * w
		}
		mean += (math.Pow(floats.Distance(test, e.fit(at), 2), 2) - norm/alpha - d*e.sigma2) / float64(draws)
	}
	return mean
}

// At ten values each and alpha = 0.01 antithetic draws have at most a fifth of the coupled bootstrap's variance at a y,
// as it was published, and the same mean.
func TestAntitheticDrawsVaryLess(t *testing.T) {
	const alpha, queries, repeats = 0.01, 10, 60
	ctx, r := context.Background(), rand.New(rand.NewPCG(4, 2))
	for _, e := range experiments() {
		y := e.draw(r)
		var sets, plain, stated []float64
		for seed := range uint64(repeats) {
			o := pipeline.Options{Sigma2: e.sigma2, Seed: seed, Queries: queries}
			a, err := e.box(pipeline.Antithetic, alpha).Estimate(ctx, nil, y, o)
			if err != nil {
				t.Fatal(err)
			}
			if a.Trace.Queries != queries+1 {
				t.Fatalf("%s: %d values", e.name, a.Trace.Queries)
			}
			sets = append(sets, a.SURE)
			plain = append(plain, e.independentDraws(y, alpha, queries, r))
			stated = append(stated, 2*e.sigma2*a.Trace.StdErr)
		}
		v, off := stat.Variance(sets, nil), stat.Mean(sets, nil)-stat.Mean(plain, nil)
		ofPlain := stat.Variance(plain, nil)
		t.Logf("%s: variance %.3g; of independent draws %.4f of these; error stated %.2f of the spread",
			e.name, v, v/ofPlain, stat.Mean(stated, nil)/math.Sqrt(v))
		if v > ofPlain/5 || math.Abs(off) > 4*math.Sqrt((v+ofPlain)/repeats) {
			t.Errorf("%s: variance %g, of independent draws %g; means differ by %g", e.name, v, ofPlain, off)
		}
	}
}

// Two error bars contain the loss in 90 to 97% of all y, within what chance leaves of the draws here.
func TestAntitheticBarsCover(t *testing.T) {
	if testing.Short() {
		t.Skip("short: statistics depend on neither the device nor the BLAS")
	}
	const alpha, draws = 0.01, 150
	ctx := context.Background()
	for _, e := range experiments() {
		r := rand.New(rand.NewPCG(6, 1))
		covered, off := 0.0, 0.0
		for k := range uint64(draws) {
			y := e.draw(r)
			a, err := e.box(pipeline.Antithetic, alpha).Estimate(ctx, nil, y,
				pipeline.Options{Sigma2: e.sigma2, Seed: k, Queries: 24})
			if err != nil {
				t.Fatal(err)
			}
			loss := 0.0
			for range 8 {
				at := make([]float64, len(y))
				for i, v := range y {
					at[i] = v + math.Sqrt(alpha*e.sigma2)*r.NormFloat64()
				}
				loss += math.Pow(floats.Distance(e.fit(at), e.mu, 2), 2) / 8
			}
			bar := math.Hypot(a.StdErr, 2*e.sigma2*a.Trace.StdErr)
			off += (a.SURE - loss) / bar / draws
			if math.Abs(a.SURE-loss) <= 2*bar {
				covered += 1. / draws
			}
		}
		t.Logf("%s: covered %.3f, mean error %.2f bars", e.name, covered, off)
		if covered < 0.90 || covered > 0.985 || math.Abs(off) > 0.2 {
			t.Errorf("%s: two bars cover %.3f, and are off by %.2f on average", e.name, covered, off)
		}
	}
}

// Folds of counts give an unbiased estimate of the squared error at 1/(1 + alpha) of the exposure, with bars that cover
// it.
func TestThinningOfCounts(t *testing.T) {
	const d, alpha, draws = 120, 0.1, 250
	ctx, r := context.Background(), rand.New(rand.NewPCG(1, 7))
	mu := make([]float64, d)
	for i := range mu {
		mu[i] = 6 + 5*math.Sin(float64(i)/12)
	}
	smooth := func(_ context.Context, _, y []float64) ([]float64, error) {
		f := make([]float64, len(y))
		for i := range f {
			n := 0.0
			for j := max(0, i-3); j <= min(d-1, i+3); j++ {
				f[i] += y[j]
				n++
			}
			f[i] /= n
		}
		return f, nil
	}
	b := &pipeline.BlackBox{Name: "mean of seven", D: d, Eval: smooth, Divergence: pipeline.Thinning, Alpha: alpha}
	covered, off, within := 0.0, make([]float64, draws), 0.0
	for k := range off {
		y := make([]float64, d)
		for i, m := range mu {
			y[i] = distuv.Poisson{Lambda: m, Src: r}.Rand()
		}
		a, err := b.Estimate(ctx, nil, y, pipeline.Options{Seed: uint64(k), Queries: 44})
		if err != nil {
			t.Fatal(err)
		}
		// The loss at part of the exposure, given y.
		loss := 0.0
		for range 8 {
			at := make([]float64, d)
			for i, v := range y {
				at[i] = distuv.Binomial{N: v, P: 1 / (1 + alpha), Src: r}.Rand()
			}
			f, _ := smooth(ctx, nil, at)
			floats.Scale(1+alpha, f)
			loss += math.Pow(floats.Distance(f, mu, 2), 2) / 8
		}
		off[k] = a.SURE - loss
		bar := math.Hypot(a.StdErr, 2*a.Sigma2*a.Trace.StdErr)
		if math.Abs(off[k]) <= 2*bar {
			covered += 1. / draws
		}
		within += 2 * a.Sigma2 * a.Trace.StdErr / bar / draws
		if a.Trace.Queries != 45 || math.Abs(-d*a.Sigma2+a.Residual+2*a.Sigma2*a.Trace.Trace-a.SURE) > 1e-9*d ||
			math.Abs(a.Terms().StdErr()-a.StdErr) > 1e-9*a.StdErr {
			t.Fatalf("%d values, %+v", a.Trace.Queries, a.Trace)
		}
	}
	mean, sd := stat.MeanStdDev(off, nil)
	t.Logf("mean error %.2f ± %.2f, covered %.3f, share of the draws in the bar %.2f", mean, sd/math.Sqrt(draws), covered,
		within)
	if math.Abs(mean) > 4*sd/math.Sqrt(draws) || covered < 0.9 || covered > 0.99 {
		t.Errorf("mean error %g ± %g, covered %g", mean, sd/math.Sqrt(draws), covered)
	}
	for _, y := range [][]float64{{1, -1}, {1.5, 2}, {0, 0}} {
		small := &pipeline.BlackBox{Name: "same", D: 2, Divergence: pipeline.Thinning,
			Eval: func(_ context.Context, _, y []float64) ([]float64, error) { return y, nil }}
		if _, err := small.Estimate(ctx, nil, y, pipeline.Options{}); err == nil {
			t.Errorf("%v are no counts, and passed", y)
		}
	}
}
