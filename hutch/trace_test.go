package hutch

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
)

func TestExactTraceIsTheTrace(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		noLeak(t, dev)
		const d = 75
		m, want, fro2 := randomPSD(dev, rand.New(rand.NewPCG(1, 2)), d, 200)
		defer m.Free()
		for _, estimator := range Estimators() {
			e := trace(t, dev, plan(t, estimator, 102, d), dense(m), Options{Seed: 3})
			if math.Abs(e.Trace-want) > 1e-13*want || math.Abs(e.Frobenius2-fro2) > 1e-13*fro2 {
				t.Errorf("%s: trace %v, want %v; squared norm %v, want %v", estimator, e.Trace, want, e.Frobenius2,
					fro2)
			}
			if e.StdErr != 0 || e.Queries != d || !e.Exact || e.Estimator != Exact {
				t.Errorf("%s: %+v", estimator, e)
			}
		}
	})
}

// sampled is the estimators with randomness in them.
var sampled = []string{HutchPP, Hutchinson}

// Every device gives the host's estimates, to rounding: what the tests below find of the
// spread over many seeds on the host, and over few on an emulated card, is true of all.
func TestEveryDeviceGivesTheHostsEstimates(t *testing.T) {
	const d = 203
	host := array.NewHost()
	on := func(t *testing.T, dev array.Device, estimator string) Estimate {
		m, _, _ := randomPSD(dev, rand.New(rand.NewPCG(6, 3)), d, 200)
		defer m.Free()
		return trace(t, dev, plan(t, estimator, 102, d), dense(m), Options{Seed: 1})
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, estimator := range Estimators() {
			got, want := on(t, dev, estimator), on(t, host, estimator)
			for what, x := range map[string][2]float64{
				"trace": {got.Trace, want.Trace}, "standard error": {got.StdErr, want.StdErr},
				"squared norm": {got.Frobenius2, want.Frobenius2},
			} {
				if !(math.Abs(x[0]-x[1]) <= 1e-9*x[1]) {
					t.Errorf("%s: %s %v, on the host %v", estimator, what, x[0], x[1])
				}
			}
		}
	})
}

// The mean over seeds of trace and squared norm is within 4 of its standard
// errors of the truth, or, where the rank is small enough for some to be exact,
// within rounding.
func TestEstimatesAreUnbiased(t *testing.T) {
	if testing.Short() {
		t.Skip("short: statistics depend on neither the device nor the BLAS")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		noLeak(t, dev)
		for _, c := range []struct{ d, rank int }{{40, 20}, {60, 200}, {90, 5}} {
			m, trueTrace, trueFro2 := randomPSD(dev, rand.New(rand.NewPCG(uint64(c.d), 3)), c.d, c.rank)
			for _, estimator := range sampled {
				p := plan(t, estimator, 12, c.d)
				seeds := few(t, dev, 400, 40)
				var traces, norms moments
				for seed := range uint64(seeds) {
					e := trace(t, dev, p, dense(m), Options{Seed: seed, Sample: 1})
					traces.add(e.Trace)
					norms.add(e.Frobenius2)
				}
				for what, x := range map[string]struct {
					moments
					want float64
				}{"trace": {traces, trueTrace}, "squared norm": {norms, trueFro2}} {
					if off, se := x.mean()-x.want, x.sd()/math.Sqrt(float64(seeds)); math.Abs(off) > 4*se+1e-10*x.want {
						t.Errorf("d = %d, rank %d, %s: mean %s %v is %.1f standard errors off %v", c.d, c.rank,
							estimator, what, x.mean(), off/se, x.want)
					}
				}
			}
			m.Free()
		}
	})
}

// moments is a running sum of numbers and their squares.
type moments struct{ n, s, s2 float64 }

func (m *moments) add(x float64) { m.n++; m.s += x; m.s2 += x * x }
func (m moments) mean() float64  { return m.s / m.n }
func (m moments) rms() float64   { return math.Sqrt(m.s2 / m.n) }
func (m moments) sd() float64 {
	return math.Sqrt((m.s2 - m.s*m.s/m.n) / (m.n - 1))
}

