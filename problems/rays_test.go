package problems_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/internal/noise"
	"surepipe/problems"
)

// White noise of a sinogram with as many angles as detectors is even, of which blocks of y do not show it; noise that
// grows with y, or differs between detectors, is told, and so is a sigma2 that is four times off.
func TestNoiseOfSinograms(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	const n = 64
	r := rand.New(rand.NewPCG(51, 1))
	for _, angles := range []int{48, 64} {
		phantom, err := problems.GenerateCT(angles, n, 1)
		if err != nil {
			t.Fatal(err)
		}
		mean := phantom[1].Data
		data, err := scanned(t, fmt.Sprintf("data: d.npz\noperator: {projection: {angles: %d}}\nregularizer: {l1: "+
			"lambda}\nlambda: 1\n", angles), dataio.Array{Name: "y", Shape: []int{angles, n}, Data: mean})
		if err != nil {
			t.Fatal(err)
		}
		p, err := problems.New("", dev, data, problems.Hyper{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release()
		const sigma2 = 1.
		most, unit := slices.Max(mean), 0.0
		for _, v := range mean {
			unit += v / float64(len(mean))
		}
		for name, c := range map[string]struct {
			variance func(i int) float64
			by       string
		}{
			"white":  {func(int) float64 { return sigma2 }, ""},
			"counts": {func(i int) float64 { return sigma2 * max(mean[i], 0) / unit }, noise.ByBrightness},
			"halves": {func(i int) float64 { return sigma2 * (0.4 + 1.2*float64(2*(i%n)/n)) }, noise.ByPlace},
		} {
			data.Y = make([]float64, len(mean))
			for i, v := range mean {
				data.Y[i] = 50/most*v + math.Sqrt(c.variance(i))*r.NormFloat64()
			}
			left, ok := p.Rays(t.Context(), data, sigma2)
			if u := left.Uneven(); !ok || u.By != c.by {
				t.Errorf("%d angles, %s: known %v, %+v", angles, name, ok, u)
			}
			for _, given := range []float64{0.25, 1, 4} {
				if c.by != "" {
					continue
				}
				left, ok := p.Rays(t.Context(), data, given)
				known := left.Range()
				wrong := known.TooSmall(given, 0) != (given < 1) || known.TooLarge(given, 0) != (given > 1)
				if ok && wrong || !ok && given >= 1 {
					t.Errorf("%d angles, %s, sigma2 %g times what it is: known %v, %+v", angles, name, given, ok, known)
				}
			}
		}
	}
}
