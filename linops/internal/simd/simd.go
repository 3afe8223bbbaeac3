// Package simd has the inner loops of filters, sums of shifted rows, of projections, sums along
// rays, and of steps on the dual of total variation. On amd64 with AVX2 it is
// assembly, elsewhere Go; both give the same bits, which depend neither on an entry's place nor on
// the length of the row. Every product is rounded before it is added, so that a difference of equal
// values is 0.
package simd

import "fmt"

// check panics unless the last row of x is there.
func check(dst, q, x []float64, stride int) {
	if last := (len(q)-1)*stride + len(dst); len(q) > 0 && (stride < 0 || last > len(x)) {
		panic(fmt.Sprintf("simd: %d rows of length %d at a distance of %d in %d values", len(q), len(dst), stride,
			len(x)))
	}
}

// sum takes four rows at a time. The conversions keep a compiler from fusing product and sum.
func sum(dst, q, x []float64, stride int, add bool) {
	if !add {
		clear(dst)
	}
	n := len(dst)
	for ; len(q) >= 4; q = q[4:] {
		q0, q1, q2, q3 := q[0], q[1], q[2], q[3]
		x0, x1, x2, x3 := x[:n], x[stride:][:n], x[2*stride:][:n], x[3*stride:][:n]
		for j := range dst {
			dst[j] = (((dst[j] + float64(q0*x0[j])) + float64(q1*x1[j])) + float64(q2*x2[j])) + float64(q3*x3[j])
		}
		if len(q) > 4 {
			x = x[4*stride:]
		}
	}
	for t, f := range q {
		row := x[t*stride:][:n]
		for j := range dst {
			dst[j] += float64(f * row[j])
		}
	}
}
