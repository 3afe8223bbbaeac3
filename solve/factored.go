package solve

import (
	"surepipe/array"
)

// factored is the matrix L V*; V's columns are orthonormal or 0.
type factored struct{ l, v array.Batch }

func (f *factored) free() {
	f.l.Free()
	f.v.Free()
	*f = factored{}
}

// add sets the m x n matrix dst to a L V* + dst.
func (f *factored) add(a float64, dst array.Batch) {
	dst.Device().Gemm(false, true, a, f.l, f.v, 1, dst)
}

// inner is <f, g>.
func (f *factored) inner(g factored) float64 {
	dev := f.l.Device()
	left, right := dev.Alloc(f.l.N(), g.l.N()), dev.Alloc(f.l.N(), g.l.N())
	defer left.Free()
	defer right.Free()
	dev.Gemm(true, false, 1, f.l, g.l, 0, left)
	dev.Gemm(true, false, 1, f.v, g.v, 0, right)
	return dot(left, right)
}

// dot is the inner product of two matrices: one number from the device where they are contiguous,
// else one per row.
func dot(a, b array.Batch) float64 {
	if a.Contiguous() && b.Contiguous() {
		a, b = a.Reshape(1, a.K()*a.N()), b.Reshape(1, b.K()*b.N())
	}
	rows := make([]float64, a.K())
	a.Device().Dot(rows, a, b)
	sum := 0.0
	for _, v := range rows {
		sum += v
	}
	return sum
}
