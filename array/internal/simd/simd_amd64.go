package simd

import "golang.org/x/sys/cpu"

var fast = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// Axpy4 adds a[0] x0 + a[1] x1 + a[2] x2 + a[3] x3 to y; each has y's length at least.
func Axpy4(y, x0, x1, x2, x3 []float64, a *[4]float64) {
	n := len(y)
	if !fast || n == 0 {
		axpy4(y, x0, x1, x2, x3, a)
		return
	}
	x0, x1, x2, x3 = x0[:n], x1[:n], x2[:n], x3[:n]
	axpy4AVX2(n, &y[0], &x0[0], &x1[0], &x2[0], &x3[0], a)
}

// Axpy adds a x to y; x has y's length at least.
func Axpy(y, x []float64, a float64) {
	n := len(y)
	if !fast || n == 0 {
		axpy(y, x, a)
		return
	}
	x = x[:n]
	axpyAVX2(n, &y[0], &x[0], a)
}

// Dot is the inner product of x with as much of y.
func Dot(x, y []float64) float64 {
	n := len(x)
	if !fast || n == 0 {
		return dot(x, y)
	}
	y = y[:n]
	return dotAVX2(n, &x[0], &y[0])
}

//go:noescape
func axpy4AVX2(n int, y, x0, x1, x2, x3 *float64, a *[4]float64)

//go:noescape
func axpyAVX2(n int, y, x *float64, a float64)

//go:noescape
func dotAVX2(n int, x, y *float64) float64
