package loss_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/loss"
)

// Ones are five times as likely as zeros at z = log 5.
func ExampleLogistic() {
	dev := array.NewHost()
	l, err := loss.Logistic(nil)
	if err != nil {
		panic(err)
	}
	y, z, g := dev.Alloc(1, 2), dev.Alloc(1, 2), dev.Alloc(1, 2)
	dev.Upload(y, []float64{1, 0})
	dev.Upload(z, []float64{math.Log(5), math.Log(5)})
	l.Gradient(g, z, y)
	fmt.Printf("value %.4f, gradient %.4f\n", l.Value(z, y), g.ToHost())
	// Output:
	// value 1.9741, gradient [-0.1667 0.8333]
}

// likelihoods are the losses that are not quadratic, with observations.
func likelihoods(t *testing.T, weights []float64) map[string]struct {
	l *loss.Pointwise
	y []float64
} {
	t.Helper()
	out := map[string]struct {
		l *loss.Pointwise
		y []float64
	}{}
	add := func(name string, y ...float64) func(*loss.Pointwise, error) {
		return func(l *loss.Pointwise, err error) {
			if err != nil {
				t.Fatal(err)
			}
			out[name] = struct {
				l *loss.Pointwise
				y []float64
			}{l, y}
		}
	}
	add("logistic", 0, 1, 0.3, 1)(loss.Logistic(weights))
	add("poisson", 0, 3, 1.5, 40)(loss.Poisson(weights))
	add("huber", 1, -2, 0.5, 4)(loss.Huber(1.2, weights))
	return out
}

// Gradients are those of the values, and curvatures those of the gradients; the losses of single
// observations sum to the value; the gap is 0 at the gradient, positive elsewhere, and that of the
// conjugate.
func TestLikelihoodsAreConsistent(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		on := func(x []float64) array.Batch {
			b := dev.Alloc(1, len(x))
			dev.Upload(b, x)
			t.Cleanup(b.Free)
			return b
		}
		for _, weights := range [][]float64{nil, {1, 0, 2.5, 0.3}} {
			for name, c := range likelihoods(t, weights) {
				point, y := []float64{0.3, 1.7, -1, 3}, on(c.y)
				z, g, curve := on(point), on(point), on(point)
				c.l.Gradient(g, g, y)
				c.l.Curvature(curve, curve, y)
				gradient, curvature := g.ToHost(), curve.ToHost()
				const h = 1e-5
				for i := range point {
					at := func(off float64) array.Batch {
						moved := append([]float64(nil), point...)
						moved[i] += off
						return on(moved)
					}
					up, down := at(h), at(-h)
					if got := (c.l.Value(up, y) - c.l.Value(down, y)) / (2 * h); math.Abs(got-gradient[i]) > 1e-7 {
						t.Errorf("%s: gradient %d is %g, differences give %g", name, i, gradient[i], got)
					}
					c.l.Gradient(up, up, y)
					c.l.Gradient(down, down, y)
					if got := (up.ToHost()[i] - down.ToHost()[i]) / (2 * h); math.Abs(got-curvature[i]) > 1e-7 {
						t.Errorf("%s: curvature %d is %g, differences give %g", name, i, curvature[i], got)
					}
					if !(curvature[i] <= c.l.Lipschitz()) {
						t.Errorf("%s: curvature %g above the Lipschitz constant %g", name, curvature[i],
							c.l.Lipschitz())
					}
				}
				known := c.l.Structure()
				sum := 0.0
				for i, v := range point {
					sum += known.At(i, v, c.y[i])
				}
				value := c.l.Value(z, y)
				if math.Abs(sum-value) > 1e-12*math.Abs(value) || known.Least(y) > value {
					t.Errorf("%s: single losses sum to %g of %g, the least is %g", name, sum, value, known.Least(y))
				}
				if gap := known.Gap(g, z, y); !(gap >= 0) || gap > 1e-14 {
					t.Errorf("%s: gap %g at the gradient", name, gap)
				}
				// l*(u) = sup_z <u, z> - l(z; y), by a search on a grid of every coordinate.
				half := append([]float64(nil), gradient...)
				want := value
				for i := range half {
					half[i] /= 2
					best := math.Inf(-1)
					for k := -40000; k <= 40000; k++ {
						other := float64(k) * 5e-4
						best = max(best, half[i]*other-known.At(i, other, c.y[i]))
					}
					want += best - half[i]*point[i]
				}
				if got := known.Gap(on(half), z, y); math.Abs(got-want) > 1e-5 || !(got > 0) {
					t.Errorf("%s: gap %g, by a search %g", name, got, want)
				}
				if _, ok := c.l.Weights(); ok || loss.Quadratic(c.l) || known.Name != name {
					t.Errorf("%s is quadratic, or %q", name, known.Name)
				}
			}
		}
	})
}

