package series

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
)

// What is assumed of the noise is not said to fail where it holds; spikes, noise that is correlated along the series and
// noise that grows over the volumes are told.
func TestNoiseOfASeriesThatIsNotAsAssumed(t *testing.T) {
	image, volumes := Extent{24, 20, 1}, 40
	for _, c := range []struct {
		name           string
		noise          func(rng *rand.Rand, at int, before float64) float64
		spikes, serial bool
		by             string
	}{
		{name: "white", noise: func(rng *rand.Rand, _ int, _ float64) float64 { return rng.NormFloat64() }},
		{name: "spikes", spikes: true, noise: func(rng *rand.Rand, _ int, _ float64) float64 {
			if rng.Float64() < 0.005 {
				return 50
			}
			return rng.NormFloat64()
		}},
		{name: "correlated", serial: true, noise: func(rng *rand.Rand, _ int, before float64) float64 {
			return 0.6*before + 0.8*rng.NormFloat64()
		}},
		{name: "alternating", serial: true, noise: func(rng *rand.Rand, _ int, before float64) float64 {
			return -0.5*before + 0.87*rng.NormFloat64()
		}},
		{name: "a noisy volume", by: "volume", noise: func(rng *rand.Rand, at int, _ float64) float64 {
			if at == 7 {
				return 4 * rng.NormFloat64()
			}
			return rng.NormFloat64()
		}},
		{name: "growing", by: "volume", noise: func(rng *rand.Rand, at int, _ float64) float64 {
			return (0.5 + float64(at)/10) * rng.NormFloat64()
		}},
	} {
		rng := rand.New(rand.NewPCG(3, 8))
		data := make([]float64, 0, image.voxels()*volumes)
		for i := range image.voxels() {
			noise := 0.0
			for v := range volumes {
				noise = c.noise(rng, v, noise)
				data = append(data, 20+5*math.Sin(float64(i%24)/8)*math.Cos(float64(v)/5)+noise)
			}
		}
		from := Memory{Of: Shape{Image: image, Volumes: volumes}, Data: data}
		patch := DefaultPatch(image, volumes)
		sigma, err := EstimateNoise(context.Background(), from, patch, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Denoise(context.Background(), from, sigma.Sigma, Options{Patch: patch}, func(Slice) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if serial := math.Abs(s.Serial) > 0.05; serial != c.serial || (s.Spikes > 0) != c.spikes || s.UnevenBy != c.by {
			t.Errorf("%s: correlation %.3f ± %.3f, %d spikes of %.2g, uneven by %q, %.3g", c.name, s.Serial, s.SerialStdErr,
				s.Spikes, s.SpikeShare, s.UnevenBy, s.UnevenRatio)
		}
	}
}
