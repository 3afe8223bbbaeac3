package elementary

import (
	"math"

	"golang.org/x/sys/cpu"
)

var fast = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// An exponential is 2^k exp(r) with k the integer next to x/log 2 and exp(r) by its Taylor polynomial of degree 13,
// |r| <= log(2)/2. A logarithm of 1 + x is log(1 + f) with f = x, or above x = 1/2 log 2 + log(1 + f) with
// f = (x - 1)/2; and with s = f/(2 + f) log(1 + f) is 2 artanh s = f - (f^2/2 - s (f^2/2 + R)), R by its Taylor
// polynomial in s^2.
const (
	log2High = 0x1.62e42feep-1 // k times it is exact
	log2Low  = math.Ln2 - log2High
)

// constants are those of the kernels, each for every lane.
var constants = everyLane(
	-746, 710, math.Log2E, log2High, log2Low, // beyond exp is 0 and +Inf
	1./6227020800, 1./479001600, 1./39916800, 1./3628800, 1./362880, 1./40320, 1./5040, 1./720, 1./120, 1./24,
	1./6, 0.5,
	2./23, 2./21, 2./19, 2./17, 2./15, 2./13, 2./11, 2./9, 2./7, 2./5, 2./3,
	1, 2, math.Float64frombits(1023),
)

func everyLane(some ...float64) (all []float64) {
	for _, v := range some {
		for range lanes {
			all = append(all, v)
		}
	}
	return all
}

//go:noescape
func expFMA(dst, x, constants *float64, groups int)

//go:noescape
func log1pFMA(dst, x, constants *float64, groups int)
