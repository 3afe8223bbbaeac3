package risk_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/risk"
)

// near reports whether two numbers agree to 1e-12.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(1, math.Abs(a), math.Abs(b)) }

// For mu_hat = s y everything is known in closed form: tr D = s d, ||D||_F^2 = s^2 d, and the
// residual (1-s)^2 ||y||^2.
func scaled(y []float64, s, sigma2 float64) risk.Terms {
	norm2 := 0.0
	for _, v := range y {
		norm2 += v * v
	}
	d := float64(len(y))
	return risk.Terms{D: len(y), Sigma2: sigma2, Residual: (1 - s) * (1 - s) * norm2, Divergence: s * d,
		Frobenius2: s * s * d}
}

func TestLinearShrinkageHasItsClosedForms(t *testing.T) {
	y := []float64{1, 2, 2, 3, 1, 2, 2, 1}
	const norm2, d = 28., 8.
	for _, s := range []float64{0, 0.1, 0.5, 0.9, 1} {
		for _, sigma2 := range []float64{1e-150, 1e-3, 0.3, 1e6, 1e150} {
			terms := scaled(y, s, sigma2)
			if want := sigma2 * (-d + (1-s)*(1-s)*norm2/sigma2 + 2*s*d); !near(terms.SURE()/sigma2, want/sigma2) {
				t.Errorf("s = %g, sigma2 = %g: SURE %g, expected %g", s, sigma2, terms.SURE(), want)
			}
			if want := sigma2 * math.Sqrt(2*d) * math.Abs(1-2*s); !near(terms.LeastStdErr()/sigma2, want/sigma2) {
				t.Errorf("s = %g, sigma2 = %g: least bar %g, expected %g", s, sigma2, terms.LeastStdErr(), want)
			}
			square := 4*((1-s)*(1-s)*norm2/sigma2+s*s*d) - 2*d // over sigma2^2
			want := math.Max(math.Sqrt(math.Max(square, 0)), math.Sqrt(2*d)*math.Abs(1-2*s)/2)
			if got := terms.StdErr() / sigma2; !near(got, want) {
				t.Errorf("s = %g, sigma2 = %g: bar %g sigma2, expected %g", s, sigma2, got, want)
			}
			if terms.Floored() != (square <= 0) {
				t.Errorf("s = %g, sigma2 = %g: floored %v where the square is %g", s, sigma2, terms.Floored(), square)
			}
		}
	}
}

// SURE is unbiased, and so is the square of its bar, which is not truncated here.
func TestSUREAndItsBarAreUnbiased(t *testing.T) {
	const d, sigma2, s, n = 50, 2., 0.8, 20000
	rng := rand.New(rand.NewPCG(1, 2))
	mu := make([]float64, d)
	for i := range mu {
		mu[i] = 3 * float64(i%5)
	}
	var off, off2, bar2 float64
	for range n {
		y, loss := make([]float64, d), 0.0
		for i, m := range mu {
			y[i] = m + math.Sqrt(sigma2)*rng.NormFloat64()
			loss += (s*y[i] - m) * (s*y[i] - m)
		}
		terms := scaled(y, s, sigma2)
		e := terms.SURE() - loss
		off += e / n
		off2 += e * e / n
		bar2 += terms.UnbiasedStdErr() * terms.UnbiasedStdErr() / n
	}
	if math.Abs(off) > 4*math.Sqrt(off2/n) {
		t.Errorf("SURE - loss is %g in the mean, expected 0 to %g", off, math.Sqrt(off2/n))
	}
	if math.Abs(bar2/off2-1) > 0.05 {
		t.Errorf("the bar's square is %g in the mean, that of SURE - loss %g", bar2, off2)
	}
}

// A projection of any rank has the same least bar.
func TestProjections(t *testing.T) {
	for rank := range 11 {
		r := float64(rank)
		terms := risk.Terms{D: 10, Sigma2: 3, Residual: (10 - r) * 3, Divergence: r, Frobenius2: r}
		if !near(terms.LeastStdErr(), terms.ProjectionStdErr()) {
			t.Errorf("rank %d: least bar %g, expected %g", rank, terms.LeastStdErr(), terms.ProjectionStdErr())
		}
		if terms.Implausible(0) {
			t.Errorf("rank %d is implausible", rank)
		}
	}
}

