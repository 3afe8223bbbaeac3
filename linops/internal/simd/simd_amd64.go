package simd

import "golang.org/x/sys/cpu"

// Fast says that Sum uses vector instructions.
var Fast = cpu.X86.HasAVX2

// masks has, from 16-n on, n words of ones and then zeros.
var masks = [32]int64{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}

// Sum sets dst_j = sum_t q_t x_{t stride + j}, or adds that to dst.
func Sum(dst, q, x []float64, stride int, add bool) {
	check(dst, q, x, stride)
	if !Fast || len(q) == 0 || len(dst) == 0 {
		sum(dst, q, x, stride, add)
		return
	}
	more := 0
	if add {
		more = 1
	}
	from := 0
	for ; from+32 <= len(dst); from += 32 {
		sum32(&dst[from], &q[0], len(q), &x[from], 8*stride, more)
	}
	for ; from < len(dst); from += 16 {
		n := min(len(dst)-from, 16)
		sum16(&dst[from], &q[0], len(q), &x[from], 8*stride, more, &masks[16-n])
	}
}

// sum32 sets 32 values, from count rows that are stride bytes apart.
//
//go:noescape
func sum32(dst, q *float64, count int, x *float64, stride, add int)

// sum16 sets as many of 16 values as mask has ones.
//
//go:noescape
func sum16(dst, q *float64, count int, x *float64, stride, add int, mask *int64)
