// Package simd has three inner loops: inner products, of two vectors or of some vectors with gathered
// rows, and sums of gathered rows, which no BLAS provides. On amd64 with AVX2 and FMA they are assembly;
// elsewhere they are Go, which gives the same up to rounding. The bits of a value depend on what it is
// computed from, and not on what is computed beside it.
package simd

// Vectors is how many vectors a tile of [Products] and [Sums] has.
const Vectors = 6

// addRows adds a sum_u z[u] (row other[u] of b) to y: the first len(y) of the row's r values.
func addRows(y []float64, a float64, z []float64, b []float64, other []int32, r int) {
	n, u := len(y), 0
	for ; u+4 <= len(other); u += 4 {
		z, o := z[u:u+4:u+4], other[u:u+4:u+4]
		f0, f1, f2, f3 := a*z[0], a*z[1], a*z[2], a*z[3]
		b0, b1 := b[int(o[0])*r:][:n], b[int(o[1])*r:][:n]
		b2, b3 := b[int(o[2])*r:][:n], b[int(o[3])*r:][:n]
		for l := range y {
			y[l] += (f0*b0[l] + f1*b1[l]) + (f2*b2[l] + f3*b3[l])
		}
	}
	for ; u < len(other); u++ {
		f, row := a*z[u], b[int(other[u])*r:][:n]
		for l := range y {
			y[l] += f * row[l]
		}
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

// dots is [Products] in Go.
func dots(out []float64, to int, x []float64, stride, w int, y []float64, other []int32, r int) {
	for s := range w {
		xs := x[s*stride:][:r]
		for u, j := range other {
			out[s*to+u] = dot(xs, y[int(j)*r:])
		}
	}
}

// sums is [Sums] in Go.
func sums(c []float64, stride, w int, a float64, z []float64, apart int, y []float64, other []int32, r int) {
	for s := range w {
		addRows(c[s*stride:][:r], a, z[s*apart:], y, other, r)
	}
}
