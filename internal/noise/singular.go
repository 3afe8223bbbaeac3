package noise

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// leastSingularValues is the number from which the law of large matrices holds within a few
// percent.
const leastSingularValues = 10

// MedianSingularValue estimates the variance of white noise in a matrix of rows x cols, row
// by row, all of whose entries are observed,
//
//	sigma2 = s_med^2 / (n mu),
//
// from the median s_med of its singular values: n is the larger of rows and cols, beta
// the smaller over the larger, and mu = [MarchenkoPasturMedian](beta). Gavish and
// Donoho, The optimal hard threshold for singular values is 4/sqrt(3), IEEE Trans. Inf.
// Theory 60 (2014).
//
// The signal must have low rank. A rank of r shifts the median by r/2 of its k = min(rows, cols)
// places, which raises the estimate: by a fraction of about 1.3 r/k at beta = 1, 0.9 r/k at beta =
// 1/2 and 0.35 r/k at beta = 1/20 (simulation). Neither the rank nor this bias can be computed from
// the matrix: the user must judge them. A signal with a long tail of singular values (an image,
// entries corrupted at random) counts as one of high rank.
//
// The relative standard error is sqrt(log k + 1) / (pi k mu f(mu)), with f the density of
// the Marchenko-Pastur law: the number of eigenvalues of y y* below a point within their
// range has variance (log k + O(1)) / pi^2 (Gustavsson 2005, O'Rourke 2010), far less than if
// they were independent. The 1 is from simulation, which gives 0.3 to 1.3. There is a bias too, of
// -0.6/k to 0.
//
// It rejects matrices with fewer than 10 rows or columns, NaN, Inf, and matrices
// half of whose singular values are zero to rounding. It costs one SVD without vectors.
func MedianSingularValue(y []float64, rows, cols int) (Estimate, error) {
	if rows < 0 || cols < 0 || len(y) != rows*cols {
		panic(fmt.Sprintf("noise: matrix of %d x %d has %d values", rows, cols, len(y)))
	}
	most, bad := largest(y)
	if bad >= 0 {
		return refuse(MethodMedianSingularValue, "y holds %g at [%d, %d], expected finite numbers, with no entry missing", y[bad], bad/cols, bad%cols)
	}
	k, n := min(rows, cols), max(rows, cols)
	if k < leastSingularValues {
		return refuse(MethodMedianSingularValue, "a matrix of %d x %d has %d singular values, expected at least %d", rows, cols, k, leastSingularValues)
	}
	const zeros = "half of the singular values of y are zero: its rank is too low for the matrix to hold white noise"
	if most == 0 {
		return refuse(MethodMedianSingularValue, zeros)
	}
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(rows, cols, y), mat.SVDNone) {
		return refuse(MethodMedianSingularValue, "the singular values of y did not converge")
	}
	s := svd.Values(nil)
	slices.Sort(s)
	median := s[(k-1)/2] + (s[k/2]-s[(k-1)/2])/2
	if median <= float64(n)*epsilon*s[k-1] {
		return refuse(MethodMedianSingularValue, zeros)
	}
	beta := float64(k) / float64(n)
	mu := MarchenkoPasturMedian(beta)
	sigma := median / math.Sqrt(float64(n)*mu)
	// Of eigenvalues rather than singular values, and relative to them.
	spacing := 1 / (float64(k) * mu * marchenkoPastur(mu, beta))
	return estimate(MethodMedianSingularValue, sigma*sigma, spacing*math.Sqrt(math.Log(float64(k))+1)/math.Pi)
}

// Completion is [MedianSingularValue] for observations of entries of a matrix of rows x cols: y[i]
// is the entry at place indices[i] of the row-major matrix. It returns a [Refusal] unless every
// entry is observed once: with missing entries the singular values of the observed ones are not
// those of noise, and no estimator is known that would not itself be a completion.
func Completion(y []float64, indices []int, rows, cols int) (Estimate, error) {
	if len(y) != len(indices) {
		panic(fmt.Sprintf("noise: %d values at %d places", len(y), len(indices)))
	}
	if len(y) != rows*cols {
		return refuse(MethodMedianSingularValue, "%d of the %d entries of the matrix are observed, expected all", len(y), rows*cols)
	}
	full := make([]float64, len(y))
	seen := make([]bool, len(y))
	for i, place := range indices {
		if place < 0 || place >= len(y) {
			return refuse(MethodMedianSingularValue, "index %d is %d, expected 0 to %d", i, place, len(y)-1)
		}
		if seen[place] {
			return refuse(MethodMedianSingularValue, "entry (%d, %d) is observed twice, so another is missing", place/cols, place%cols)
		}
		seen[place] = true
		full[place] = y[i]
	}
	return MedianSingularValue(full, rows, cols)
}

// MarchenkoPasturMedian is the median of the Marchenko-Pastur law of ratio beta, 0 < beta
// <= 1, with density
//
//	f(x) = sqrt((b - x) (x - a)) / (2 pi beta x)   for a < x < b,    a, b = (1 -+ sqrt(beta))^2,
//
// to rounding. It panics on other beta.
func MarchenkoPasturMedian(beta float64) float64 {
	if !(beta > 0 && beta <= 1) {
		panic(fmt.Sprintf("noise: beta is %g, expected 0 < beta <= 1", beta))
	}
	// With rho = sqrt(beta) and x = 1 + beta + 2 rho cos(t), 0 < t < pi, the law above x
	// is 2/pi times the integral of sin^2 s / (1 + beta + 2 rho cos s) from 0 to t.
	rho := math.Sqrt(beta)
	lo, hi := 0.0, math.Pi
	for range 60 {
		t := lo + (hi-lo)/2
		if upper(rho, t) < math.Pi/4 {
			lo = t
		} else {
			hi = t
		}
	}
	return 1 + beta + 2*rho*math.Cos(lo+(hi-lo)/2)
}

// upper is the integral of sin^2 s / (1 + rho^2 + 2 rho cos s) from 0 to t,
//
//	t/2 + ((1 - rho^2) p - rho sin t) / (2 rho^2),    p = arg(1 + rho exp(i t)).
func upper(rho, t float64) float64 {
	sin, cos := math.Sincos(t)
	if rho > 0.1 {
		return t/2 + ((1-rho*rho)*math.Atan2(rho*sin, 1+rho*cos)-rho*sin)/(2*rho*rho)
	}
	// There the leading terms cancel: p is the sum of -(-rho)^j sin(j t) / j.
	sum, power := 0.0, 1.0
	for j := 2; j < 20; j++ {
		sum -= power * math.Sin(float64(j)*t) / float64(j)
		power *= -rho
	}
	return t/2 + ((1-rho*rho)*sum-rho*sin)/2
}

// marchenkoPastur is the density at x within the support.
func marchenkoPastur(x, beta float64) float64 {
	rho := math.Sqrt(beta)
	return math.Sqrt(((1+rho)*(1+rho)-x)*(x-(1-rho)*(1-rho))) / (2 * math.Pi * beta * x)
}
