package simd

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

var fast = cpu.X86.HasAVX2 && cpu.X86.HasFMA

const (
	group  = 4 // rows of inner products
	triple = 3 // vectors of them
)

// masks has, from 16-n on, n words of ones and then zeros.
var masks = [32]int64{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}

// Dot is the inner product of x with as much of y.
func Dot(x, y []float64) float64 {
	n := len(x)
	if !fast || n == 0 {
		return dot(x, y)
	}
	y = y[:n]
	return dotAVX2(n, &x[0], &y[0])
}

// Products sets out[s*to+u] to the inner product of x[s*stride:], r values, and row other[u] of y, a
// matrix with rows of r values, for all s < w. Every other one must be the index of a row.
func Products(out []float64, to int, x []float64, stride, w int, y []float64, other []int32, r int) {
	n := len(other)
	if !fast || r == 0 {
		dots(out, to, x, stride, w, y, other, r)
		return
	}
	if n == 0 || w == 0 {
		return
	}
	_, _ = out[(w-1)*to+n-1], x[(w-1)*stride+r-1]
	u := 0
	for ; u+group <= n; u += group {
		next := u
		if u+2*group <= cap(other) {
			next += group
		}
		groupProducts(out[u:], to, x, stride, w, y, &other[u], &other[:cap(other)][next], r)
	}
	if u == n {
		return
	}
	// The last row again, in place of those that are missing.
	rows := [group]int32{other[n-1], other[n-1], other[n-1], other[n-1]}
	copy(rows[:], other[u:])
	for s := 0; s < w; s += Vectors {
		var some [Vectors * group]float64
		count := min(w-s, Vectors)
		groupProducts(some[:], group, x[s*stride:], stride, count, y, &rows[0], &rows[0], r)
		for v := range count {
			copy(out[(s+v)*to+u:(s+v)*to+n], some[v*group:])
		}
	}
}

// groupProducts is Products of a group of rows. The group at next is likely to follow.
func groupProducts(out []float64, to int, x []float64, stride, w int, y []float64, other, next *int32, r int) {
	s := 0
	for ; s+triple <= w; s += triple {
		dots3x4(r, &x[s*stride], 8*stride, &y[0], other, 8*r, &out[s*to], 8*to, &masks[16-r%8], half(next, s/triple))
	}
	for ; s < w; s++ {
		dots1x4(r, &x[s*stride], &y[0], other, 8*r, &out[s*to], &masks[16-r%8])
	}
}

// half is the group's first pair or its second.
func half(group *int32, i int) *int32 {
	return (*int32)(unsafe.Add(unsafe.Pointer(group), 8*(i%2)))
}

// Sums adds a sum_u z[s*apart+u] (row other[u] of y) to c[s*stride:], r values, for all s < w.
// Every other one must be the index of a row.
func Sums(c []float64, stride, w int, a float64, z []float64, apart int, y []float64, other []int32, r int) {
	n := len(other)
	if n == 0 || w == 0 || r == 0 {
		return
	}
	if !fast {
		sums(c, stride, w, a, z, apart, y, other, r)
		return
	}
	_, _ = c[(w-1)*stride+r-1], z[(w-1)*apart+n-1]
	s := 0
	for ; s+Vectors <= w; s += Vectors {
		sumTile(c[s*stride:], stride, a, &z[s*apart], apart, y, other, r)
	}
	for ; s < w; s++ {
		sumColumns(c[s*stride:][:r], a, &z[s*apart], y, other, r)
	}
}

// sumTile is Sums of six vectors.
func sumTile(c []float64, stride int, a float64, z *float64, apart int, y []float64, other []int32, r int) {
	n, from := len(other), 0
	for ; from+8 <= r; from += 8 {
		adds6x8(n, &c[from], 8*stride, a, z, 8*apart, &y[from], &other[0], 8*r, nil)
	}
	if from < r {
		adds6x8(n, &c[from], 8*stride, a, z, 8*apart, &y[from], &other[0], 8*r, &masks[16-(r-from)])
	}
}

// sumColumns is Sums of one vector.
func sumColumns(c []float64, a float64, z *float64, y []float64, other []int32, r int) {
	n, from := len(other), 0
	for ; from+32 <= len(c); from += 32 {
		addRows32(&c[from], a, z, &y[from], &other[0], 8*r, n)
	}
	if from+24 <= len(c) {
		addRows24(&c[from], a, z, &y[from], &other[0], 8*r, n)
		from += 24
	}
	for ; from < len(c); from += 16 {
		some := min(len(c)-from, 16)
		addRows16(&c[from], a, z, &y[from], &other[0], 8*r, n, &masks[16-some])
	}
}

// addRows32 adds to 32 values, the rows being stride bytes apart.
//
//go:noescape
func addRows32(y *float64, a float64, z *float64, b *float64, other *int32, stride, count int)

// addRows24 adds to 24 values.
//
//go:noescape
func addRows24(y *float64, a float64, z *float64, b *float64, other *int32, stride, count int)

// addRows16 adds to as many of 16 values as mask has ones.
//
//go:noescape
func addRows16(y *float64, a float64, z *float64, b *float64, other *int32, stride, count int, mask *int64)

//go:noescape
func dotAVX2(n int, x, y *float64) float64

// dots1x4 sets out[u] to the inner products of x and four rows of y, n values each; the mask has n mod 8 words of ones.
// All strides are in bytes.
//
//go:noescape
func dots1x4(n int, x *float64, y *float64, other *int32, ystride int, out *float64, mask *int64)

// dots3x4 is dots1x4 for three vectors. It prefetches two rows.
//
//go:noescape
func dots3x4(n int, x *float64, xstride int, y *float64, other *int32, ystride int, out *float64, ostride int,
	mask *int64, next *int32)

// adds6x8 adds to eight values of six vectors, or to as many as the mask has ones where it is not nil.
//
//go:noescape
func adds6x8(count int, c *float64, cstride int, a float64, z *float64, zstride int, y *float64, other *int32,
	ystride int, mask *int64)
