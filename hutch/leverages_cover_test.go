package hutch

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
)

// coverCase is a matrix with a control variate, nil for none.
type coverCase struct {
	leverageCase
	control func(g, image array.Batch)
}

// local is a matrix of which the blocks on the diagonal, of so many rows, are known: ridge regressions of each block
// of rows and one of all. What probes miss is small beside the bound of a sample's variance.
func local(dev array.Device, rng *rand.Rand, d, size, n int, ridge float64) coverCase {
	h := make([]float64, d*d)
	for i, v := range hat(rng, d, n, ridge, 0.5, ones) {
		h[i] = v / 4
	}
	for from := 0; from < d; from += size {
		for i, v := range hat(rng, size, n, ridge/20, 0.5, ones) {
			h[(from+i/size)*d+from+i%size] += v * 3 / 4
		}
	}
	c := coverCase{leverageCase: newLeverageCase(dev, rng, d, h)}
	c.control = func(signs, image array.Batch) {
		g, x := signs.ToHost(), image.ToHost()
		for e := range x {
			i := e % d
			from := e - i%size
			x[e] += h[i*d+i] * g[e]
			for j := range size {
				x[e] -= h[i*d+i/size*size+j] * g[from+j]
			}
		}
		dev.Upload(image, x)
	}
	return c
}

// coverage is what draws say of the error bar: how many are known, those with the exact mean within two bars, and the
// mean squares of the errors and of the bars.
type coverage struct{ known, within, square, bars float64 }

func (k *coverage) add(off, bar float64) {
	k.known++
	k.square += off * off
	k.bars += bar * bar
	if math.Abs(off) <= 2*bar {
		k.within++
	}
}

// covered are draws of 12, 24, 48 and 96 probes, without the trace and with it.
func (c coverCase) covered(t *testing.T, draws int) (all map[int]*[2]coverage) {
	t.Helper()
	const step = 12
	all = map[int]*[2]coverage{12: {}, 24: {}, 48: {}, 96: {}}
	dev, trace := c.m.Device(), floats.Sum(c.h)
	v, image := dev.Alloc(step, c.d), dev.Alloc(step, c.d)
	defer array.Free(v, image)
	for draw := range draws {
		sums := &leverageSums{d: c.d}
		for probes := step; probes <= 96; probes += step {
			Rademacher(v, uint64(draw), 0, probes)
			if err := dense(c.m)(t.Context(), image, v, nil); err != nil {
				t.Fatal(err)
			}
			if c.control != nil {
				c.control(v, image)
			}
			sums.random(probes, v, image)
			if all[probes] == nil {
				continue
			}
			for i, total := range []float64{math.NaN(), trace} {
				if got, err := (&Leverages{sums: sums, total: total}).Mean(c.leftOut); err == nil {
					all[probes][i].add(got.Value-c.exact, got.ProbesErr)
				}
			}
		}
	}
	return all
}

// Two error bars hold the exact mean in at least 90% of the draws of 12 to 96 probes, for projections and others, few
// and many entries, with and without a known trace, and are not much wider than the error asks for.
func TestBarsOfMeansOfTheDiagonalHold(t *testing.T) {
	if testing.Short() {
		t.Skip("short: statistics depend on neither the device nor the BLAS")
	}
	dev, rng := array.NewHost(), rand.New(rand.NewPCG(3, 4))
	for _, k := range []struct {
		name         string
		d, n         int
		ridge, decay float64
		scale        func() float64
		most         float64 // of the bars over the errors
	}{
		{"projection, df/d 0.1", 200, 20, 0, 0, ones, 2},
		{"projection, df/d 0.4", 200, 80, 0, 0, ones, 2},
		{"flat spectrum", 200, 130, 20, 0, ones, 2},
		{"falling spectrum", 200, 66, 10, 0.5, ones, 2},
		{"steeply falling spectrum", 600, 200, 1, 1, ones, 2},
		{"rows of high leverage", 200, 50, 20, 0.3, heavy(rng), 4.5}, // their errors have a heavy tail
		{"many entries", 800, 100, 1000, 0.2, ones, 2},
		{"many entries, half of them fitted", 800, 450, 500, 0, ones, 2},
		{"many entries, a part known", 800, 12, 400, 0.5, nil, 2},
	} {
		var c coverCase
		if k.scale == nil {
			c = local(dev, rng, k.d, 40, k.n, k.ridge)
		} else {
			c.leverageCase = newLeverageCase(dev, rng, k.d, hat(rng, k.d, k.n, k.ridge, k.decay, k.scale))
		}
		for probes, both := range c.covered(t, 100) {
			for i, of := range both {
				share, wide := of.within/of.known, math.Sqrt(of.bars/of.square)
				t.Logf("%s, %d probes, trace known %t: %g known, %.0f%% within two bars of %.2f times the error", k.name,
					probes, i > 0, of.known, 100*share, wide)
				if few := of.known < 30; !few && (share < 0.9 || wide < 0.9 || wide > k.most) || few && probes > 12 {
					t.Errorf("%s, %d probes, trace known %t: %g known, %.0f%% within two bars of %.2f times the error",
						k.name, probes, i > 0, of.known, 100*share, wide)
				}
			}
		}
		c.m.Free()
	}
}
