package simd

import "golang.org/x/sys/cpu"

var fast = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// masks has, from 16-n on, n words of ones and then zeros.
var masks = [32]int64{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}

// AddRows adds a sum_u z[entry[u]] (row other[u] of b) to y, b being a matrix with rows of
// r = len(y) values. Every entry must be an index of z and every other one of a row of b.
func AddRows(y []float64, a float64, z []float64, entry []int32, b []float64, other []int32, r int) {
	count := len(entry)
	if !fast {
		addRows(y, a, z, entry, b, other, r)
		return
	}
	if len(y) == 0 || count == 0 {
		return
	}
	_ = other[count-1]
	from := 0
	for ; from+32 <= len(y); from += 32 {
		addRows32(&y[from], a, &z[0], &entry[0], &b[from], &other[0], 8*r, count)
	}
	for ; from < len(y); from += 16 {
		n := min(len(y)-from, 16)
		addRows16(&y[from], a, &z[0], &entry[0], &b[from], &other[0], 8*r, count, &masks[16-n])
	}
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

// addRows32 adds to 32 values, the rows being stride bytes apart.
//
//go:noescape
func addRows32(y *float64, a float64, z *float64, entry *int32, b *float64, other *int32, stride, count int)

// addRows16 adds to as many of 16 values as mask has ones.
//
//go:noescape
func addRows16(y *float64, a float64, z *float64, entry *int32, b *float64, other *int32, stride, count int, mask *int64)

//go:noescape
func dotAVX2(n int, x, y *float64) float64
