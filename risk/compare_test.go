package risk_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"surepipe/hutch"
	"surepipe/risk"
)

func packed(x ...float64) *risk.Packed {
	p := risk.Pack(x)
	return &p
}

// Packed numbers keep their relative accuracy in any units, and their bits through JSON.
func TestPacked(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, scale := range []float64{0, 1e-200, 1, 1e200, math.MaxFloat64} {
		x := make([]float64, 100)
		largest := 0.0
		for i := range x {
			x[i] = scale * (2*rng.Float64() - 1)
			largest = max(largest, math.Abs(x[i]))
		}
		p := risk.Pack(x)
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var back risk.Packed
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(p, back) {
			t.Errorf("%g: %v, %v", scale, back, err)
		}
		for i := range x {
			if math.Abs(p.At(i)-x[i]) > 6e-8*largest {
				t.Errorf("%g: number %d is %g, expected %g", scale, i, p.At(i), x[i])
			}
		}
	}
	var p risk.Packed
	if err := json.Unmarshal([]byte(`{"unit":1,"float32":"AACA"}`), &p); err == nil {
		t.Error("3 bytes were accepted")
	}
}

// The error of a difference of SURE is 2 sigma ||h|| and 2 sigma2 ||J_a - J_b||_F together, with
// those of the traces and of sigma2; that of GCV is SURE's in its units; and ALO's is the paired
// error where there is nothing else.
func TestDifference(t *testing.T) {
	a := risk.Fit{Value: 10, Digest: &risk.Digest{D: 4, Divergence: 2, Residual: packed(1, 2, 2, 0),
		Images: packed(3, 0), Probes: 2}}
	b := risk.Fit{Value: 7, Digest: &risk.Digest{D: 4, Divergence: 1, Residual: packed(1, 0, 1, 2),
		Images: packed(0, 4), Probes: 2}}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6*want {
			t.Errorf("%s: %g, expected %g", what, got, want)
		}
	}
	sure := risk.Comparison{Criterion: risk.SURE, Sigma2: 3}
	// ||h||^2 = 4 + 1 + 4, ||J_a - J_b||^2 = 25/2.
	want := math.Sqrt(4*3*9 + 4*9*25/2.0)
	near("SURE", sure.Difference(a, b).StdErr, want)
	near("the value", sure.Difference(a, b).Value, 3)
	near("AIC", risk.Comparison{Criterion: risk.AIC, Sigma2: 3}.Difference(a, b).StdErr, want/3)
	near("sigma2", risk.Comparison{Criterion: risk.SURE, Sigma2: 3, RelStdErr: 0.5}.Difference(a, b).StdErr,
		math.Hypot(want, 2*3*0.5))
	if e := sure.Difference(a, a).StdErr; e != 0 {
		t.Errorf("a fit differs from itself by ± %g", e)
	}
	// g = 2 and 4/3, s^2 = 7/(4/3).
	s2 := 7.0 * 3 / 4
	near("GCV", risk.Comparison{Criterion: risk.GCV}.Difference(a, b).StdErr,
		(4+16.0/9)/2/4*math.Sqrt(4*s2*9+4*s2*s2*25/2))
	for _, c := range []risk.Comparison{{Criterion: risk.BIC, Sigma2: 3}, {Criterion: risk.AIC}} {
		if e := c.Difference(a, b); !math.IsNaN(e.StdErr) || !math.IsNaN(c.Optimism([]risk.Fit{a, b}, 1).Value) {
			t.Errorf("%v: %g", c, e)
		}
	}
	// Differences of the left-out errors: 1, 3, 5, 3; their standard deviation is sqrt(8/3).
	x := risk.Fit{Value: 4, Digest: &risk.Digest{D: 4, Losses: packed(2, 4, 6, 4)}}
	z := risk.Fit{Value: 1, Digest: &risk.Digest{D: 4, Losses: packed(1, 1, 1, 1)}}
	near("ALO", risk.Comparison{Criterion: risk.ALO}.Difference(x, z).StdErr, math.Sqrt(8/3.0)/2)
	if e := (risk.Comparison{Criterion: risk.SURE, Sigma2: 1}).Difference(a,
		risk.Fit{Value: 1}); !math.IsNaN(e.StdErr) || e.Value != 9 {
		t.Errorf("without a digest: %v", e)
	}
}

// The error of a difference of traces is that of the paired probes: over seeds it is the spread of
// the difference, also where one fit has more probes than the other.
func TestErrorOfADifferenceOfTraces(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, c := range []struct{ m, n int }{{24, 24}, {24, 90}, {60, 30}} {
		const draws, k = 4000, 24
		var squares, estimates float64
		for range draws {
			forms := make([][2]float64, max(c.m, c.n))
			for j := range forms {
				common := 10 * rng.NormFloat64()
				forms[j] = [2]float64{50 + common + rng.NormFloat64(), 40 + 0.9*common}
			}
			var trace [2]float64
			var first [2][]float64
			for j, q := range forms {
				for s, n := range []int{c.m, c.n} {
					if j < n {
						trace[s] += q[s] / float64(n)
					}
					if j < k {
						first[s] = append(first[s], q[s])
					}
				}
			}
			fit := func(s, n int) risk.Fit {
				return risk.Fit{Digest: &risk.Digest{D: 100, StdErr: 1, Queries: n, Forms: packed(first[s]...),
					Residual: packed(0), Images: packed(0), Probes: 1}}
			}
			e := risk.Comparison{Criterion: risk.SURE, Sigma2: 0.5}.Difference(fit(0, c.m), fit(1, c.n)).StdErr /
				hutch.Widened(k-1)
			estimates += e * e / draws
			off := trace[0] - trace[1] - 10
			squares += off * off / draws
		}
		if ratio := math.Sqrt(estimates / squares); math.Abs(ratio-1) > 0.06 {
			t.Errorf("%d and %d probes: the error is %.3f times the spread", c.m, c.n, ratio)
		}
	}
}

