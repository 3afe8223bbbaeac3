package linopstest

import (
	"math"
	"slices"

	"surepipe/array"
	"surepipe/linops"
)

// matrixShapes are those of matrices with p entries that Sampled and Parts are asked for.
func (c *checker) matrixShapes() []array.Shape {
	m := max(1, int(math.Sqrt(float64(c.p))))
	for c.p%m > 0 {
		m--
	}
	return []array.Shape{{Rows: m, Cols: c.p / m}, {Rows: 1, Cols: c.p}}
}

// parts tests that A consists of its parts: every row of A belongs to one, and depends on its lines alone.
func (c *checker) parts() {
	if c.s.Parts == nil {
		return
	}
	if p := c.s.Parts(array.Shape{Rows: 1, Cols: c.p + 1}, true); p != nil {
		c.failf("Parts: %d columns are taken for 1 x %d matrices", c.p, c.p+1)
	}
	for _, shape := range c.matrixShapes() {
		for _, split := range []bool{false, true} {
			if parts := c.s.Parts(shape, split); parts != nil {
				c.consists(shape, parts, split)
			}
		}
	}
}

func (c *checker) consists(shape array.Shape, parts []linops.Part, split bool) {
	b, z := gaussian(c.p, 950), gaussian(c.d, 951)
	ab, az := c.apply(c.a.Forward, c.d, 1, b), c.apply(c.a.Adjoint, c.p, 1, z)
	if !split && len(parts) != 1 {
		c.failf("Parts: %d without split", len(parts))
	}
	seen, back := make([]int, c.d), make([]float64, c.p)
	for k, part := range parts {
		a, release, err := part.Operator()
		if err != nil {
			c.failf("Parts: part %d: %v", k, err)
			return
		}
		var places []int
		for _, i := range part.Rows {
			for _, j := range part.Columns {
				places = append(places, i*shape.Cols+j)
			}
		}
		if d, p := a.Dims(); d != len(part.Entries) || p != len(places) || part.Shape().Len() != p {
			c.failf("Parts: part %d is %d x %d, for %d entries in %d x %d", k, d, p, len(part.Entries),
				len(part.Rows), len(part.Columns))
			release()
			return
		}
		got := c.apply(a.Forward, len(part.Entries), 1, at(b, places))
		if off := distance(got, at(ab, part.Entries)); off > tol*norm(b) {
			c.failf("Parts: part %d of %v differs from A's rows by %v", k, shape, off)
		}
		own := c.apply(a.Adjoint, len(places), 1, at(z, part.Entries))
		for i, place := range places {
			back[place] += own[i]
		}
		for _, e := range part.Entries {
			seen[e]++
		}
		release()
	}
	if slices.Min(append(seen, 1)) != 1 || slices.Max(append(seen, 1)) != 1 {
		c.failf("Parts: rows of A are in %v parts, expected one each", seen)
	}
	if off := distance(back, az); off > tol*norm(z) {
		c.failf("Parts: A* z differs from those of the parts of %v by %v", shape, off)
	}
}

// at are the elements at some places.
func at(x []float64, places []int) []float64 {
	out := make([]float64, len(places))
	for i, p := range places {
		out[i] = x[p]
	}
	return out
}
