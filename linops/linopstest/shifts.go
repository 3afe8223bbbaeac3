package linopstest

import "surepipe/array"

// shifts tests that A commutes with circular shifts, where it claims to.
func (c *checker) shifts() {
	shape := c.s.Circulant.Shape
	if !c.s.Commutes {
		return
	}
	if n := shape.Len(); n == 0 || n != c.d || n != c.p {
		c.failf("shifts of %d x %d images commute with a %d x %d operator", shape.Rows, shape.Cols, c.d, c.p)
		return
	}
	b := gaussian(2*c.p, 906)
	for _, by := range [][2]int{{0, 1}, {1, 0}, {shape.Rows / 2, shape.Cols - 1}} {
		want := c.apply(c.a.Forward, c.d, 2, b)
		c.agree("Commutes: A of a shifted image", c.apply(c.a.Forward, c.d, 2, shifted(b, shape, by)),
			shifted(want, shape, by))
	}
}

// shifted moves every image of x by rows and columns.
func shifted(x []float64, shape array.Shape, by [2]int) []float64 {
	out, n := make([]float64, len(x)), shape.Len()
	for i := range x {
		r, col := i%n/shape.Cols, i%n%shape.Cols
		out[i/n*n+(r+by[0])%shape.Rows*shape.Cols+(col+by[1])%shape.Cols] = x[i]
	}
	return out
}
