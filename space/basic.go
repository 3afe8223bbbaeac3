package space

import (
	"fmt"

	"surepipe/array"
)

// whole is R^p.
type whole int

// All returns R^p itself, with E = I.
func All(p int) Space { return whole(p) }

func (s whole) Dims() (p, n int) { return int(s), int(s) }
func (s whole) Dim() int         { return int(s) }

func (s whole) Embed(dst, c array.Batch) {
	check("R^p", dst, int(s), c, int(s))
	dst.Device().Copy(dst, c)
}

func (s whole) Coordinates(dst, z array.Batch) { s.Embed(dst, z) }

func (s whole) Project(dst, z array.Batch) {
	check("R^p", dst, int(s), z, int(s))
	if dst != z {
		dst.Device().Copy(dst, z)
	}
}

func (s whole) Form() Form   { return Form{Kind: Whole, Orthonormal: true} }
func (s whole) Bytes() int64 { return 0 }
func (s whole) Release()     {}

// subset is the vectors that are 0 outside a set of coordinates.
type subset struct {
	p   int
	set []int
	on  array.Index
}

// Coordinates returns the vectors of R^p that are 0 outside the given coordinates, which are
// distinct, in increasing order, and not copied. E are the columns of the identity there. It panics
// if they break these rules.
func Coordinates(dev array.Device, p int, set []int) Space {
	for i, j := range set {
		if j < 0 || j >= p || i > 0 && j <= set[i-1] {
			panic(fmt.Sprintf("space: coordinate %d of %d is %d, want increasing numbers from 0 to %d", i, len(set),
				j, p-1))
		}
	}
	return &subset{p, set, dev.NewIndex(set)}
}

func (s *subset) Dims() (p, n int) { return s.p, len(s.set) }
func (s *subset) Dim() int         { return len(s.set) }

func (s *subset) Embed(dst, c array.Batch) {
	check("a set of coordinates", dst, s.p, c, len(s.set))
	dst.Device().Scatter(dst, c, s.on)
}

func (s *subset) Coordinates(dst, z array.Batch) {
	check("a set of coordinates", dst, len(s.set), z, s.p)
	if len(s.set) > 0 {
		dst.Device().Gather(dst, z, s.on)
	}
}

func (s *subset) Project(dst, z array.Batch) { project(s, dst, z) }

func (s *subset) Form() Form   { return Form{Kind: Subset, Orthonormal: true, Set: s.set} }
func (s *subset) Bytes() int64 { return s.on.Bytes() }
func (s *subset) Release()     { s.on.Free() }

// spanned is the span of orthonormal vectors.
type spanned struct{ rows array.Batch }

// Span returns the span of the rows of the n x p batch, which are orthonormal, with E its
// transpose. The space owns the batch.
func Span(rows array.Batch) Space { return &spanned{rows} }

func (s *spanned) Dims() (p, n int) { return s.rows.N(), s.rows.K() }
func (s *spanned) Dim() int         { return s.rows.K() }

func (s *spanned) Embed(dst, c array.Batch) {
	check("a span", dst, s.rows.N(), c, s.rows.K())
	if s.rows.K() == 0 {
		dst.Device().Fill(dst, 0)
		return
	}
	dst.Device().Gemm(false, false, 1, c, s.rows, 0, dst)
}

func (s *spanned) Coordinates(dst, z array.Batch) {
	check("a span", dst, s.rows.K(), z, s.rows.N())
	if s.rows.K() > 0 {
		dst.Device().Gemm(false, true, 1, z, s.rows, 0, dst)
	}
}

func (s *spanned) Project(dst, z array.Batch) { project(s, dst, z) }

func (s *spanned) Form() Form   { return Form{Kind: Spanned, Orthonormal: true} }
func (s *spanned) Bytes() int64 { return s.rows.Bytes() }
func (s *spanned) Release()     { s.rows.Free() }

// project is the projection on a space with orthonormal E.
func project(s Space, dst, z array.Batch) {
	p, n := s.Dims()
	check("a projection", dst, p, z, p)
	c := dst.Device().Alloc(z.K(), n)
	defer c.Free()
	s.Coordinates(c, z)
	s.Embed(dst, c)
}

// check panics unless dst has length to and src has length from.
func check(what string, dst array.Batch, to int, src array.Batch, from int) {
	if dst.N() != to || src.N() != from || dst.K() != src.K() {
		panic(fmt.Sprintf("space: %s: %s from %s, want vectors of length %d from vectors of length %d", what, dst,
			src, to, from))
	}
}
