package surepipe_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"surepipe"
)

// noisySeries is a series of n volumes of 3 x 10 x 10 voxels of rank two in noise of standard deviation 1.
func noisySeries(n int) (shape []int, y, mu []float64) {
	rng := rand.New(rand.NewPCG(1, 1))
	for t := range n {
		for v := range 300 {
			mu = append(mu, 100+2*math.Sin(float64(t))*float64(v%10)+3*math.Cos(float64(t))*float64(v/100))
			y = append(y, mu[len(mu)-1]+rng.NormFloat64())
		}
	}
	return []int{n, 3, 10, 10}, y, mu
}

// The maps of a denoised series add up to its numbers, and its estimate is closer to the truth than the data, by about
// what SURE says.
func TestSeriesAreDenoised(t *testing.T) {
	shape, y, mu := noisySeries(20)
	d, err := surepipe.Arrays{Y: y, Shape: shape}.Data()
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Denoise(t.Context(), surepipe.Series{Return: []string{"out", "df", "risk"}, Sigma: "1",
		Patch: "5"})
	if err != nil {
		t.Fatal(err)
	}
	sum := func(a surepipe.Array) (s float64) {
		for _, v := range a.Data {
			s += v
		}
		return s
	}
	if df, risk := sum(r.Arrays["df"]), sum(r.Arrays["risk"]); math.Abs(df/r.DF-1) > 1e-9 || math.Abs(risk/r.SURE-1) > 1e-9 {
		t.Errorf("maps sum up to %g and %g: %+v", df, risk, r)
	}
	loss := 0.0
	for i, v := range r.Arrays["out"].Data {
		loss += (v - mu[i]) * (v - mu[i])
	}
	if math.Abs(loss-r.SURE) > 3*r.SUREErr || loss > 0.3*float64(len(y)) {
		t.Errorf("squared error %g of %d values, SURE %g ± %g", loss, len(y), r.SURE, r.SUREErr)
	}
}

// A series that is missing is bad input, and a cancelled call ends at once with its cause.
func TestSeriesEndAndAreRefused(t *testing.T) {
	var bad *surepipe.InputError
	if _, err := (surepipe.Data{}).Denoise(t.Context(), surepipe.Series{}); !errors.As(err, &bad) {
		t.Errorf("without data: %v", err)
	}
	shape, y, _ := noisySeries(200)
	d, err := surepipe.Arrays{Y: y, Shape: shape}.Data()
	if err != nil {
		t.Fatal(err)
	}
	reason := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(reason) })
	begun := time.Now()
	_, err = d.Denoise(ctx, surepipe.Series{Patch: "10x10x3"})
	if took := time.Since(begun); err != nil && !errors.Is(err, reason) || took > 2*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}