// Up to rank 34 Hutch++ is exact at 102 queries.
func TestSketchedEstimatesAreExactOnLowRank(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d = 1024
		noLeak(t, dev)
		for _, c := range []struct {
			name   string
			rank   int
			lambda func(i float64) float64
		}{
			{"rank 0", 0, func(i float64) float64 { return 0 }},
			{"rank 1", 1, step(1)},
			{"rank 17", 17, step(17)},
			{"rank 30", 30, step(30)},
			{"rank 34", 34, step(34)},
			{"rank 50", 50, step(50)},
			{"rank 90", 90, step(90)},
			{"rank 30, eigenvalues 1 to 1e-6", 30,
				func(i float64) float64 { return step(30)(i) * math.Pow(1e-6, (i-1)/29) }},
			{"rank 10, eigenvalues 1 to 1e-12", 10,
				func(i float64) float64 { return step(10)(i) * math.Pow(1e-12, (i-1)/9) }},
		} {
			lambda := spectrum(d, c.lambda)
			want, want2 := sum(lambda), 0.0
			for _, x := range lambda {
				want2 += x * x
			}
			for _, x := range []struct {
				estimator string
				rank      int
				tol       float64
			}{{HutchPP, 34, 1e-12}} {
				if c.rank > x.rank {
					continue
				}
				e := trace(t, dev, plan(t, x.estimator, 102, d), spectral(lambda, 1), Options{Seed: 5})
				if math.Abs(e.Trace-want) > x.tol*want || e.StdErr > x.tol*want ||
					math.Abs(e.Frobenius2-want2) > x.tol*want2 {
					t.Errorf("%s, %s: trace %v +- %v is off %v by %.1e, squared norm %v off %v", c.name, x.estimator,
						e.Trace, e.StdErr, want, e.Trace-want, e.Frobenius2, want2)
				}
			}
		}
	})
}

// step is 1 up to rank and 0 beyond.
func step(rank float64) func(i float64) float64 {
	return func(i float64) float64 {
		if i <= rank {
			return 1
		}
		return 0
	}
}

// errorRatio is the root mean square error of Hutch++ over that of Hutchinson,
// at 102 queries each, over 60 seeds, and the factor by which it may exceed the true one.
// It is known to 1/sqrt(seeds).
func errorRatio(t *testing.T, dev array.Device, lambda []float64) (ratio, known float64) {
	t.Helper()
	seeds := few(t, dev, 60, 24)
	known = 1 + 1/math.Sqrt(60)
	if seeds < 60 {
		known = 1 + 2/math.Sqrt(float64(seeds))
	}
	m, want := spectral(lambda, 7), sum(lambda)
	var rms [2]float64
	for k, estimator := range []string{HutchPP, Hutchinson} {
		p := plan(t, estimator, 102, len(lambda))
		var errs moments
		for seed := range uint64(seeds) {
			errs.add(trace(t, dev, p, m, Options{Seed: seed}).Trace - want)
		}
		rms[k] = errs.rms()
	}
	t.Logf("trace %.3f, rms error of hutch++ %.2e, of hutchinson %.2e", want, rms[0], rms[1])
	return rms[0] / rms[1], known
}

func TestHutchPPIsMoreAccurateThanHutchinsonOnDecayingSpectra(t *testing.T) {
	if testing.Short() {
		t.Skip("short: statistics depend on neither the device nor the BLAS")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		d := few(t, dev, 1024, 256)
		for _, c := range []struct {
			name   string
			lambda func(i float64) float64
			limit  float64
		}{
			{"1 over i", func(i float64) float64 { return 1 / i }, 0.44},
			{"1 over i^2", func(i float64) float64 { return 1 / (i * i) }, 0.017},
			{"exponential", func(i float64) float64 { return math.Exp(-i / 10) }, 0.17},
			{"20 ones above 0.01", func(i float64) float64 { return 0.01 + 0.99*step(20)(i) }, 0.09},
		} {
			t.Run(c.name, func(t *testing.T) {
				if ratio, known := errorRatio(t, dev, spectrum(d, c.lambda)); ratio > c.limit*known {
					t.Errorf("the error of hutch++ is %.3f of hutchinson's, expected at most %v", ratio, c.limit*known)
				}
			})
		}
	})
}

// Where a basis of 34 vectors holds little of ||M||_F, what Hutch++ loses is
// the two thirds of its queries that are not samples.
func TestHutchPPIsLessAccurateByAtMostSqrt3OnSlowSpectra(t *testing.T) {
	if testing.Short() {
		t.Skip("short: statistics depend on neither the device nor the BLAS")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		d := few(t, dev, 1024, 256)
		for _, c := range []struct {
			name   string
			lambda func(i float64) float64
		}{
			{"1 over sqrt(i)", func(i float64) float64 { return 1 / math.Sqrt(i) }},
			{"projection of half the rank", step(float64(d / 2))},
		} {
			t.Run(c.name, func(t *testing.T) {
				if ratio, known := errorRatio(t, dev, spectrum(d, c.lambda)); ratio > math.Sqrt(3)*known {
					t.Errorf("the error of hutch++ is %.2f of hutchinson's, expected at most sqrt(3)", ratio)
				}
			})
		}
	})
}

