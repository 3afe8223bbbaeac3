//go:build !amd64

package simd

// Dot is the inner product of x with as much of y.
func Dot(x, y []float64) float64 { return dot(x, y) }

// Products sets out[s*to+u] to the inner product of x[s*stride:], r values, and row other[u] of y, a
// matrix with rows of r values, for all s < w. Every other one must be the index of a row.
func Products(out []float64, to int, x []float64, stride, w int, y []float64, other []int32, r int) {
	dots(out, to, x, stride, w, y, other, r)
}

// Sums adds a sum_u z[s*apart+u] (row other[u] of y) to c[s*stride:], r values, for all s < w.
// Every other one must be the index of a row.
func Sums(c []float64, stride, w int, a float64, z []float64, apart int, y []float64, other []int32, r int) {
	sums(c, stride, w, a, z, apart, y, other, r)
}