// Far from 0 nothing is NaN, and what is not infinite is exact.
func TestLikelihoodsFarFromZero(t *testing.T) {
	dev := array.NewHost()
	one := func(x float64) array.Batch {
		b := dev.Alloc(1, 1)
		dev.Upload(b, []float64{x})
		return b
	}
	for name, c := range likelihoods(t, nil) {
		for _, at := range []float64{-800, -40, 40, 800} {
			for _, v := range c.y {
				z, y, g, w := one(at), one(v), one(0), one(0)
				c.l.Gradient(g, z, y)
				c.l.Curvature(w, z, y)
				value, slope, curve, gap := c.l.Value(z, y), g.ToHost()[0], w.ToHost()[0], c.l.Structure().Gap(g, z, y)
				for what, x := range map[string]float64{"value": value, "slope": slope, "curvature": curve} {
					if math.IsNaN(x) || math.IsInf(x, 0) && !(name == "poisson" && at == 800) {
						t.Errorf("%s at %g, y = %g: %s %g", name, at, v, what, x)
					}
				}
				if !(gap >= 0) || gap > 1e-12 && !math.IsInf(gap, 1) {
					t.Errorf("%s at %g, y = %g: gap %g", name, at, v, gap)
				}
			}
		}
	}
	l, err := loss.Logistic(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.Value(one(40), one(1)), math.Exp(-40); math.Abs(got-want) > 1e-15*want {
		t.Errorf("log(1 + e^-40) is %g, want %g", got, want)
	}
}

func TestObservationsThatAreNoneAreErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		y    float64
		want string
	}{
		{"logistic", -1, "code labels of -1 and 1 as (y + 1)/2"}, {"logistic", 2, "expects 0 or 1"},
		{"logistic", math.NaN(), "expects 0 or 1"},
		{"poisson", -0.5, "counts"}, {"poisson", math.Inf(1), "counts"}, {"huber", math.NaN(), "finite"},
	} {
		l := likelihoods(t, nil)[c.name].l
		if err := l.Structure().Check([]float64{0.5, c.y}); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "y[1]") {
			t.Errorf("%s at %g: error %v, expected %q", c.name, c.y, err, c.want)
		}
	}
	for _, delta := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := loss.Huber(delta, nil); err == nil || !strings.Contains(err.Error(), "delta") {
			t.Errorf("delta %g: error %v", delta, err)
		}
	}
	if _, err := loss.Logistic([]float64{1, -1}); err == nil {
		t.Error("a negative weight is none")
	}
}

// Evaluations allocate nothing in the long run.
func TestLikelihoodsAllocateNothing(t *testing.T) {
	dev := array.NewHost()
	rng := rand.New(rand.NewPCG(1, 2))
	z, y, g := dev.Alloc(1, 64), dev.Alloc(1, 64), dev.Alloc(1, 64)
	host := make([]float64, 64)
	for i := range host {
		host[i] = rng.Float64()
	}
	dev.Upload(z, host)
	dev.Upload(y, host)
	for name, c := range likelihoods(t, nil) {
		if n := testing.AllocsPerRun(100, func() {
			c.l.Value(z, y)
			c.l.Gradient(g, z, y)
			c.l.Structure().Gap(g, z, y)
		}); n > 5 { // the pool drops some under the race detector
			t.Errorf("%s: %g allocations", name, n)
		}
	}
}

// Sums over many observations are those of one after the other, without those of weight 0, and have the same bits on
// any number of processors.
func TestSumsOverManyObservations(t *testing.T) {
	const n = 3<<12 + 17
	dev := array.NewHost()
	rng := rand.New(rand.NewPCG(3, 4))
	z, y, g := dev.Alloc(1, n), dev.Alloc(1, n), dev.Alloc(1, n)
	at, seen, w := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range at {
		at[i], seen[i], w[i] = rng.NormFloat64(), float64(rng.IntN(2)), float64(rng.IntN(3))
	}
	dev.Upload(z, at)
	dev.Upload(y, seen)
	zOne, yOne, gOne := dev.Alloc(1, 1), dev.Alloc(1, 1), dev.Alloc(1, 1)
	for name, c := range likelihoods(t, w) {
		one := likelihoods(t, nil)[name].l
		all := func() []float64 {
			c.l.Gradient(g, z, y)
			return append(g.ToHost(), c.l.Value(z, y), c.l.Structure().Gap(g, z, y), c.l.Structure().Least(y))
		}
		got := all()
		before := runtime.GOMAXPROCS(1)
		alone := all()
		runtime.GOMAXPROCS(before)
		if !slices.Equal(got, alone) {
			t.Errorf("%s: other bits on one processor", name)
		}
		sum := 0.0
		for i, v := range w {
			if v > 0 {
				sum += c.l.Structure().At(i, at[i], seen[i])
			}
			dev.Upload(zOne, at[i:i+1])
			dev.Upload(yOne, seen[i:i+1])
			one.Gradient(gOne, zOne, yOne)
			if want := v * gOne.ToHost()[0]; math.Abs(got[i]-want) > 1e-14*math.Abs(want) {
				t.Fatalf("%s: slope %d is %g, expected %g", name, i, got[i], want)
			}
		}
		if math.Abs(got[n]-sum) > 1e-12*math.Abs(sum) {
			t.Errorf("%s: value %g, expected %g", name, got[n], sum)
		}
	}
}
