package hutch

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"surepipe/array"
)

func TestExactTraceIsTheTrace(t *testing.T) {
	dev := array.NewHost()
	noLeak(t, dev)
	const d = 75
	m, want, fro2 := randomPSD(dev, rand.New(rand.NewPCG(1, 2)), d, 200)
	defer m.Free()
	for _, estimator := range Estimators() {
		e := trace(t, dev, plan(t, estimator, 102, d), dense(m), Options{Seed: 3})
		if math.Abs(e.Trace-want) > 1e-13*want || math.Abs(e.Frobenius2-fro2) > 1e-13*fro2 {
			t.Errorf("%s: trace %v, want %v; squared norm %v, want %v", estimator, e.Trace, want, e.Frobenius2, fro2)
		}
		if e.StdErr != 0 || e.Queries != d || !e.Exact || e.Estimator != Exact {
			t.Errorf("%s: %+v", estimator, e)
		}
	}
}

// The mean over seeds of trace and squared norm is within 4 of its standard
// errors of the truth.
func TestEstimatesAreUnbiased(t *testing.T) {
	dev := array.NewHost()
	noLeak(t, dev)
	for _, c := range []struct{ d, rank int }{{40, 20}, {60, 200}, {90, 5}} {
		m, trueTrace, trueFro2 := randomPSD(dev, rand.New(rand.NewPCG(uint64(c.d), 3)), c.d, c.rank)
		for _, estimator := range []string{HutchPP, Hutchinson} {
			p := plan(t, estimator, 12, c.d)
			const seeds = 400
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
				if z := (x.mean() - x.want) / (x.sd() / math.Sqrt(seeds)); math.Abs(z) > 4 {
					t.Errorf("d = %d, rank %d, %s: mean %s %v is %.1f standard errors off %v", c.d, c.rank, estimator, what, x.mean(), z, x.want)
				}
			}
		}
		m.Free()
	}
}

// moments is a running sum of numbers and their squares.
type moments struct{ n, s, s2 float64 }

func (m *moments) add(x float64) { m.n++; m.s += x; m.s2 += x * x }
func (m moments) mean() float64  { return m.s / m.n }
func (m moments) rms() float64   { return math.Sqrt(m.s2 / m.n) }
func (m moments) sd() float64 {
	return math.Sqrt((m.s2 - m.s*m.s/m.n) / (m.n - 1))
}

func TestHutchPPIsExactOnLowRank(t *testing.T) {
	const d = 1024
	dev := array.NewHost()
	noLeak(t, dev)
	for _, c := range []struct {
		name   string
		lambda func(i float64) float64
	}{
		{"rank 0", func(i float64) float64 { return 0 }},
		{"rank 1", step(1)},
		{"rank 30", step(30)},
		{"rank 34", step(34)},
		{"rank 30, eigenvalues 1 to 1e-6", func(i float64) float64 { return step(30)(i) * math.Pow(1e-6, (i-1)/29) }},
		{"rank 10, eigenvalues 1 to 1e-12", func(i float64) float64 { return step(10)(i) * math.Pow(1e-12, (i-1)/9) }},
	} {
		lambda := spectrum(d, c.lambda)
		e := trace(t, dev, plan(t, HutchPP, 102, d), spectral(lambda, 1), Options{Seed: 5})
		want := sum(lambda)
		if math.Abs(e.Trace-want) > 1e-12*want || e.StdErr > 1e-12*want {
			t.Errorf("%s: trace %v +- %v is off %v by %.1e", c.name, e.Trace, e.StdErr, want, e.Trace-want)
		}
	}
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
// at 102 queries each, over 60 seeds: known to 13%.
func errorRatio(t *testing.T, dev array.Device, lambda []float64) float64 {
	t.Helper()
	m, want := spectral(lambda, 7), sum(lambda)
	var rms [2]float64
	for k, estimator := range []string{HutchPP, Hutchinson} {
		p := plan(t, estimator, 102, len(lambda))
		var errs moments
		for seed := range uint64(60) {
			errs.add(trace(t, dev, p, m, Options{Seed: seed}).Trace - want)
		}
		rms[k] = errs.rms()
	}
	t.Logf("trace %.3f, rms error of hutch++ %.2e, of hutchinson %.2e", want, rms[0], rms[1])
	return rms[0] / rms[1]
}

func TestHutchPPIsMoreAccurateThanHutchinsonOnDecayingSpectra(t *testing.T) {
	dev := array.NewHost()
	for _, c := range []struct {
		name   string
		lambda func(i float64) float64
		limit  float64
	}{
		{"1 over i", func(i float64) float64 { return 1 / i }, 0.5},
		{"1 over i^2", func(i float64) float64 { return 1 / (i * i) }, 0.02},
		{"exponential", func(i float64) float64 { return math.Exp(-i / 10) }, 0.2},
		{"20 ones above 0.01", func(i float64) float64 { return 0.01 + 0.99*step(20)(i) }, 0.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if ratio := errorRatio(t, dev, spectrum(1024, c.lambda)); ratio > c.limit {
				t.Errorf("the error of hutch++ is %.3f of hutchinson's, expected at most %v", ratio, c.limit)
			}
		})
	}
}

