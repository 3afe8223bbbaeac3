package risk_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/risk"
)

// The error bar of leave-one-out has the noise of the fit: with normal noise and a projection of equal leverages the
// variance about the error of the fit is 2 sigma2^2 (1/(1 - h)^3 + h)/d.
func TestErrorOfLeaveOneOutHasThatOfTheFit(t *testing.T) {
	const d, sigma2 = 400.0, 3.0
	for _, df := range []float64{1, 40, 120, 200} {
		h := df / d
		f := risk.Fitted{
			Terms:    risk.Terms{D: d, Residual: sigma2 * (d - df), Divergence: df, Frobenius2: df},
			Criteria: risk.Criteria{ALO: sigma2 / (1 - h), ALOStdErr: sigma2 / (1 - h) * math.Sqrt(2/d)},
		}
		_, got := risk.ALO.Rule().Value(f)
		if want := sigma2 * math.Sqrt(2/d*(math.Pow(1-h, -3)+h)); math.Abs(got/want-1) > 0.03 {
			t.Errorf("df %g: ± %g, expected %g", df, got, want)
		}
	}
}

// Without a signal the losses of a logistic regression are all about log 2: those of an intercept alone, whose root
// mean square over all outcomes is known, differ from the truth by far more than they do from each other.
func TestErrorOfLeaveOneOutWithoutSignal(t *testing.T) {
	const d = 250
	squares, bars, spreads := 0.0, 0.0, 0.0
	for k := 60; k <= d-60; k++ {
		n, m, fit := float64(d), float64(k), float64(k)/d
		losses, in := make([]float64, d), 0.0
		z, slope, curve, a := make([]float64, d), make([]float64, d), make([]float64, d), make([]float64, d)
		y := func(i int) float64 { return map[bool]float64{true: 1}[i < k] }
		for i := range z {
			z[i], slope[i], curve[i] = math.Log(fit/(1-fit)), fit-y(i), fit*(1-fit)
			a[i] = 1 / (n * curve[i])
			in += math.Log1p(math.Exp(z[i])) - y(i)*z[i]
		}
		left, err := risk.LeftOutPredictors(z, slope, curve, a)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range left {
			losses[i] = math.Log1p(math.Exp(v)) - y(i)*v
		}
		mean, spread := risk.Mean(losses)
		value, bar := risk.ALO.Rule().Value(risk.Fitted{
			Terms:    risk.Terms{D: d, Residual: math.NaN(), Divergence: 1, Frobenius2: 1},
			Loss:     &risk.LossTerms{Value: in, Likelihood: true, DF: 1, D: d},
			Criteria: risk.Criteria{ALO: mean, ALOStdErr: spread},
		})
		choose := func(x float64) float64 { v, _ := math.Lgamma(x + 1); return v }
		share := math.Exp(choose(n) - choose(m) - choose(n-m) - n*math.Ln2)
		off := value + math.Log(fit*(1-fit))/2
		squares += share * off * off
		bars += share * bar * bar
		spreads += share * spread * spread
	}
	if ratio := math.Sqrt(squares / bars); !(ratio > 0.7 && ratio < 1.2) {
		t.Errorf("the error is %.2g of its bar", ratio)
	}
	if ratio := math.Sqrt(squares / spreads); ratio < 1.3 {
		t.Errorf("the error is %.2g of the losses' spread alone, no more", ratio)
	}
}