// An estimate of the norm below the least value that the trace allows does not make the least bar
// smaller.
func TestLeastBarOfNoisyEstimates(t *testing.T) {
	terms := risk.Terms{D: 10, Sigma2: 1, Divergence: 8, Frobenius2: 5} // >= 6.4 in truth
	if want := math.Sqrt(2 * 36. / 10); !near(terms.LeastStdErr(), want) {
		t.Errorf("least bar %g, expected %g", terms.LeastStdErr(), want)
	}
}

func TestImplausible(t *testing.T) {
	for _, c := range []struct {
		divergence, frobenius2, err float64
		want                        bool
	}{
		{5, 4, 0, false}, {0, 0, 0, false}, {10, 10, 0, false}, {-0.009, 0, 0, false}, {10.009, 10, 0, false},
		{-0.1, 0, 0, true}, {-0.1, 0, 0.1, false}, {10.5, 10, 0, true}, {10.5, 10, 0.2, false}, {5, 21, 0, true},
	} {
		terms := risk.Terms{D: 10, Sigma2: 1, Divergence: c.divergence, Frobenius2: c.frobenius2}
		if terms.Implausible(c.err) != c.want {
			t.Errorf("%+v: expected %v", c, c.want)
		}
	}
}

// Derivatives of SURE with respect to its terms, against differences.
func TestErrorsOfTheTerms(t *testing.T) {
	terms := risk.Terms{D: 10, Sigma2: 2, Residual: 17, Divergence: 3.5, Frobenius2: 3}
	const h = 1e-6
	moved := terms
	moved.Divergence += h
	if got, want := terms.StdErrOfTrace(h), moved.SURE()-terms.SURE(); math.Abs(got-want) > 1e-12 {
		t.Errorf("trace: %g, expected %g", got, want)
	}
	if got := terms.TraceErr(terms.StdErrOfTrace(0.25)); !near(got, 0.25) {
		t.Errorf("inverse: %g", got)
	}
	moved = terms
	moved.Sigma2 *= 1 + h
	if got, want := terms.StdErrOfSigma2(h), math.Abs(moved.SURE()-terms.SURE()); math.Abs(got-want) > 1e-12 {
		t.Errorf("sigma2: %g, expected %g", got, want)
	}
	moved = terms
	r := math.Sqrt(terms.Residual)
	moved.Residual = (r + 0.1) * (r + 0.1)
	if got, want := risk.Shift(r, 0.1), moved.SURE()-terms.SURE(); !near(got, want) {
		t.Errorf("mu_hat: %g, expected %g", got, want)
	}
}

func TestScaleIsATenthOfAProjectionsBarAtLeast(t *testing.T) {
	half := scaled([]float64{1, -1, 1, 1}, 0.5, 2)
	if !near(half.Scale(half.StdErr()), 0.1*half.ProjectionStdErr()) {
		t.Errorf("scale %g", half.Scale(half.StdErr()))
	}
	whole := scaled([]float64{1, -1, 1, 1}, 1, 2)
	if !near(whole.Scale(whole.StdErr()), whole.UnbiasedStdErr()) ||
		!near(whole.Scale(whole.StdErr()), whole.ProjectionStdErr()) {
		t.Errorf("scale %g", whole.Scale(whole.StdErr()))
	}
}

// SURE below 0 by more than three error bars, counted by the bar that is given or a tenth of a
// projection's, says that sigma2 is too large.
func TestTooLarge(t *testing.T) {
	terms := risk.Terms{D: 200, Sigma2: 1, Residual: 100, Divergence: 20, Frobenius2: 20}
	// SURE = -200 + 100 + 40 = -60.
	for bar, want := range map[float64]bool{19: true, 21: false, 0: true} {
		if got := terms.TooLarge(bar); got != want {
			t.Errorf("SURE %g, bar %g: %v", terms.SURE(), bar, got)
		}
	}
	terms.Residual = 155 // SURE = -5, less than a tenth of sqrt(2 d) = 20 times 3 below 0
	if terms.TooLarge(0) {
		t.Errorf("SURE %g", terms.SURE())
	}
	terms.Sigma2 = 0
	if terms.TooLarge(0) {
		t.Error("without sigma2")
	}
}
