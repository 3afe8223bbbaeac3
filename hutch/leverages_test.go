package hutch

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
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
	r := NewRun(c.m.Device(), plan, Matrix{Images: dense(c.m)}, o)
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

func TestStudy(t *testing.T) {
	dev := array.NewHost()
	for _, k := range []struct {
		name         string
		n            int
		ridge, decay float64
		heavy        bool
	}{
		{"proj .1", 30, 0, 0, false}, {"proj .4", 120, 0, 0, false}, {"proj .7", 210, 0, 0, false}, {"proj .9", 270, 0, 0, false}, {"heavy", 75, 0, 0, true},
		{"enet", 200, 20, 0, false}, {"enet2", 200, 200, 0, false}, {"ridge decay", 100, 10, .5, false}, {"ridge decay heavy", 100, 10, .5, true}, {"fast decay", 60, 1, 1.5, true}, {"lowrank", 20, 0, 0, true},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		scale := ones
		if k.heavy {
			scale = heavy(rng)
		}
		c := newLeverageCase(dev, rng, 300, hat(rng, 300, k.n, k.ridge, k.decay, scale))
		top := 0.0
		for _, h := range c.h {
			top = max(top, h)
		}
		out := fmt.Sprintf("%-18s df/d %.2f max %.3f: ", k.name, stat.Mean(c.h, nil), top)
		for _, e := range []struct {
			name string
			q    int
		}{{Hutchinson, 24}, {Hutchinson, 100}, {HutchPP, 102}, {XTrace, 100}} {
			b, s, r := c.spread(t, e.name, e.q, 50)
			out += fmt.Sprintf("| %s %d %+.3f ± %.3f [%.3f] ", e.name, e.q, b, s, r)
		}
		t.Log(out)
		c.m.Free()
	}
	_ = errors.New
}