// The optimism of the better of two fits by what was left out: if the mean of the differences is v and varies by s, it is
// v Phi(-v/s) + s phi(v/s). It is not known of errors that are not kept, of few, and where the value is another mean.
func TestOptimismOfTwoByLeavingOut(t *testing.T) {
	const n = 100
	fit := func(n int, v float64) risk.Fit {
		errs := make([]float64, n)
		for i := range errs {
			errs[i] = 2 + v + float64(i%2*2-1)
		}
		one := packed(errs...)
		return risk.Fit{Value: 2 + v, Digest: &risk.Digest{D: n, Losses: one}}
	}
	flat := func(n int) risk.Fit {
		errs := make([]float64, n)
		for i := range errs {
			errs[i] = 2
		}
		return risk.Fit{Value: 2, Digest: &risk.Digest{D: n, Losses: packed(errs...)}}
	}
	s := 1 / math.Sqrt(n)
	for _, c := range []risk.Criterion{risk.ALO, risk.CV, risk.LGO} {
		by := risk.Comparison{Criterion: c}
		for _, v := range []float64{0, 0.05, 0.1, 5} {
			z := v / s
			want := v*math.Erfc(z/math.Sqrt2)/2 + s*math.Exp(-z*z/2)/math.Sqrt(2*math.Pi)
			o := by.Optimism([]risk.Fit{fit(n, v), flat(n)}, 1)
			if math.Abs(o.Value-want) > 0.2*s || o.LeavesOut == "" || !(o.StdErr >= o.Value/2) {
				t.Errorf("%s, %g apart: %+v, expected %g", c, v, o, want)
			}
		}
		other := fit(n, 0.1)
		other.Value++
		for what, fits := range map[string][]risk.Fit{
			"another mean": {other, flat(n)}, "few": {fit(8, 0), flat(8)}, "one fit": {flat(n)},
			"projections": {{Value: 2, Digest: &risk.Digest{D: 4 * n, Losses: packed(1, 2, 3)}},
				{Value: 2, Digest: &risk.Digest{D: 4 * n, Losses: packed(1, 2, 3)}}},
		} {
			if o := by.Optimism(fits, len(fits)-1); !math.IsNaN(o.Value) || o.LeavesOut != "" {
				t.Errorf("%s, %s: %+v", c, what, o)
			}
		}
	}
}

// The optimism of the better of two fits: with Z ~ N(0, s^2), -E[Z; v + Z < 0] = s phi(v/s).
func TestOptimismOfTwo(t *testing.T) {
	phi := func(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
	for _, v := range []float64{0, 1, 3, 100} {
		// All of Z is in the Jacobians: s = 2 sigma2 ||J_a - J_b|| = 2.
		a := risk.Fit{Value: 5, Digest: &risk.Digest{D: 9, Residual: packed(1, 1), Images: packed(1, 0), Probes: 1}}
		b := risk.Fit{Value: 5 + v, Digest: &risk.Digest{D: 9, Residual: packed(1, 1), Images: packed(0, 0), Probes: 1}}
		o := risk.Comparison{Criterion: risk.SURE, Sigma2: 1}.Optimism([]risk.Fit{a, b}, 0)
		if want := 2 * phi(v/2); math.Abs(o.Value-want) > 4*o.StdErr+1e-12 || o.StdErr > 0.04 {
			t.Errorf("%g apart: optimism %+v, expected %g", v, o, want)
		}
		// All of it is in h: the values vary with between none and all of it.
		a.Images, b.Residual = b.Images, packed(1, 2)
		o = risk.Comparison{Criterion: risk.AIC, Sigma2: 1}.Optimism([]risk.Fit{a, b}, 0)
		if want := phi(v / 2); math.Abs(o.Value-want) > 0.05 || math.Abs(o.StdErr-want) > 0.05 {
			t.Errorf("%g apart: optimism %+v, expected %g ± as much", v, o, want)
		}
	}
}

// Two thresholds of 300 values, of which 20 are between them: the fits differ there alone. The error
// of either SURE is about sigma2 sqrt(2 d) = 24.
func ExampleComparison() {
	const d = 300
	fit := func(threshold, value float64) risk.Fit {
		residual, images := make([]float64, d), make([]float64, d)
		df := 0.0
		for i := range d {
			y := 0.1 * float64(i%40)
			residual[i] = math.Min(y, threshold)
			if y > threshold {
				images[i] = 1 // of the probe of ones
				df++
			}
		}
		r, j := risk.Pack(residual), risk.Pack(images)
		return risk.Fit{Value: value, Digest: &risk.Digest{D: d, Divergence: df, Residual: &r, Images: &j, Probes: 1}}
	}
	sure := risk.Comparison{Criterion: risk.SURE, Sigma2: 1}
	a, b := fit(2.05, 140), fit(1.85, 134)
	diff := sure.Difference(a, b)
	fmt.Printf("%.0f ± %.0f\n", diff.Value, diff.StdErr)
	// Output:
	// 6 ± 9
}
