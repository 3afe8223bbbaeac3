package space

import (
	"fmt"
	"math"

	"surepipe/array"
)

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
	n, shape := len(rows.Indptr)-1, array.Shape{Rows: m, Cols: m}
	s := &space{name: "symmetric matrices", p: m * m, n: n, dim: n, form: Form{Kind: Symmetric, Orthonormal: true}}
	if n == 0 {
		return s
	}
	on, of := rows.BothWays(v.Device(), m*m) // from V*Z V to the coordinates, and back
	s.Hold(on, of)
	s.embed = func(dst, c array.Batch) {
		dev := dst.Device()
		t := dev.Alloc(c.K(), m*m)
		defer t.Free()
		dev.MulCSR(dst, of, c)
		dev.GemmEach(false, true, 1, dst, shape, v, shape, 0, t)
		dev.GemmEach(false, false, 1, v, shape, t, shape, 0, dst)
	}
	s.coordinates = func(dst, z array.Batch) {
		dev := dst.Device()
		t, u := dev.Alloc(z.K(), m*m), dev.Alloc(z.K(), m*m)
		defer array.Free(t, u)
		dev.GemmEach(false, false, 1, z, shape, v, shape, 0, t)
		dev.GemmEach(true, false, 1, v, shape, t, shape, 0, u)
		dev.MulCSR(dst, on, u)
	}
	return s
}
