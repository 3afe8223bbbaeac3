package elementary

import (
	"math"
	"math/rand/v2"
	"testing"
)

// apart is the distance of two numbers in units in the last place of the second.
func apart(a, b float64) float64 {
	if a == b || math.IsNaN(a) && math.IsNaN(b) {
		return 0
	}
	return math.Abs(a-b) / (math.Nextafter(math.Abs(b), math.Inf(1)) - math.Abs(b))
}

// exp is math.Exp, which on amd64 is +Inf from 709.4 on.
func exp(v float64) float64 {
	if math.Abs(v) > 700 {
		return math.Exp(v/2) * math.Exp(v/2)
	}
	return math.Exp(v)
}

// TestFunctions compares with package math, at ordinary arguments, the ends of the ranges and what is no number.
func TestFunctions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name  string
		each  func(dst, x []float64)
		one   func(float64) float64
		most  float64
		some  []float64
		fresh func() float64
	}{
		{"Exp", Exp, exp, 2, []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), 709.78,
			709.79, 1e308, -708.3, -708.4, -720, -745.1, -745.2, -1e300, 5e-324, -1e-17, math.Ln2 / 2, 1e-8},
			func() float64 { return 30 * rng.NormFloat64() }},
		{"Log1p", Log1p, math.Log1p, 2, []float64{0, 1, 0.5, math.Nextafter(0.5, 1), 5e-324, 1e-310, 1e-17, 1e-8, math.NaN(),
			math.Sqrt2 - 1}, func() float64 { return math.Exp(-3 * math.Abs(rng.NormFloat64())) }},
	} {
		x := c.some
		for range 1 << 20 {
			x = append(x, c.fresh())
		}
		got := make([]float64, len(x))
		c.each(got, x)
		worst := 0.0
		for i, v := range x {
			off := apart(got[i], c.one(v))
			worst = max(worst, off)
			if !(off <= c.most) && !(math.Abs(v) > 700 && off <= 2*c.most) { // a square for reference
				t.Fatalf("%s(%g) = %g, expected %g: %g units in the last place", c.name, v, got[i], c.one(v), off)
			}
		}
		t.Logf("%s: at most %g units in the last place", c.name, worst)
	}
}

// TestPlaces: what an entry gives depends neither on where it stands nor on the others, and dst may be x.
func TestPlaces(t *testing.T) {
	x := []float64{0.1, 0.9, 0.3, 0.4, 0.5, 0.6, 0.7}
	for _, f := range []func(dst, x []float64){Exp, Log1p} {
		all := make([]float64, len(x))
		f(all, x)
		for from := range x {
			some := append([]float64(nil), x[from:]...)
			f(some, some)
			for i, v := range some {
				if v != all[from+i] {
					t.Fatalf("entry %d from %d: %g, expected %g", i, from, v, all[from+i])
				}
			}
		}
		f(nil, nil)
	}
}
func BenchmarkLog1p(b *testing.B) { bench(b, Log1p) }

func bench(b *testing.B, f func(dst, x []float64)) {
	x, dst := make([]float64, 4096), make([]float64, 4096)
	for i := range x {
		x[i] = float64(i) / 4096
	}
	b.SetBytes(8 * 4096)
	for b.Loop() {
		f(dst, x)
	}
}