// Where a basis of 34 vectors holds little of ||M||_F, what Hutch++ loses is
// the two thirds of its queries that are not samples.
func TestHutchPPIsLessAccurateByAtMostSqrt3OnSlowSpectra(t *testing.T) {
	dev := array.NewHost()
	for _, c := range []struct {
		name   string
		lambda func(i float64) float64
	}{
		{"1 over sqrt(i)", func(i float64) float64 { return 1 / math.Sqrt(i) }},
		{"projection of rank 512", step(512)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if ratio := errorRatio(t, dev, spectrum(1024, c.lambda)); ratio > math.Sqrt(3)*1.13 {
				t.Errorf("the error of hutch++ is %.2f of hutchinson's, expected at most sqrt(3)", ratio)
			}
		})
	}
}

// <g, c g> = c d for every Rademacher vector. A deflated probe's length is
// d - ||Q* g||^2, which is random, but hardly.
func TestMultiplesOfTheIdentityAreExactForHutchinsonAndNearlySoForHutchPP(t *testing.T) {
	const d = 1024
	dev := array.NewHost()
	m := spectral(spectrum(d, func(float64) float64 { return 0.25 }), 1)
	e := trace(t, dev, plan(t, Hutchinson, 102, d), m, Options{Seed: 2})
	if math.Abs(e.Trace-d/4) > 1e-12*d || e.StdErr > 1e-12*d {
		t.Errorf("hutchinson: trace %v +- %v, want %v", e.Trace, e.StdErr, d/4)
	}
	e = trace(t, dev, plan(t, HutchPP, 102, d), m, Options{Seed: 2})
	if math.Abs(e.Trace-d/4) > 4*e.StdErr || e.StdErr > 1e-3*d {
		t.Errorf("hutch++: trace %v +- %v, want %v", e.Trace, e.StdErr, d/4)
	}
}

// The root mean square of the reported standard errors is within 25% of the
// spread of the estimates over seeds.
func TestStandardErrorMatchesTheSpreadOverSeeds(t *testing.T) {
	const d, seeds = 512, 200 // 200 seeds give the spread to 5%
	dev := array.NewHost()
	for _, c := range []struct {
		name   string
		lambda func(i float64) float64
	}{
		{"1/i", func(i float64) float64 { return 1 / i }},
		{"projection of rank 256", step(256)},
		{"exponential", func(i float64) float64 { return math.Exp(-i / 30) }},
	} {
		m := spectral(spectrum(d, c.lambda), 3)
		for _, estimator := range []string{HutchPP, Hutchinson} {
			p := plan(t, estimator, 102, d)
			var traces, stdErrs moments
			for seed := range uint64(seeds) {
				e := trace(t, dev, p, m, Options{Seed: seed})
				traces.add(e.Trace)
				stdErrs.add(e.StdErr)
			}
			ratio := stdErrs.rms() / traces.sd()
			t.Logf("%-22s %-10s spread %.3e, reported %.3e, ratio %.2f", c.name, estimator, traces.sd(), stdErrs.rms(), ratio)
			if ratio < 0.75 || ratio > 1.25 {
				t.Errorf("%s, %s: spread %.3e over seeds, reported %.3e", c.name, estimator, traces.sd(), stdErrs.rms())
			}
		}
	}
}

