package hutch

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
)

// hat is A (A*A + ridge I)^{-1} A* for a d x n matrix A with normal entries, the rows of which are
// scaled by scale and the columns by 1/j^decay.
func hat(rng *rand.Rand, d, n int, ridge, decay float64, scale func() float64) []float64 {
	a := mat.NewDense(d, n, nil)
	for i := range d {
		s := scale()
		for j := range n {
			a.Set(i, j, s*rng.NormFloat64()/math.Pow(float64(j+1), decay))
		}
	}
	var k, inverse, half, h mat.Dense
	k.Mul(a.T(), a)
	for j := range n {
		k.Set(j, j, k.At(j, j)+ridge)
	}
	if err := inverse.Inverse(&k); err != nil {
		panic(err)
	}
	half.Mul(a, &inverse)
	h.Mul(&half, a.T())
	return h.RawMatrix().Data
}

func ones() float64 { return 1 }

// heavy returns scales of rows with a heavy tail: a few rows have leverages near 1.
func heavy(rng *rand.Rand) func() float64 {
	return func() float64 { return 1 / math.Sqrt(rng.Float64()) }
}

// leverageCase is a matrix between 0 and I, and the mean of r_i^2/(1 - h_i)^2 that is to be
// estimated.
type leverageCase struct {
	m     array.Batch
	d     int
	h, r  []float64
	exact float64
}

func newLeverageCase(dev array.Device, rng *rand.Rand, d int, h []float64) leverageCase {
	c := leverageCase{m: upload(dev, d, d, h), d: d, h: make([]float64, d), r: make([]float64, d)}
	for i := range d {
		c.h[i] = h[i*d+i]
		c.r[i] = rng.NormFloat64() * math.Sqrt(1-c.h[i])
		c.exact += c.leftOut(i, c.h[i]) / float64(d)
	}
	return c
}

// leftOut is the squared residual of observation i when it is left out of least squares.
func (c leverageCase) leftOut(i int, h float64) float64 { return c.r[i] * c.r[i] / (1 - h) / (1 - h) }

func (c leverageCase) run(t *testing.T, estimator string, queries int, o Options) *Run {
	t.Helper()
	plan, err := NewPlan(estimator, queries, c.d)
	if err != nil {
		t.Fatal(err)
	}
	o.Diagonal = true
	r := NewRun(c.m.Device(), plan, Exactly(dense(c.m)), o)
	for _, p := range []Phase{Sketching, Projected, Residual} {
		for first, batch := 0, max(o.Batch, 1); first < r.Count(p); first += batch {
			if err := r.Do(t.Context(), p, first, min(batch, r.Count(p)-first)); err != nil {
				t.Fatal(err)
			}
		}
		if p == Sketching {
			if err := r.EndSketch(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}

// spread is the bias, the standard deviation and the root mean square of the error bar over seeds,
// relative to the exact mean.
func (c leverageCase) spread(t *testing.T, estimator string, queries, seeds int) (bias, sd, bar float64) {
	t.Helper()
	values, bars := make([]float64, seeds), 0.0
	for seed := range seeds {
		r := c.run(t, estimator, queries, Options{Seed: uint64(seed), Batch: 64})
		got, err := r.Leverages().Mean(c.leftOut)
		r.Free()
		if err != nil {
			t.Fatal(err)
		}
		values[seed] = got.Value / c.exact
		bars += got.ProbesErr * got.ProbesErr / c.exact / c.exact / float64(seeds)
	}
	mean, sd := stat.MeanStdDev(values, nil)
	return mean - 1, sd, math.Sqrt(bars)
}

// The matrices of the tests: projections as of a LASSO, of low to high rank and with rows of high
// leverage; shrinkage with a flat and a falling spectrum; and one that a sketch captures.
var leverageCases = []struct {
	name         string
	n            int
	ridge, decay float64
	heavy        bool
}{
	{"projection, df/d 0.1", 20, 0, 0, false},
	{"projection, df/d 0.4", 80, 0, 0, false},
	{"projection, df/d 0.7", 140, 0, 0, false},
	{"projection, rows of high leverage", 50, 0, 0, true},
	{"flat spectrum below 1", 130, 20, 0, false},
	{"falling spectrum", 66, 10, 0.5, false},
	{"rank below the sketch", 13, 0, 0, true},
}

func forLeverageCases(t *testing.T, each func(t *testing.T, c leverageCase)) {
	t.Helper()
	for _, k := range leverageCases {
		t.Run(k.name, func(t *testing.T) {
			dev, rng, scale := array.NewHost(), rand.New(rand.NewPCG(1, 2)), ones
			if k.heavy {
				scale = heavy(rng)
			}
			const d = 200
			c := newLeverageCase(dev, rng, d, hat(rng, d, k.n, k.ridge, k.decay, scale))
			defer c.m.Free()
			each(t, c)
		})
	}
}

// Over many seeds the mean of leave-one-out has no bias beyond 3% (and a third of its own spread),
// and the root mean square of its error bar is the spread of the values, widened: to 1 to 1.6 times as
// much, and what 50 seeds leave open.
func TestMeansOfTheDiagonalAreUnbiasedWithinTheirErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("short: statistics depend on neither the device nor the BLAS")
	}
	forLeverageCases(t, func(t *testing.T, c leverageCase) {
		const seeds = 50
		for _, e := range []struct {
			name    string
			queries int
		}{{Hutchinson, 30}, {Hutchinson, 100}} {
			bias, sd, bar := c.spread(t, e.name, e.queries, seeds)
			t.Logf("%s, %d queries: %+.4f ± %.4f, error bar %.4f", e.name, e.queries, bias, sd, bar)
			if math.Abs(bias) > 0.03+sd/3 {
				t.Errorf("%s, %d queries: relative bias %+.3f, spread %.3f", e.name, e.queries, bias, sd)
			}
			if ratio := bar / sd; ratio < 0.8 || ratio > 2 {
				t.Errorf("%s, %d queries: error bar %.3g for a spread of %.3g", e.name, e.queries, bar, sd)
			}
		}
	})
}

// The bits do not depend on batches, nor on the order of the work.
func TestMeansOfTheDiagonalDoNotDependOnBatches(t *testing.T) {
	dev, rng := array.NewHost(), rand.New(rand.NewPCG(5, 6))
	const d = 90
	c := newLeverageCase(dev, rng, d, hat(rng, d, 40, 3, 0.3, ones))
	defer c.m.Free()
	for _, estimator := range Estimators() {
		var first DiagonalMean
		for i, batch := range []int{64, 7, 2, 1} {
			r := c.run(t, estimator, 60, Options{Seed: 9, Sample: 2, Batch: batch})
			l := r.Leverages()
			if estimator == Exact || estimator == HutchPP {
				if l != nil {
					t.Errorf("%s has leverages from probes", estimator)
				}
				r.Free()
				continue
			}
			got, err := l.Shifted(func(int) float64 { return 1e-3 }).Mean(c.leftOut)
			r.Free()
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = got
			}
			if !reflect.DeepEqual(got, first) {
				t.Errorf("%s in batches of %d: %v, expected %v", estimator, batch, got, first)
			}
		}
	}
}

