package hutch

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// twoSigma is the probability that a normal variable is at most 2.
const twoSigma = 0.977249868051820792799717362833

// Widened is the factor by which to multiply a standard error that was estimated with the given
// degrees of freedom: t/2, where Student's distribution is within t of 0 with the probability,
// 95.4%, with which the normal distribution is within 2. It is 7 for one degree, 1.16 for 9, 1.06
// for 23 and 1.01 for 101.
func Widened(degrees int) float64 {
	if degrees < 1 {
		return math.Inf(1)
	}
	return distuv.StudentsT{Sigma: 1, Nu: float64(degrees)}.Quantile(twoSigma) / 2
}
