package linopstest

import (
	"slices"

	"surepipe/array"
)

// shifts tests the claims about circular shifts.
func (c *checker) shifts() {
	s := c.s.Shifts
	if !s.Commutes && s.Rows == nil && s.Columns == nil {
		return
	}
	if s.Shape.Rows <= 0 || s.Shape.Cols <= 0 {
		c.failf("Shifts has images of %d x %d pixels", s.Shape.Rows, s.Shape.Cols)
		return
	}
	if s.Commutes {
		if n := s.Shape.Len(); n != c.d || n != c.p {
			c.failf("Shifts of %d x %d images commute with a %d x %d operator", s.Shape.Rows, s.Shape.Cols, c.d, c.p)
			return
		}
		b := gaussian(2*c.p, 906)
		for _, by := range [][2]int{{0, 1}, {1, 0}, {s.Shape.Rows / 2, s.Shape.Cols - 1}} {
			want := c.apply(c.a.Forward, c.d, 2, b)
			c.agree("Shifts: A of a shifted image", c.apply(c.a.Forward, c.d, 2, shifted(b, s.Shape, by)),
				shifted(want, s.Shape, by))
		}
	}
	c.classes("Shifts.Columns", s.Columns, s.Shape, c.p, c.d, c.a.Forward)
	c.classes("Shifts.Rows", s.Rows, s.Shape, c.d, c.p, c.a.Adjoint)
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

// classes tests that the classes are a partition of the columns, n of them, and that a column of
// each is a shift of its first one. Columns of more than shiftedPixels pixels are only compared in
// norm.
func (c *checker) classes(field string, classes func() [][]int, shape array.Shape, n, length int,
	apply func(dst, b array.Batch)) {
	if classes == nil {
		return
	}
	if shape.Len() != length {
		c.failf("%s: images of %d x %d pixels, the vectors have length %d", field, shape.Rows, shape.Cols, length)
		return
	}
	column := func(j int) []float64 {
		unit := make([]float64, 2*n)
		unit[j] = 1
		return c.apply(apply, length, 2, unit)[:length]
	}
	seen := make([]bool, n)
	for _, class := range classes() {
		for _, j := range class {
			if j < 0 || j >= n || seen[j] {
				c.failf("%s: column %d is not in one class", field, j)
				return
			}
			seen[j] = true
		}
		if len(class) < 2 {
			continue
		}
		first, last := class[0], class[len(class)-1]
		if a, b := column(first), column(last); !areShifts(a, b, shape) {
			c.failf("%s: columns %d and %d of a class are not shifts of each other", field, first, last)
			return
		}
	}
	if slices.Contains(seen, false) {
		c.failf("%s: not every column is in a class", field)
	}
}

// shiftedPixels is the size of images up to which all shifts are tried.
const shiftedPixels = 400

func areShifts(a, b []float64, shape array.Shape) bool {
	if shape.Len() > shiftedPixels {
		d := norm(a) - norm(b)
		return max(d, -d) <= tol*norm(a)
	}
	for i := range shape.Rows {
		for j := range shape.Cols {
			if distance(shifted(a, shape, [2]int{i, j}), b) <= tol*norm(a) {
				return true
			}
		}
	}
	return false
}