func TestResultIsBitIdenticalForAnyBatchSize(t *testing.T) {
	const d = 203
	dev := array.NewHost()
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
		if !p.Exact && other.Trace == want.Trace {
			t.Errorf("%s: samples 2 and 3 have the same probes", estimator)
		}
	}
}

// Stages that call the pieces get Trace's result to the last bit.
func TestPiecesAddUpToTheWhole(t *testing.T) {
	const d = 203
	dev := array.NewHost()
	mat, _, _ := randomPSD(dev, rand.New(rand.NewPCG(7, 3)), d, 50)
	m, p := dense(mat), plan(t, HutchPP, 30, d)
	want := trace(t, dev, p, m, Options{Seed: 8, Sample: 9})

	s, y, q := dev.Alloc(10, d), dev.Alloc(10, d), dev.Alloc(10, d)
	Rademacher(s, 8, 9, 0)
	if err := m.Apply(t.Context(), y, s); err != nil {
		t.Fatal(err)
	}
	rank, err := Orthonormalize(q, y)
	if err != nil {
		t.Fatal(err)
	}
	q = q.Rows(0, rank)
	tally := NewTally(p, rank, 8)
	for j := p.Residual - 1; j >= 0; j-- {
		x, mx := s.Rows(0, 1), y.Rows(0, 1)
		Rademacher(x, 8, 9, p.Sketch+j)
		Deflate(x, x, q)
		if err := m.Apply(t.Context(), mx, x); err != nil {
			t.Fatal(err)
		}
		tally.AddResidual(j, x, mx)
	}
	if err := m.Apply(t.Context(), y, q); err != nil {
		t.Fatal(err)
	}
	tally.AddProjected(0, q, y)
	if got, err := tally.Estimate(); err != nil || got != want {
		t.Errorf("pieces %+v, %v; whole %+v", got, err, want)
	}
}

func TestErrorsOfTheOracleComeBackAndLeakNothing(t *testing.T) {
	const d = 150
	dev := array.NewHost()
	noLeak(t, dev)
	mat, _, _ := randomPSD(dev, rand.New(rand.NewPCG(8, 3)), d, 50)
	defer mat.Free()
	broken := errors.New("the solver broke")
	for _, estimator := range Estimators() {
		p := plan(t, estimator, 30, d)
		for fail := 0; ; fail++ {
			calls := 0
			_, err := Trace(t.Context(), dev, p, func(ctx context.Context, dst, v array.Batch) error {
				if calls++; calls > fail {
					return broken
				}
				return dense(mat)(ctx, dst, v)
			}, Options{Batch: 3})
			if err == nil {
				break
			}
			if !errors.Is(err, broken) || !strings.Contains(err.Error(), "vectors") {
				t.Errorf("%s, call %d: error %v", estimator, fail, err)
			}
		}
	}
}

func TestCancelledContextStopsTheEstimate(t *testing.T) {
	const d = 150
	dev := array.NewHost()
	noLeak(t, dev)
	mat, _, _ := randomPSD(dev, rand.New(rand.NewPCG(9, 3)), d, 50)
	defer mat.Free()
	for last := range 12 {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		_, err := Trace(ctx, dev, plan(t, HutchPP, 30, d), func(ctx context.Context, dst, v array.Batch) error {
			if calls++; calls > last {
				cancel()
			}
			return dense(mat)(ctx, dst, v)
		}, Options{Batch: 2})
		if !errors.Is(err, context.Canceled) || calls > last+1 {
			t.Errorf("cancelled in call %d: %d calls, error %v", last, calls, err)
		}
		cancel()
	}
}

func TestOracleThatYieldsNaNIsAnError(t *testing.T) {
	const d = 150
	dev := array.NewHost()
	noLeak(t, dev)
	for _, estimator := range Estimators() {
		_, err := Trace(t.Context(), dev, plan(t, estimator, 30, d), func(_ context.Context, dst, v array.Batch) error {
			dst.Device().Fill(dst, math.NaN())
			return nil
		}, Options{})
		if err == nil || !strings.Contains(err.Error(), "NaN") {
			t.Errorf("%s: error %v", estimator, err)
		}
	}
}
