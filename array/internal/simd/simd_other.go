//go:build !amd64

package simd

// Axpy4 adds a[0] x0 + a[1] x1 + a[2] x2 + a[3] x3 to y; each has y's length at least.
func Axpy4(y, x0, x1, x2, x3 []float64, a *[4]float64) { axpy4(y, x0, x1, x2, x3, a) }

// Axpy adds a x to y; x has y's length at least.
func Axpy(y, x []float64, a float64) { axpy(y, x, a) }

// Dot is the inner product of x with as much of y.
func Dot(x, y []float64) float64 { return dot(x, y) }
