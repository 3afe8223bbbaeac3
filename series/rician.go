package series

import (
	"math"
	"sort"
)

// riceMean is E|nu + noise| in units of sigma at theta = nu/sigma, for complex normal noise of variance sigma^2 in each
// part: sqrt(pi/2) L_{1/2}(-theta^2/2), where with x = theta^2/4
//
//	L_{1/2}(-2 x) = exp(-x) ((1 + 2 x) I_0(x) + 2 x I_1(x)).
func riceMean(theta float64) float64 {
	x := theta * theta / 4
	// exp(-x) I_k(x) is the mean of exp(x (cos t - 1)) cos(k t) over a period: the trapezoidal rule converges
	// exponentially.
	const nodes = 64
	i0, i1 := 0.0, 0.0
	for k := range nodes {
		c := math.Cos(2 * math.Pi * float64(k) / nodes)
		e := math.Exp(x*(c-1)) / nodes
		i0 += e
		i1 += e * c
	}
	return math.Sqrt(math.Pi/2) * ((1+2*x)*i0 + 2*x*i1)
}

// riceMeans are those at theta = 0, 1/64, ..., 16.
var riceMeans = func() (m []float64) {
	for i := range 16*64 + 1 {
		m = append(m, riceMean(float64(i)/64))
	}
	return m
}()

// Unbias is the nu whose magnitude has the given mean under Rician noise: Koay's inversion of the first moment, 0 below
// the mean of noise alone, sigma sqrt(pi/2).
//
// C. G. Koay, P. J. Basser, Analytically exact correction scheme for signal extraction from noisy magnitude MR signals,
// J. Magn. Reson. 179 (2006).
func Unbias(mean, sigma float64) float64 {
	y := mean / sigma
	if !(y > riceMeans[0]) {
		return 0
	}
	last := len(riceMeans) - 1
	if y >= riceMeans[last] { // E = nu + sigma^2/(2 nu) up to order 3
		return sigma * (y + math.Sqrt(max(y*y-2, 0))) / 2
	}
	i := sort.SearchFloat64s(riceMeans, y)
	lo, hi := riceMeans[i-1], riceMeans[i]
	return sigma * (float64(i-1) + (y-lo)/(hi-lo)) / 64
}

// RiceSigma is the sigma of complex normal noise whose magnitudes, with those means, have the variance sd^2 on average:
// sd at high means, and up to 1.53 sd where there is no signal.
func RiceSigma(means []float64, sd float64) float64 {
	sigma := sd
	for range 100 {
		sum := 0.0
		for _, mean := range means {
			y, theta := max(mean/sigma, riceMeans[0]), Unbias(mean, sigma)/sigma
			sum += 2 + theta*theta - y*y
		}
		last := sigma
		sigma = sd / math.Sqrt(sum/float64(len(means)))
		if math.Abs(sigma-last) <= 1e-6*sigma {
			break
		}
	}
	return sigma
}
