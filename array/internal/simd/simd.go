// Package simd holds the two inner loops of sparse products that no BLAS has: sums of
// gathered rows. On amd64 with AVX2 and FMA they are assembly, elsewhere Go; both give the
// same result to rounding, and the bits of an entry depend on the lengths alone.
package simd

// axpy4 adds a[0] x0 + a[1] x1 + a[2] x2 + a[3] x3 to y.
func axpy4(y, x0, x1, x2, x3 []float64, a *[4]float64) {
	n := len(y)
	x0, x1, x2, x3 = x0[:n], x1[:n], x2[:n], x3[:n]
	a0, a1, a2, a3 := a[0], a[1], a[2], a[3]
	for i := range y {
		y[i] += (a0*x0[i] + a1*x1[i]) + (a2*x2[i] + a3*x3[i])
	}
}

// axpy adds a x to y.
func axpy(y, x []float64, a float64) {
	x = x[:len(y)]
	for i := range y {
		y[i] += a * x[i]
	}
}

// dot sums with four accumulators.
func dot(x, y []float64) float64 {
	y = y[:len(x)]
	var s0, s1, s2, s3 float64
	j := 0
	for ; j+4 <= len(x); j += 4 {
		s0 += x[j] * y[j]
		s1 += x[j+1] * y[j+1]
		s2 += x[j+2] * y[j+2]
		s3 += x[j+3] * y[j+3]
	}
	for ; j < len(x); j++ {
		s0 += x[j] * y[j]
	}
	return (s0 + s1) + (s2 + s3)
}
