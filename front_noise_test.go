package surepipe_test

import (
	"math"
	"math/rand/v2"
	"testing"

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