// Sums are multiples of the quantum in any order, also where they are large, and not numbers where one is none.
func TestMultiplesAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	var forth, back multiples
	var all [][]float64
	for k := range 40 {
		x := []float64{rng.NormFloat64(), 0.25, 1e-9, float64(k), 0}
		all = append(all, x)
		forth.add(x, true)
	}
	for k := range all {
		back.add(all[len(all)-1-k], true)
	}
	if forth.long == nil || forth.at(1) != 40*0.0625 || forth.at(2) != 0 || forth.at(3) != 39*40*79/6 {
		t.Errorf("sums %v, %v", forth.short, forth.long)
	}
	for i := range all[0] {
		exact := 0.0
		for _, x := range all {
			exact += x[i] * x[i]
		}
		if forth.at(i) != back.at(i) || math.Abs(forth.at(i)-exact) > 20*quantum {
			t.Errorf("entry %d: %v forth, %v back, exactly %v", i, forth.at(i), back.at(i), exact)
		}
	}
	forth.add([]float64{0, math.NaN(), 0, 0, 0}, false)
	if !math.IsNaN(forth.at(1)) || forth.at(3) != 39*40*79/6 {
		t.Errorf("with NaN: %v", forth.long)
	}
}

// The mean of the diagonal itself is the trace over d: it needs no correction.
func TestMeanOfTheDiagonalIsTheTrace(t *testing.T) {
	forLeverageCases(t, func(t *testing.T, c leverageCase) {
		r := c.run(t, Hutchinson, 400, Options{Seed: 4, Batch: 64})
		defer r.Free()
		if !r.Plan().Exact() {
			t.Fatal("expected the exact plan")
		}
		s := c.run(t, Hutchinson, 150, Options{Seed: 4, Batch: 64})
		defer s.Free()
		got, err := s.Leverages().Mean(func(_ int, h float64) float64 { return h })
		if err != nil {
			t.Fatal(err)
		}
		if want := stat.Mean(c.h, nil); math.Abs(got.Value-want) > 4*got.ProbesErr+0.01*want {
			t.Errorf("%g ± %g, expected %g", got.Value, got.ProbesErr, want)
		}
	})
}

