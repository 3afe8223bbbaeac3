package series

import (
	"math"
	"sort"
)

// Magnitude is the distribution of a magnitude sqrt(sum_c |z_c|^2) over coils whose complex signals have independent
// normal noise of the same variance sigma^2 in each part: Rice's for one coil, else the noncentral chi distribution of
// 2 Coils degrees of freedom. With theta = nu/sigma, nu^2 = sum_c |E z_c|^2, its mean in units of sigma is
//
//	m(theta) = sum_k exp(-x) x^k/k! sqrt(2) Gamma(N + k + 1/2) / Gamma(N + k),   x = theta^2/2, N = Coils,
//
// a mixture of the means of central chi distributions, and its second moment 2 N + theta^2.
//
// C. D. Constantinides, E. Atalar, E. R. McVeigh, Signal-to-noise measurements in magnitude images from NMR phased
// arrays, Magn. Reson. Med. 38 (1997).
type Magnitude struct {
	coils, step float64
	means       []float64 // at multiples of the step
}

// NewMagnitude is that of so many coils, at least 1.
func NewMagnitude(coils int) *Magnitude {
	const places = 2048
	m := &Magnitude{coils: float64(coils), step: 16 * math.Sqrt(float64(coils)) / places}
	for i := range places + 1 {
		m.means = append(m.means, m.mean(float64(i)*m.step))
	}
	return m
}

func (m *Magnitude) mean(theta float64) float64 {
	const wide = 9 // standard deviations of a Poisson variable
	x := theta * theta / 2
	sum := 0.0
	for k := math.Floor(max(x-wide*math.Sqrt(x), 0)); k <= x+wide*math.Sqrt(x)+wide; k++ {
		chi := ratio(m.coils + k)
		if k == 0 && x == 0 {
			return chi
		}
		log, _ := math.Lgamma(k + 1)
		sum += math.Exp(k*math.Log(x)-x-log) * chi
	}
	return sum
}

// ratio is sqrt(2) Gamma(n + 1/2) / Gamma(n), the mean of a chi distribution of 2 n degrees of freedom.
func ratio(n float64) float64 {
	over, _ := math.Lgamma(n + 0.5)
	under, _ := math.Lgamma(n)
	return math.Sqrt2 * math.Exp(over-under)
}

// Floor is the value, in units of sigma, whose square is expected where the signal is sqrt(7) sigma: magnitudes below
// it have a mean that is much larger than the signal. It is 3 for one coil.
func (m *Magnitude) Floor() float64 { return math.Sqrt(2*m.coils + 7) }

// Unbias is the nu whose magnitude has the given mean: Koay's inversion of the first moment, 0 below the mean of noise
// alone, which for one coil is sigma sqrt(pi/2).
//
// C. G. Koay, P. J. Basser, Analytically exact correction scheme for signal extraction from noisy magnitude MR signals,
// J. Magn. Reson. 179 (2006).
func (m *Magnitude) Unbias(mean, sigma float64) float64 {
	y := mean / sigma
	if !(y > m.means[0]) {
		return 0
	}
	last := len(m.means) - 1
	if a := 2*m.coils - 1; y >= m.means[last] { // m(theta) = theta + a/(2 theta) - a (a - 2)/(8 theta^3) up to order 5
		theta := (y + math.Sqrt(y*y-2*a)) / 2
		return sigma * (theta + a*(a-2)/(8*theta*theta*theta))
	}
	i := sort.SearchFloat64s(m.means, y)
	lo, hi := m.means[i-1], m.means[i]
	return sigma * (float64(i-1) + (y-lo)/(hi-lo)) * m.step
}

// Sigma is the sigma of noise whose magnitudes, with those means, have the variance sd^2 on average: sd at high means,
// and up to 1.53 sd where there is no signal.
func (m *Magnitude) Sigma(means []float64, sd float64) float64 {
	sigma := sd
	for range 100 {
		sum := 0.0
		for _, mean := range means {
			y, theta := max(mean/sigma, m.means[0]), m.Unbias(mean, sigma)/sigma
			sum += 2*m.coils + theta*theta - y*y
		}
		last := sigma
		sigma = sd / math.Sqrt(sum/float64(len(means)))
		if math.Abs(sigma-last) <= 1e-6*sigma {
			break
		}
	}
	return sigma
}