// The error of GCV for a new row has that of the fit: by least squares of normal columns, whose error of prediction is
// sigma^2 + ||b_hat - b||^2, the root mean square of GCV about it is what the bar says.
func TestErrorOfGCVHasThatOfTheFit(t *testing.T) {
	const d, draws = 80, 1500
	r := rand.New(rand.NewPCG(3, 31))
	for _, p := range []int{4, 20, 32} {
		x, noise, fitted := mat.NewDense(d, p, nil), mat.NewVecDense(d, nil), mat.NewVecDense(d, nil)
		b, squares, bars := mat.NewVecDense(p, nil), 0.0, 0.0
		for range draws {
			for i := range x.RawMatrix().Data {
				x.RawMatrix().Data[i] = r.NormFloat64()
			}
			for i := range noise.RawVector().Data {
				noise.RawVector().Data[i] = r.NormFloat64()
			}
			if err := b.SolveVec(x, noise); err != nil {
				t.Fatal(err)
			}
			fitted.MulVec(x, b)
			fitted.SubVec(noise, fitted)
			residuals, df := fitted.RawVector().Data, float64(p)
			terms := risk.Terms{D: d, Residual: mat.Dot(fitted, fitted), Divergence: df, Frobenius2: df}
			f := risk.Fitted{Terms: terms, Criteria: terms.Criteria(0, residuals)}
			value, bar := risk.GCV.Rule().Value(f)
			off := value - 1 - mat.Dot(b, b)
			squares += off * off
			bars += bar * bar
		}
		if ratio := math.Sqrt(squares / bars); !(ratio > 0.9 && ratio < 1.1) {
			t.Errorf("p = %d: the error is %.3g of its bar", p, ratio)
		}
	}
}

// Of few residual degrees of freedom a mean square is often far too small: two bars of GCV about it contain the error
// that it estimates in nine of ten draws.
func TestTwoBarsOfGCVCoverWithFewDegreesOfFreedom(t *testing.T) {
	const d, draws = 64, 1000
	r := rand.New(rand.NewPCG(8, 8))
	for _, left := range []int{1, 2, 5, 9} {
		within := 0
		for range draws {
			residuals := make([]float64, d)
			for i := range left {
				residuals[i] = r.NormFloat64()
			}
			terms := risk.Terms{D: d, Divergence: float64(d - left), Frobenius2: float64(d - left)}
			for _, v := range residuals {
				terms.Residual += v * v
			}
			value, bar := risk.GCV.Rule().Value(risk.Fitted{Terms: terms, Criteria: terms.Criteria(0, residuals)})
			if math.Abs(value-d/float64(left)) <= 2*bar {
				within++
			}
		}
		if within < draws*9/10 {
			t.Errorf("%d degrees of freedom: %d of %d draws are within two bars", left, within, draws)
		}
	}
}

// The bar of GCV is finite for any degrees of freedom, also where rounding errors decide whether these are few.
func TestTheBarOfGCVIsFinite(t *testing.T) {
	for d := 2; d <= 300; d++ {
		for df := range d {
			residuals := make([]float64, d)
			residuals[0] = 1
			terms := risk.Terms{D: d, Divergence: float64(df), Frobenius2: float64(df), Residual: 1}
			_, bar := risk.GCV.Rule().Value(risk.Fitted{Terms: terms, Criteria: terms.Criteria(0, residuals)})
			if math.IsNaN(bar) || math.IsInf(bar, 0) {
				t.Errorf("%d observations, %d degrees of freedom: the bar is %v", d, df, bar)
			}
		}
	}
}

// The bar of errors of folds is that of a fit that leaves as many degrees of freedom as a fold has observations, where
// this one leaves fewer, and also where it leaves none: single observations keep theirs, and so do those of fits that
// shrink all residuals alike.
func TestErrorsOfFoldsAreNoFunctionOfFewResiduals(t *testing.T) {
	const d = 100.0
	bar := func(df, frobenius2 float64, fold int) float64 {
		_, bar := risk.CV.Rule().Value(risk.Fitted{
			Terms: risk.Terms{D: d, Divergence: df, Frobenius2: frobenius2, Residual: 1},
			CV:    &risk.CrossValidation{Mean: 2, StdErr: 0.3, Units: d, Fold: fold}})
		return bar
	}
	for _, df := range []float64{91, 98, 99.9, 100} {
		if few, as := bar(df, df, 10), bar(90, 90, 10); math.Abs(few/as-1) > 1e-12 || few > 2 {
			t.Errorf("the bar of a projection on %g is %g, expected %g, of one on 90 of 100", df, few, as)
		}
	}
	if few, as := bar(98, 98, 1), bar(90, 90, 1); !(few > 2*as) {
		t.Errorf("single observations: the bar is %g where 2 degrees of freedom are left, %g where 10 are", few, as)
	}
	if shrunk, as := bar(98, 0.98*98, 10), bar(98, 0.98*98, 1); shrunk != as || shrunk > 0.5 {
		t.Errorf("the bar of a fit that shrinks all alike is %g, expected %g", shrunk, as)
	}
}