// Shifting all leverages by 1/d is adding the projection on the constants, to which M is orthogonal.
func TestShiftedLeveragesAreThoseWithTheConstants(t *testing.T) {
	dev, rng := array.NewHost(), rand.New(rand.NewPCG(7, 8))
	const d = 60
	a := mat.NewDense(d, 30, nil)
	a.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, a)
	for j := range 30 {
		mean := stat.Mean(mat.Col(nil, j, a), nil)
		for i := range d {
			a.Set(i, j, a.At(i, j)-mean)
		}
	}
	var qr mat.QR
	var q, h mat.Dense
	qr.Factorize(a)
	qr.QTo(&q)
	thin := q.Slice(0, d, 0, 30)
	h.Mul(thin, thin.T())
	c := newLeverageCase(dev, rng, d, h.RawMatrix().Data)
	defer c.m.Free()
	want := 0.0
	for i, v := range c.h {
		want += c.leftOut(i, v+1.0/d) / d
	}
	for _, e := range []struct {
		name    string
		queries int
	}{{Hutchinson, 50}} {
		values, bars := 0.0, 0.0
		for seed := range 20 {
			r := c.run(t, e.name, e.queries, Options{Seed: uint64(seed), Batch: 64})
			got, err := r.Leverages().Shifted(func(int) float64 { return 1.0 / d }).Mean(c.leftOut)
			r.Free()
			if err != nil {
				t.Fatal(err)
			}
			values += got.Value / 20
			bars += got.ProbesErr * got.ProbesErr / 400
		}
		if math.Abs(values-want) > 4*math.Sqrt(bars) {
			t.Errorf("%s: %g ± %g, expected %g", e.name, values, math.Sqrt(bars), want)
		}
	}
}

// Entries of 1, or so near to it that probes cannot tell, leave the mean unknown and are counted; fewer
// probes than their spread needs show no diagonal.
func TestEntriesNearOneAreNotKnown(t *testing.T) {
	dev, rng := array.NewHost(), rand.New(rand.NewPCG(9, 10))
	const d = 60
	leaving := func(i int, h float64) float64 { return float64(i%2) / (1 - h) / (1 - h) } // 0 at entry 30
	for _, near := range []float64{0, 1e-12, 1e-3} {
		h := hat(rng, d, 20, 0, 0, ones)
		for _, at := range []int{7, 30} {
			for j := range d {
				h[at*d+j], h[j*d+at] = 0, 0
			}
			h[at*d+at] = 1 - near
		}
		c := leverageCase{m: upload(dev, d, d, h), d: d}
		for _, e := range []struct {
			name    string
			queries int
		}{{Hutchinson, 24}} {
			r := c.run(t, e.name, e.queries, Options{Seed: 1, Batch: 64})
			got, err := r.Leverages().Mean(leaving)
			r.Free()
			unresolved := new(UnresolvedError)
			switch {
			case near < 1e-9 && (!errors.As(err, &unresolved) || unresolved.Count != 2 || unresolved.D != d):
				t.Errorf("%s, 1 - %g: %+v, %v, expected two entries that are not known", e.name, near, got, err)
			case near > 1e-9 && err != nil: // its samples are all the same, and known
				t.Errorf("%s, 1 - %g: %v", e.name, near, err)
			}
		}
		c.m.Free()
	}
	c := leverageCase{m: upload(dev, d, d, hat(rng, d, 20, 0, 0, ones)), d: d}
	defer c.m.Free()
	for name, queries := range map[string]int{Hutchinson: LeastProbes - 1, HutchPP: 45} {
		r := c.run(t, name, queries, Options{})
		if r.Leverages() != nil {
			t.Errorf("%s: leverages from %d queries", name, queries)
		}
		r.Free()
	}
}

// Where the trace is known the spread over seeds falls, and the error bar with it.
func TestKnownTraceReducesTheSpread(t *testing.T) {
	if testing.Short() {
		t.Skip("short: statistics depend on neither the device nor the BLAS")
	}
	forLeverageCases(t, func(t *testing.T, c leverageCase) {
		trace := 0.0
		for _, h := range c.h {
			trace += h
		}
		const seeds = 60
		var values, bars [2][]float64
		for seed := range seeds {
			r := c.run(t, Hutchinson, 48, Options{Seed: uint64(seed), Batch: 64})
			for i, l := range []*Leverages{r.Leverages(), r.Leverages().WithTrace(trace)} {
				got, err := l.Mean(c.leftOut)
				if err != nil {
					t.Fatal(err)
				}
				values[i], bars[i] = append(values[i], got.Value/c.exact),
					append(bars[i], got.ProbesErr*got.ProbesErr/c.exact/c.exact)
			}
			r.Free()
		}
		var sd, bar, bias [2]float64
		for i := range values {
			bias[i], sd[i] = stat.MeanStdDev(values[i], nil)
			bar[i] = math.Sqrt(stat.Mean(bars[i], nil))
		}
		t.Logf("bias %+.4f, with the trace %+.4f; spread %.4f [%.4f], with the trace %.4f [%.4f]", bias[0]-1,
			bias[1]-1, sd[0], bar[0], sd[1], bar[1])
		if sd[1] > 1.1*sd[0] || math.Abs(bias[1]-1) > 0.03+sd[1]/3 {
			t.Errorf("spread %.4f, without the trace %.4f; bias %+.4f", sd[1], sd[0], bias[1]-1)
		}
		if ratio := bar[1] / sd[1]; ratio < 0.8 || ratio > 2 {
			t.Errorf("error bar %.3g for a spread of %.3g", bar[1], sd[1])
		}
	})
}