// <g, c g> = c d for every Rademacher vector. A deflated probe's length is
// d - ||Q* g||^2, which is random, but hardly.
func TestMultiplesOfTheIdentityAreExactForHutchinsonAndNearlySoForHutchPP(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d = 1024
		m := spectral(spectrum(d, func(float64) float64 { return 0.25 }), 1)
		e := trace(t, dev, plan(t, Hutchinson, 102, d), m, Options{Seed: 2})
		if math.Abs(e.Trace-d/4) > 1e-12*d || e.StdErr > 1e-12*d {
			t.Errorf("hutchinson: trace %v +- %v, want %v", e.Trace, e.StdErr, d/4)
		}
		e = trace(t, dev, plan(t, HutchPP, 102, d), m, Options{Seed: 2})
		if math.Abs(e.Trace-d/4) > 4*e.StdErr || e.StdErr > 1e-3*d {
			t.Errorf("hutch++: trace %v +- %v, want %v", e.Trace, e.StdErr, d/4)
		}
	})
}

// The root mean square of the reported standard errors is within 25% of the
// spread of the estimates over seeds, 30% where fewer seeds give it to 9%, and three
// times 1/sqrt(2 seeds), to which it is known, where there are very few.
func TestStandardErrorMatchesTheSpreadOverSeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("short: statistics depend on neither the device nor the BLAS")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d = 512
		for _, c := range []struct {
			name   string
			lambda func(i float64) float64
		}{
			{"1/i", func(i float64) float64 { return 1 / i }},
			{"projection of rank 256", step(256)},
			{"exponential", func(i float64) float64 { return math.Exp(-i / 30) }},
		} {
			m := spectral(spectrum(d, c.lambda), 3)
			for _, estimator := range sampled {
				seeds, off := few(t, dev, 100, 12), 0.25 // 100 seeds give the spread to 7%
				if estimator != HutchPP && estimator != Hutchinson {
					seeds, off = min(seeds, 60), 0.3
				}
				if seeds < 60 {
					off = 3 / math.Sqrt(2*float64(seeds))
				}
				p := plan(t, estimator, 102, d)
				var traces, stdErrs moments
				for seed := range uint64(seeds) {
					e := trace(t, dev, p, m, Options{Seed: seed})
					traces.add(e.Trace)
					stdErrs.add(e.StdErr)
				}
				ratio := stdErrs.rms() / traces.sd()
				t.Logf("%-22s %-10s spread %.3e, reported %.3e, ratio %.2f", c.name, estimator, traces.sd(),
					stdErrs.rms(), ratio)
				if math.Abs(ratio-1) > off {
					t.Errorf("%s, %s: spread %.3e over seeds, reported %.3e", c.name, estimator, traces.sd(),
						stdErrs.rms())
				}
			}
		}
	})
}

func TestResultIsBitIdenticalForAnyBatchSize(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d = 203
		noLeak(t, dev)
		m, _, _ := randomPSD(dev, rand.New(rand.NewPCG(6, 3)), d, 50)
		defer m.Free()
		for _, estimator := range Estimators() {
			p := plan(t, estimator, 102, d)
			want := trace(t, dev, p, dense(m), Options{Seed: 1, Sample: 2})
			for _, batch := range []int{1, 2, 7, 33, 34, 102, 1000} {
				if got := trace(t, dev, p, dense(m), Options{Seed: 1, Sample: 2, Batch: batch}); got != want {
					t.Errorf("%s, batches of %d: %+v, want %+v", estimator, batch, got, want)
				}
			}
			other := trace(t, dev, p, dense(m), Options{Seed: 1, Sample: 3})
			if !p.Exact() && other == want {
				t.Errorf("%s: samples 2 and 3 have the same probes", estimator)
			}
		}
	})
}

// A run gives Trace's result to the last bit whatever the order and the grouping of its vectors,
// for every estimator; what it kept it gives back.
func TestRunsInAnyOrderGiveTheTrace(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d = 203
		noLeak(t, dev)
		mat, _, _ := randomPSD(dev, rand.New(rand.NewPCG(7, 3)), d, 50)
		defer mat.Free()
		oracle := dense(mat)
		m := Exactly(oracle)
		rng := rand.New(rand.NewPCG(1, 9))
		for _, estimator := range Estimators() {
			p := plan(t, estimator, 30, d)
			want := trace(t, dev, p, oracle, Options{Seed: 8, Sample: 9})
			r := NewRun(dev, p, m, Options{Seed: 8, Sample: 9})
			defer r.Free()
			type work struct {
				phase    Phase
				first, n int
			}
			do := func(all []work) {
				rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				for _, w := range all {
					if err := r.Do(t.Context(), w.phase, w.first, w.n); err != nil {
						t.Fatal(err)
					}
				}
			}
			split := func(phases ...Phase) (all []work) {
				for _, p := range phases {
					for first, n := 0, 0; first < r.Count(p); first += n {
						n = min(1+rng.IntN(7), r.Count(p)-first)
						all = append(all, work{p, first, n})
					}
				}
				return all
			}
			do(split(Sketching))
			if err := r.EndSketch(); err != nil {
				t.Fatal(err)
			}
			do(split(Projected, Residual))
			for range 2 {
				if got, err := r.Estimate(); err != nil || got != want {
					t.Errorf("%s: in pieces %+v, %v; whole %+v", estimator, got, err, want)
				}
			}
		}
	})
}

