package surepipe_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe"
)

// Autoregressive noise of a sequence is estimated and used from the front door too.
func TestAutoregressiveNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	y, e := make([]float64, 300), 0.0
	for i := range y {
		e = 0.6*e + 0.8*r.NormFloat64()
		y[i] = math.Abs(float64(i%150)/25-3) + e/2
	}
	data, err := surepipe.Arrays{Y: y}.Data()
	if err != nil {
		t.Fatal(err)
	}
	est, err := surepipe.Open(t.Context(), data, surepipe.Options{Problem: "whittaker",
		Lambda: "1000", Sigma2By: "ar1"})
	if err != nil {
		t.Fatal(err)
	}
	defer est.Close()
	fit, err := est.Fit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if rho := fit.Result.NoiseRho; rho == nil || math.Abs(*rho-0.6) > 0.2 || fit.Result.SURE == nil {
		t.Errorf("%+v", fit.Result)
	}
}

// Noise of entries that is weaker in some columns than sigma2 is told, and even noise is not.
func TestUnevenNoiseOfEntries(t *testing.T) {
	const m, n, rank = 120, 30, 2
	for _, ratio := range []float64{1, 4} { // of the columns' greatest standard deviation to the least
		r := rand.New(rand.NewPCG(5, 6))
		left, right := make([]float64, m*rank), make([]float64, n*rank)
		for _, factor := range [][]float64{left, right} {
			for i := range factor {
				factor[i] = 1.5 * r.NormFloat64()
			}
		}
		var y []float64
		var places []int
		squares := 0.0
		for i := range m {
			for j := range n {
				if r.Float64() < 0.4 {
					continue
				}
				sd := math.Pow(ratio, float64(j)/(n-1)-0.5)
				squares += sd * sd
				v := sd * r.NormFloat64()
				for k := range rank {
					v += left[i*rank+k] * right[j*rank+k]
				}
				y, places = append(y, v), append(places, i*n+j)
			}
		}
		data, err := surepipe.Arrays{Y: y, Indices: places, Shape: []int{m, n}}.Data()
		if err != nil {
			t.Fatal(err)
		}
		est, err := surepipe.Open(t.Context(), data, surepipe.Options{Problem: "matrix-completion",
			Sigma2: squares / float64(len(y)), Effects: []string{"none"}})
		if err != nil {
			t.Fatal(err)
		}
		path, err := est.Sweep(t.Context(), surepipe.Grid{Lambda: "0.05max:0.5max:5", Criterion: "sure"})
		if err != nil {
			t.Fatal(err)
		}
		told := slices.ContainsFunc(path.Summary.Warnings, func(w surepipe.Warning) bool {
			return w.Code == "uneven-noise" || w.Code == "outliers"
		})
		if told != (ratio > 1) {
			t.Errorf("columns' standard deviations by a factor of %g: told %v, %+v", ratio, told, path.Summary.Warnings)
		}
		est.Close()
	}
}

// A sigma2 that the data contradict is told, of an image before a fit and of a regression after it, in both directions.
func TestContradictedSigma2(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const d, p = 200, 5
	x, rows := make([]float64, d*p), make([]float64, d)
	for i := range x {
		x[i] = r.NormFloat64()
		rows[i/p] += x[i]
	}
	for i := range rows {
		rows[i] += 2 * r.NormFloat64()
	}
	image := make([]float64, 64*64)
	for i := range image {
		image[i] = math.Floor(float64(i%64)/16) + 2*r.NormFloat64()
	}
	for problem, arrays := range map[surepipe.Problem]surepipe.Arrays{
		"lasso": {X: mat.NewDense(d, p, x), Y: rows}, "tv2d": {Y: image, Shape: []int{64, 64}},
	} {
		for _, sigma2 := range []float64{1, 4, 16} {
			data, err := arrays.Data()
			if err != nil {
				t.Fatal(err)
			}
			est, err := surepipe.Open(t.Context(), data, surepipe.Options{Problem: problem, Lambda: "0.1max",
				Sigma2: sigma2})
			if err != nil {
				t.Fatal(err)
			}
			fit, err := est.Fit(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			told := slices.ContainsFunc(fit.Warnings, func(w surepipe.Warning) bool {
				return w.Code == "sigma2-contradicted"
			})
			if told != (sigma2 != 4) {
				t.Errorf("%s, sigma2 %g for 4: told %v, %+v", problem, sigma2, told, fit.Warnings)
			}
			est.Close()
		}
	}
}
