package space

import (
	"fmt"
	"math"

	"surepipe/array"
)

// orthogonal is the part of a set of coordinates that is orthogonal to some vectors.
type orthogonal struct {
	p       int
	kept    array.Index // the set without a coordinate for each normal
	n       int
	w, wt   array.CSR // the Householder vectors, of length sqrt(2), one a row, and the transpose
	normals int
	kind    Kind
}

// HyperplaneOf returns the vectors of R^p that are 0 outside the coordinates of a set and orthogonal to one vector,
// given there, which does not change with the point at which the space is a tangent space: [Orthogonal] with one
// normal. It panics where normal is not such.
func HyperplaneOf(dev array.Device, p int, set []int, normal []float64) Space {
	if len(normal) != len(set) {
		panic(fmt.Sprintf("space: a normal of %d numbers at %d coordinates", len(normal), len(set)))
	}
	s := orthogonalTo(dev, p, set, Rows{Indptr: []int{0, len(normal)}, Indices: set, Values: normal})
	s.kind = Hyperplane
	return s
}

// Orthogonal returns the vectors of R^p that are 0 outside the coordinates of a set, in increasing
// order, and orthogonal to the rows of normals. Those are not 0, and each coordinate of the set is in
// one of them at most, so that they are orthogonal to each other. With the product of their
// Householder reflections, I - W*W, which takes each normal to a multiple of the unit vector of its
// first coordinate, the columns of E are those of I - W*W at the other coordinates of the set. They
// turn where the normals do. It panics if the arguments break these rules.
func Orthogonal(dev array.Device, p int, set []int, normals Rows) Space {
	return orthogonalTo(dev, p, set, normals)
}

func orthogonalTo(dev array.Device, p int, set []int, normals Rows) *orthogonal {
	m := len(normals.Indptr) - 1
	in := make([]int8, p) // 1 in the set, 2 in a normal too
	for i, j := range set {
		if j < 0 || j >= p || i > 0 && j <= set[i-1] {
			panic(fmt.Sprintf("space: coordinate %d of %d is %d, want increasing numbers from 0 to %d", i, len(set),
				j, p-1))
		}
		in[j] = 1
	}
	pivot := make(map[int]bool, m)
	values := make([]float64, len(normals.Values))
	for i := range m {
		from, to := normals.Indptr[i], normals.Indptr[i+1]
		size := 0.0
		for u := from; u < to; u++ {
			j := normals.Indices[u]
			if j < 0 || j >= p || in[j] != 1 {
				panic(fmt.Sprintf("space: normal %d of %d has coordinate %d, want each of the set once at most", i, m,
					j))
			}
			in[j] = 2
			size = math.Hypot(size, normals.Values[u])
		}
		if !(size > 0) || math.IsInf(size, 1) {
			panic(fmt.Sprintf("space: normal %d of %d has length %g", i, m, size))
		}
		pivot[normals.Indices[from]] = true
		for u := from; u < to; u++ {
			values[u] = normals.Values[u] / size
		}
		values[from] += math.Copysign(1, values[from])
		// ||w||^2 = 2 (1 + |a_first|) = 2 |w_first|
		scale := 1 / math.Sqrt(math.Abs(values[from]))
		for u := from; u < to; u++ {
			values[u] *= scale
		}
	}
	kept := make([]int, 0, len(set)-m)
	for _, j := range set {
		if !pivot[j] {
			kept = append(kept, j)
		}
	}
	s := &orthogonal{p: p, n: len(kept), kept: dev.NewIndex(kept), normals: m, kind: Complement}
	if m > 0 {
		w := Rows{normals.Indptr, normals.Indices, values}
		t := Transpose(w, p)
		s.w = dev.NewCSR(m, p, w.Indptr, w.Indices, w.Values)
		s.wt = dev.NewCSR(p, m, t.Indptr, t.Indices, t.Values)
	}
	return s
}

// Transpose returns the transpose of a sparse matrix with n columns.
func Transpose(rows Rows, n int) Rows {
	t := Rows{make([]int, n+1), make([]int, len(rows.Indices)), make([]float64, len(rows.Indices))}
	for _, j := range rows.Indices {
		t.Indptr[j+1]++
	}
	for j := range n {
		t.Indptr[j+1] += t.Indptr[j]
	}
	at := append([]int(nil), t.Indptr[:n]...)
	for i := range len(rows.Indptr) - 1 {
		for u := rows.Indptr[i]; u < rows.Indptr[i+1]; u++ {
			j := rows.Indices[u]
			t.Indices[at[j]], t.Values[at[j]] = i, rows.Values[u]
			at[j]++
		}
	}
	return t
}

func (s *orthogonal) Dims() (p, n int) { return s.p, s.n }
func (s *orthogonal) Dim() int         { return s.n }

// reflect sets z to (I - W*W) z.
func (s *orthogonal) reflect(z array.Batch) {
	if s.normals == 0 {
		return
	}
	dev := z.Device()
	along, back := dev.Alloc(z.K(), s.normals), dev.Alloc(z.K(), s.p)
	dev.MulCSR(along, s.w, z)
	dev.MulCSR(back, s.wt, along)
	dev.Lin(z, 1, z, -1, back)
	along.Free()
	back.Free()
}

func (s *orthogonal) Embed(dst, c array.Batch) {
	check("an orthogonal complement", dst, s.p, c, s.n)
	dev := dst.Device()
	if s.n == 0 {
		dev.Fill(dst, 0)
		return
	}
	dev.Scatter(dst, c, s.kept)
	s.reflect(dst)
}

func (s *orthogonal) Coordinates(dst, z array.Batch) {
	check("an orthogonal complement", dst, s.n, z, s.p)
	if s.n == 0 {
		return
	}
	dev := dst.Device()
	t := dev.Alloc(z.K(), s.p)
	defer t.Free()
	dev.Copy(t, z)
	s.reflect(t)
	dev.Gather(dst, t, s.kept)
}

func (s *orthogonal) Project(dst, z array.Batch) { project(s, dst, z) }

func (s *orthogonal) Form() Form { return Form{Kind: s.kind, Orthonormal: true} }

func (s *orthogonal) Bytes() int64 {
	bytes := s.kept.Bytes()
	if s.normals > 0 {
		bytes += s.w.Bytes() + s.wt.Bytes()
	}
	return bytes
}

func (s *orthogonal) Release() {
	s.kept.Free()
	if s.normals > 0 {
		s.w.Free()
		s.wt.Free()
	}
}
