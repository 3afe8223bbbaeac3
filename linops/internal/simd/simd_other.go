//go:build !amd64

package simd

// Fast says that Sum uses vector instructions.
const Fast = false

// Sum sets dst_j = sum_t q_t x_{t stride + j}, or adds that to dst.
func Sum(dst, q, x []float64, stride int, add bool) {
	check(dst, q, x, stride)
	sum(dst, q, x, stride, add)
}