// An estimate is asked for the accuracy that its layout says, and no more.
func TestRunsAskForTheAccuracyTheyNeed(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	const d = 90
	mat, _, _ := randomPSD(dev, rand.New(rand.NewPCG(7, 3)), d, 50)
	defer mat.Free()
	for estimator, want := range map[string][3]int{ // vectors by images, forms and span
		HutchPP:    {0, 20, 10},
		Hutchinson: {0, 30, 0}, Exact: {d, 0, 0},
	} {
		var got [3]int
		m := Matrix{Apply: func(ctx context.Context, dst, v array.Batch, want Accuracy, left []float64) error {
			got[want.Need] += v.K()
			if want.Need == Forms && !(want.Share > 0) {
				t.Errorf("%s: share %g", estimator, want.Share)
			}
			return dense(mat)(ctx, dst, v, left)
		}}
		if _, err := Trace(t.Context(), dev, plan(t, estimator, 30, d), m, Options{}); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: %v vectors by images, forms and span, expected %v", estimator, got, want)
		}
	}
}

func TestErrorsOfTheOracleComeBackAndLeakNothing(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d = 150
		noLeak(t, dev)
		mat, _, _ := randomPSD(dev, rand.New(rand.NewPCG(8, 3)), d, 50)
		defer mat.Free()
		broken := errors.New("the solver broke")
		for _, estimator := range Estimators() {
			p := plan(t, estimator, 30, d)
			for fail := 0; ; fail++ {
				calls := 0
				_, err := Trace(t.Context(), dev, p,
					Exactly(func(ctx context.Context, dst, v array.Batch, left []float64) error {
						if calls++; calls > fail {
							return broken
						}
						return dense(mat)(ctx, dst, v, left)
					}), Options{Batch: 3})
				if err == nil {
					break
				}
				if !errors.Is(err, broken) || !strings.Contains(err.Error(), "vectors") {
					t.Errorf("%s, call %d: error %v", estimator, fail, err)
				}
			}
		}
	})
}

func TestCancelledContextStopsTheEstimate(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d = 150
		noLeak(t, dev)
		mat, _, _ := randomPSD(dev, rand.New(rand.NewPCG(9, 3)), d, 50)
		defer mat.Free()
		for last := range 12 {
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			_, err := Trace(ctx, dev, plan(t, HutchPP, 30, d),
				Exactly(func(ctx context.Context, dst, v array.Batch, left []float64) error {
					if calls++; calls > last {
						cancel()
					}
					return dense(mat)(ctx, dst, v, left)
				}), Options{Batch: 2})
			if !errors.Is(err, context.Canceled) || calls > last+1 {
				t.Errorf("cancelled in call %d: %d calls, error %v", last, calls, err)
			}
			cancel()
		}
	})
}

func TestOracleThatYieldsNaNIsAnError(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d = 150
		noLeak(t, dev)
		for _, estimator := range Estimators() {
			_, err := Trace(t.Context(), dev, plan(t, estimator, 30, d),
				Exactly(func(_ context.Context, dst, v array.Batch, _ []float64) error {
					dst.Device().Fill(dst, math.NaN())
					return nil
				}), Options{})
			if err == nil || !strings.Contains(err.Error(), "NaN") {
				t.Errorf("%s: error %v", estimator, err)
			}
		}
	})
}

// With M itself as the control variate nothing is left to chance.
func TestControlTakesTheSpread(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d = 5
		host, want := make([]float64, d*d), 0.0
		for e := range host {
			host[e] = 0.3 / (1 + math.Abs(float64(e/d-e%d)))
			if e%(d+1) == 0 {
				want += host[e]
			}
		}
		m := dev.Put(host, d, d)
		defer m.Free()
		c := Exactly(dense(m))
		c.Control = func(g, image array.Batch) {
			own := image.ToHost()
			for e, v := range g.ToHost() {
				own[e] = host[e%d*(d+1)] * v
			}
			image.Device().Upload(image, own)
		}
		got, err := Trace(t.Context(), dev, plan(t, Hutchinson, 4, d), c, Options{Seed: 1})
		if err != nil || math.Abs(got.Trace-want) > 1e-12 || got.StdErr > 1e-12 {
			t.Errorf("the trace is %v +- %v, %v; expected %v", got.Trace, got.StdErr, err, want)
		}
	})
}
