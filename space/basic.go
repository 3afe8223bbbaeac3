package space

import (
	"fmt"

	"surepipe/array"
)

// space is a Space made of functions, and the memory that it owns.
type space struct {
	array.Held
	name      string
	p, n, dim int
	form      Form
	// embed and coordinates are E and E*, for n > 0.
	embed, coordinates func(dst, x array.Batch)
	// project is nil where E E* is the projection.
	project func(dst, z array.Batch)
}

func (s *space) Dims() (p, n int) { return s.p, s.n }
func (s *space) Dim() int         { return s.dim }
func (s *space) Form() Form       { return s.form }

func (s *space) Embed(dst, c array.Batch) {
	check(s.name, dst, s.p, c, s.n)
	if s.n == 0 {
		dst.Device().Fill(dst, 0)
		return
	}
	s.embed(dst, c)
}

func (s *space) Coordinates(dst, z array.Batch) {
	check(s.name, dst, s.n, z, s.p)
	if s.n > 0 {
		s.coordinates(dst, z)
	}
}

func (s *space) Project(dst, z array.Batch) {
	check(s.name, dst, s.p, z, s.p)
	if s.project != nil {
		s.project(dst, z)
		return
	}
	c := dst.Device().Alloc(z.K(), s.n)
	defer c.Free()
	s.Coordinates(c, z)
	s.Embed(dst, c)
}

func check(what string, dst array.Batch, to int, src array.Batch, from int) {
	if dst.N() != to || src.N() != from || dst.K() != src.K() {
		panic(fmt.Sprintf("space: %s: %s from %s, want vectors of length %d from vectors of length %d", what, dst,
			src, to, from))
	}
}

// All returns R^p itself, with E = I.
func All(p int) Space {
	copied := func(dst, x array.Batch) { dst.Device().Copy(dst, x) }
	return &space{name: "R^p", p: p, n: p, dim: p, form: Form{Kind: Whole, Orthonormal: true}, embed: copied,
		coordinates: copied, project: func(dst, z array.Batch) {
			if dst != z {
				copied(dst, z)
			}
		}}
}

func checkSet(p int, set []int) {
	for i, j := range set {
		if j < 0 || j >= p || i > 0 && j <= set[i-1] {
			panic(fmt.Sprintf("space: coordinate %d of %d is %d, want increasing numbers from 0 to %d", i, len(set),
				j, p-1))
		}
	}
}

// Coordinates returns the vectors of R^p that are 0 outside the given coordinates, which are
// distinct, in increasing order, and not copied. E are the columns of the identity there. It panics
// if they break these rules.
func Coordinates(dev array.Device, p int, set []int) Space {
	checkSet(p, set)
	on := dev.NewIndex(set)
	s := &space{name: "a set of coordinates", p: p, n: len(set), dim: len(set),
		form:        Form{Kind: Subset, Orthonormal: true, Set: set},
		embed:       func(dst, c array.Batch) { dst.Device().Scatter(dst, c, on) },
		coordinates: func(dst, z array.Batch) { dst.Device().Gather(dst, z, on) }}
	s.Hold(on)
	return s
}

// Span returns the span of the rows of the n x p batch, which are orthonormal, with E its
// transpose. The space owns the batch.
func Span(rows array.Batch) Space {
	n := rows.K()
	s := &space{name: "a span", p: rows.N(), n: n, dim: n, form: Form{Kind: Spanned, Orthonormal: true},
		embed:       func(dst, c array.Batch) { dst.Device().Gemm(false, false, 1, c, rows, 0, dst) },
		coordinates: func(dst, z array.Batch) { dst.Device().Gemm(false, true, 1, z, rows, 0, dst) }}
	s.Hold(rows)
	return s
}
