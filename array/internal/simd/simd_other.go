//go:build !amd64

package simd

// AddRows adds a sum_u z[entry[u]] (row other[u] of b) to y, b being a matrix with rows of
// r = len(y) values.
func AddRows(y []float64, a float64, z []float64, entry []int32, b []float64, other []int32, r int) {
	addRows(y, a, z, entry, b, other, r)
}

// Dot is the inner product of x with as much of y.
func Dot(x, y []float64) float64 { return dot(x, y) }
