package noise

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/numerics"
)

// leastSingularValues is the number from which the law of large matrices holds within a few
// percent.
const leastSingularValues = 10

// MedianSingularValue estimates the variance of white noise in a matrix of rows x cols, row
// by row, all of whose entries are observed,
//
//	sigma2 = s_med^2 / (n mu),
//
// from the median s_med of singular values: n is the larger of rows and cols, k the smaller, beta
// = k/n, and mu = [MarchenkoPasturMedian](beta). Gavish and Donoho, The optimal hard threshold for
// singular values is 4/sqrt(3), IEEE Trans. Inf. Theory 60 (2014).
//
// The signal must have low rank. A rank of r among k values would shift the median by r/2 places,
// and raise the estimate by a fraction of about 1.3 r/k at beta = 1. So the r values that stand out
// are left out, those above
//
//	sigma (sqrt(n) + sqrt(k)) sqrt(1 + 3 h),   h = (1/sqrt(k) + 1/sqrt(n))^(1/3)/(sqrt(n) + sqrt(k)),
//
// three units of the law of the largest singular value of noise (Johnstone 2001) above its mean, and
// the rest counts as noise of k - r times n - r entries; again, until no more stand out. In
// simulations of ranks up to k/3 the bias is then between -4% and 1% where the signal's values are
// well above those of the noise. Values of the signal among those of the noise do not stand out, and
// raise the estimate as before. A signal with a long tail of singular values, such as an image, is
// followed until half of the values are left out.
//
// The relative standard error is sqrt(log k + 1) / (pi k mu f(mu)), with f the density of
// the Marchenko-Pastur law and k - r in the place of k: the number of eigenvalues of y y* below a
// point within their range has variance (log k + O(1)) / pi^2 (Gustavsson 2005, O'Rourke 2010), far
// less than if they were independent. The 1 is from simulation, which gives 0.3 to 1.3. There is a
// bias too, of -0.6/k to 0.
//
// It rejects matrices with fewer than 10 rows or columns, NaN, Inf, and matrices
// half of whose singular values are zero to rounding. It costs one SVD without vectors.
func MedianSingularValue(y []float64, rows, cols int) (Estimate, error) {
	most, err := finiteMatrix(MethodMedianSingularValue, y, rows, cols, ", with no entry missing")
	if err != nil {
		return Estimate{}, err
	}
	k, n := min(rows, cols), max(rows, cols)
	if k < leastSingularValues {
		return refuse(MethodMedianSingularValue, "a matrix of %d x %d has %d singular values, expected at least %d",
			rows, cols, k, leastSingularValues)
	}
	const zeros = "half of the singular values of y are zero: its rank is too low for the matrix to hold white noise"
	if most == 0 {
		return refuse(MethodMedianSingularValue, zeros)
	}
	s, err := numerics.SingularValues(mat.NewDense(rows, cols, y))
	if err != nil {
		return refuse(MethodMedianSingularValue, "%v", err)
	}
	slices.Sort(s)
	if median(s) <= float64(n)*epsilon*s[k-1] {
		return refuse(MethodMedianSingularValue, zeros)
	}
	sigma2, relStdErr, _ := bulk(s, n)
	return estimate(MethodMedianSingularValue, sigma2, relStdErr)
}

// standOut is how far above its mean, in units of its law, the largest singular value of noise lies once in
// a thousand matrices.
const standOut = 3

// bulk is the variance by the median of the increasing singular values s that do not stand out, of a
// matrix whose longer side is n, its relative standard error, and the number that stand out.
func bulk(s []float64, n int) (sigma2, relStdErr float64, rank int) {
	for k := len(s); ; {
		rest, long, short := s[:k-rank], float64(n-rank), float64(k-rank)
		beta := short / long
		mu := MarchenkoPasturMedian(beta)
		sigma := median(rest) / math.Sqrt(long*mu)
		roots := math.Sqrt(long) + math.Sqrt(short)
		edge := roots*roots + standOut*roots*math.Cbrt(1/math.Sqrt(long)+1/math.Sqrt(short))
		more := 0
		for _, v := range rest {
			if v > sigma*math.Sqrt(edge) {
				more++
			}
		}
		if more == 0 || k-rank-more < max(leastSingularValues, k/2) {
			// Of eigenvalues rather than singular values, and relative to them.
			spacing := 1 / (short * mu * marchenkoPastur(mu, beta))
			return sigma * sigma, spacing * math.Sqrt(math.Log(short)+1) / math.Pi, rank
		}
		rank += more
	}
}

func median(s []float64) float64 {
	k := len(s)
	return s[(k-1)/2] + (s[k/2]-s[(k-1)/2])/2
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
		return refuse(MethodMedianSingularValue, "%d of the %d entries of the matrix are observed, expected all",
			len(y), rows*cols)
	}
	full := make([]float64, len(y))
	seen := make([]bool, len(y))
	for i, place := range indices {
		if place < 0 || place >= len(y) {
			return refuse(MethodMedianSingularValue, "index %d is %d, expected 0 to %d", i, place, len(y)-1)
		}
		if seen[place] {
			return refuse(MethodMedianSingularValue, "entry (%d, %d) is observed twice, so another is missing",
				place/cols, place%cols)
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

func marchenkoPastur(x, beta float64) float64 {
	rho := math.Sqrt(beta)
	return math.Sqrt(((1+rho)*(1+rho)-x)*(x-(1-rho)*(1-rho))) / (2 * math.Pi * beta * x)
}
