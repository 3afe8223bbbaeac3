package problems

import (
	"math"

	"surepipe/internal/noise"
)

// sigma2OfChannels is the mean of the estimates from the channels of an image (rows, columns,
// channels), whose noise is taken for equally strong and independent.
func sigma2OfChannels(method, name string, data Data, shape []int) (noise.Estimate, error) {
	channels := shape[2]
	var mean noise.Estimate
	variance := 0.0
	for k := range channels {
		one := data
		one.YShape, one.Y = shape[:2], make([]float64, len(data.Y)/channels)
		for i := range one.Y {
			one.Y[i] = data.Y[i*channels+k]
		}
		e, err := EstimateSigma2(method, name, one)
		if err != nil {
			return noise.Estimate{}, err
		}
		mean.Method = e.Method
		mean.Sigma2 += e.Sigma2 / float64(channels)
		variance += e.Sigma2 * e.Sigma2 * e.RelStdErr * e.RelStdErr
	}
	mean.RelStdErr = math.Sqrt(variance) / float64(channels) / mean.Sigma2
	return mean, nil
}
