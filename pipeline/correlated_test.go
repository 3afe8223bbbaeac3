package pipeline_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
	"surepipe/vjp"
)

// smoothed is a problem that smooths a sequence, with a pipeline for noise of a correlation.
func smoothed(t *testing.T, name string, y []float64, lambda float64, o pipeline.Options) pipeline.Risk {
	t.Helper()
	dev := array.NewHost()
	defer dev.Close()
	q, err := problems.New(name, dev, problems.Data{Y: y}, problems.Hyper{Lambda: problems.Absolute(lambda)})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Release()
	s, err := vjp.NewSolver(t.Context(), q.DefaultSolver, q.Solve(), vjp.Options{Sigma2: o.Sigma2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	p, err := pipeline.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Estimate(t.Context(), y)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// arSeries is a trend with AR(1) noise of variance sigma2.
func arSeries(seed uint64, n int, rho, sigma2 float64) (y, mu []float64) {
	r := rand.New(rand.NewPCG(seed, 21))
	y, mu = make([]float64, n), make([]float64, n)
	for i := range y {
		y[i] = r.NormFloat64()
		mu[i] = 2 * math.Abs(float64(i%50)/25-1)
	}
	risk.AR1(rho).Colour(y)
	for i := range y {
		y[i] = mu[i] + math.Sqrt(sigma2)*y[i]
	}
	return y, mu
}

// Under AR(1) noise SURE with its covariance is unbiased for the squared error, and its error bar is the root mean square
// of the difference; without the covariance it is far too small.
func TestSUREWithCorrelatedNoiseIsUnbiased(t *testing.T) {
	const n, sigma2 = 100, 0.25
	draws := 300
	if testing.Short() {
		draws = 100
	}
	for _, c := range []struct {
		name        string
		lambda, rho float64
	}{{"whittaker", 30, 0.6}, {"trend1d", 4, 0.6}, {"tv1d", 1, 0.8}, {"trend1d", 2, -0.4}} {
		var off, white []float64
		squares, bars := 0.0, 0.0
		for seed := range draws {
			y, mu := arSeries(uint64(seed), n, c.rho, sigma2)
			o := pipeline.Options{Sigma2: sigma2, Noise: pipeline.Autoregression{Rho: c.rho}}
			r := smoothed(t, c.name, y, c.lambda, o)
			loss := 0.0
			for i, m := range r.MuHat {
				loss += (m - mu[i]) * (m - mu[i])
			}
			off, white = append(off, r.SURE-loss), append(white, r.Terms().Residual+2*sigma2*r.Trace.Trace-n*sigma2-loss)
			squares += (r.SURE - loss) * (r.SURE - loss)
			bars += r.StdErr * r.StdErr
			if !math.IsNaN(r.GCV) || !math.IsNaN(r.ALO) || r.Correlated == nil {
				t.Fatal("criteria for independent noise are there")
			}
		}
		mean, sd := stat.MeanStdDev(off, nil)
		bar := sd / math.Sqrt(float64(draws))
		if math.Abs(mean) > 3*bar {
			t.Errorf("%+v: SURE is off by %.3g ± %.2g", c, mean, bar)
		}
		if m := stat.Mean(white, nil); math.Abs(m) < 5*bar {
			t.Errorf("%+v: without the covariance it is off by %.3g ± %.2g", c, m, bar)
		}
		if ratio := math.Sqrt(bars / squares); ratio < 0.85 || ratio > 1.25 {
			t.Errorf("%+v: the error bar is %.3g of the root mean square", c, ratio)
		}
	}
}

// Beyond 1024 observations the trace comes from probes: it is within its error of dense algebra, and so is its change with
// the correlation.
func TestTraceWithTheCovarianceFromProbes(t *testing.T) {
	const n, lambda, rho, step = 1200, 50.0, 0.7, 0.05
	y, _ := arSeries(1, n, rho, 1)
	r := smoothed(t, "whittaker", y, lambda, pipeline.Options{Sigma2: 1,
		Noise: pipeline.Autoregression{Rho: rho, RhoStdErr: step}})
	system := mat.NewSymDense(n, nil)
	for i := range n {
		system.SetSym(i, i, 1)
	}
	for first := range n - 2 {
		for i, a := range []float64{1, -2, 1} {
			for k, b := range []float64{1, -2, 1} {
				if k >= i {
					system.SetSym(first+i, first+k, system.At(first+i, first+k)+lambda*a*b)
				}
			}
		}
	}
	var chol mat.Cholesky
	inverse := mat.NewSymDense(n, nil)
	if !chol.Factorize(system) || chol.InverseTo(inverse) != nil {
		t.Fatal("the system is not positive definite")
	}
	at := func(rho float64) (sum float64) {
		for i := range n {
			for k := range n {
				sum += inverse.At(i, k) * math.Pow(rho, math.Abs(float64(i-k)))
			}
		}
		return sum
	}
	c, want := r.Correlated, at(rho)
	if !(c.TraceErr > 0) || math.Abs(c.Trace-want) > 4*c.TraceErr || c.TraceErr > 0.1*want {
		t.Errorf("%g ± %g, expected %g", c.Trace, c.TraceErr, want)
	}
	if moved := (at(rho+step) - at(rho-step)) / 2; math.Abs(c.ByRho-moved) > 0.15*moved {
		t.Errorf("an error of rho moves the trace by %g, expected %g", c.ByRho, moved)
	}
}

// What does not go together is refused.
func TestCorrelatedNoiseIsRefused(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	q, err := problems.New("whittaker", dev, problems.Data{Y: make([]float64, 10)}, problems.Hyper{
		Lambda: problems.Absolute(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Release()
	s, err := vjp.NewSolver(t.Context(), q.DefaultSolver, q.Solve(), vjp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	for _, o := range []pipeline.Options{{Noise: pipeline.Autoregression{Rho: 0.5}},
		{Sigma2: 1, Noise: pipeline.Autoregression{Rho: 1}}, {Sigma2: 1, Noise: pipeline.Autoregression{Rho: math.NaN()}}} {
		if _, err := pipeline.New(s, o); err == nil {
			t.Errorf("%+v passes", o.Noise)
		}
	}
}
