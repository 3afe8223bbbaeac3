package series_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"surepipe/series"
)

// A series of 16 volumes of 8 x 8 x 4 voxels, of rank two, in noise of standard deviation 1.
func ExampleDenoise() {
	shape := series.Shape{Image: series.Extent{8, 8, 4}, Volumes: 16}
	rng := rand.New(rand.NewPCG(1, 2))
	var y, sigma []float64
	for i := range 8 * 8 * 4 {
		sigma = append(sigma, 1)
		for t := range 16 {
			y = append(y, 10+3*math.Sin(float64(t))*float64(i%8)+rng.NormFloat64())
		}
	}
	s, err := series.Denoise(context.Background(), series.Memory{Of: shape, Data: y}, sigma, series.Options{},
		func(slice series.Slice) error { return nil }) // slice.Clean, slice.DF, slice.Risk, ...
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.0f%% of the degrees of freedom, risk %.2f of the noise\n", 100*s.DF/float64(s.Values), s.SURE/s.Variance)
	// Output: 13% of the degrees of freedom, risk 0.11 of the noise
}
