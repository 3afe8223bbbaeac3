package space

import (
	"fmt"
	"math"

	"surepipe/array"
)

// symmetric is the tangent space of the symmetric matrices of rank r.
type symmetric struct {
	m, r, n int
	v       array.Batch
	on, of  array.CSR // from V*Z V to the coordinates, and back
}

// SymmetricTangent returns the tangent space of the symmetric m x m matrices of rank r at a matrix
// whose range is spanned by the first r columns of the orthogonal matrix V:
//
//	E c = V C V*,    C = C*,   C_ij = 0 where i, j >= r.
//
// The coordinates are C_ii and sqrt(2) C_ij, i < j, i < r, row by row, which makes E orthonormal; their
// number is r (2m - r + 1)/2. v is V, row-major, a batch of one vector that stays the caller's and must
// outlive the space.
func SymmetricTangent(m, r int, v array.Batch) Space {
	if r < 0 || r > m || v.K() != 1 || v.N() != m*m {
		panic(fmt.Sprintf("space: tangent space of symmetric %d x %d matrices of rank %d at %s", m, m, r, v))
	}
	rows := Rows{Indptr: []int{0}}
	for i := range r {
		rows.Indices, rows.Values = append(rows.Indices, i*m+i), append(rows.Values, 1)
		rows.Indptr = append(rows.Indptr, len(rows.Indices))
		for j := i + 1; j < m; j++ {
			rows.Indices, rows.Values = append(rows.Indices, i*m+j, j*m+i),
				append(rows.Values, math.Sqrt2/2, math.Sqrt2/2)
			rows.Indptr = append(rows.Indptr, len(rows.Indices))
		}
	}
	s := &symmetric{m: m, r: r, n: len(rows.Indptr) - 1, v: v}
	if s.n > 0 {
		dev, t := v.Device(), Transpose(rows, m*m)
		s.on = dev.NewCSR(s.n, m*m, rows.Indptr, rows.Indices, rows.Values)
		s.of = dev.NewCSR(m*m, s.n, t.Indptr, t.Indices, t.Values)
	}
	return s
}

func (s *symmetric) Dims() (p, n int) { return s.m * s.m, s.n }
func (s *symmetric) Dim() int         { return s.n }

func (s *symmetric) Embed(dst, c array.Batch) {
	check("symmetric matrices", dst, s.m*s.m, c, s.n)
	dev, shape := dst.Device(), array.Shape{Rows: s.m, Cols: s.m}
	if s.n == 0 {
		dev.Fill(dst, 0)
		return
	}
	t := dev.Alloc(c.K(), s.m*s.m)
	defer t.Free()
	dev.MulCSR(dst, s.of, c)
	dev.GemmEach(false, true, 1, dst, shape, s.v, shape, 0, t)
	dev.GemmEach(false, false, 1, s.v, shape, t, shape, 0, dst)
}

func (s *symmetric) Coordinates(dst, z array.Batch) {
	check("symmetric matrices", dst, s.n, z, s.m*s.m)
	if s.n == 0 {
		return
	}
	dev, shape := dst.Device(), array.Shape{Rows: s.m, Cols: s.m}
	t, u := dev.Alloc(z.K(), s.m*s.m), dev.Alloc(z.K(), s.m*s.m)
	defer t.Free()
	defer u.Free()
	dev.GemmEach(false, false, 1, z, shape, s.v, shape, 0, t)
	dev.GemmEach(true, false, 1, s.v, shape, t, shape, 0, u)
	dev.MulCSR(dst, s.on, u)
}

func (s *symmetric) Project(dst, z array.Batch) { project(s, dst, z) }
func (s *symmetric) Form() Form                 { return Form{Kind: Symmetric, Orthonormal: true} }

func (s *symmetric) Bytes() int64 {
	if s.n == 0 {
		return 0
	}
	return s.on.Bytes() + s.of.Bytes()
}

func (s *symmetric) Release() {
	if s.n > 0 {
		s.on.Free()
		s.of.Free()
	}
}
