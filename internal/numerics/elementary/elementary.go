// Package elementary evaluates elementary functions at the entries of vectors. On amd64 with AVX2 and FMA the loops
// are assembly; elsewhere they call package math. Both are within two units in the last place. What an entry gives
// does not depend on the others, nor on where it stands.
package elementary

import "math"

// Exp sets dst_i to exp(x_i). dst may be x.
func Exp(dst, x []float64) { each(dst, x, expFMA, math.Exp) }

// Log1p sets dst_i to log(1 + x_i) for 0 <= x_i <= 1. dst may be x.
func Log1p(dst, x []float64) { each(dst, x, log1pFMA, math.Log1p) }

// lanes is the number of entries that a kernel takes at a time.
const lanes = 4

// each calls the kernel for whole groups of entries, the last one filled up, where the processor has it.
func each(dst, x []float64, kernel func(dst, x, constants *float64, groups int), f func(float64) float64) {
	dst = dst[:len(x)]
	if !fast {
		for i, v := range x {
			dst[i] = f(v)
		}
		return
	}
	groups := len(x) / lanes
	if groups > 0 {
		kernel(&dst[0], &x[0], &constants[0], groups)
	}
	if rest := x[groups*lanes:]; len(rest) > 0 {
		var some [lanes]float64
		copy(some[:], rest)
		kernel(&some[0], &some[0], &constants[0], 1)
		copy(dst[groups*lanes:], some[:len(rest)])
	}
}
