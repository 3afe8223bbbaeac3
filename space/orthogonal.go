package space

import (
	"fmt"
	"math"
	"slices"

	"surepipe/array"
)

// HyperplaneOf returns the vectors of R^p that are 0 outside the coordinates of a set and orthogonal to one vector,
// given there, which does not change with the point at which the space is a tangent space: [Orthogonal] with one
// normal. It panics where normal is not such.
func HyperplaneOf(dev array.Device, p int, set []int, normal []float64) Space {
	if len(normal) != len(set) {
		panic(fmt.Sprintf("space: a normal of %d numbers at %d coordinates", len(normal), len(set)))
	}
	return orthogonalTo(dev, p, set, Rows{Indptr: []int{0, len(normal)}, Indices: set, Values: normal}, Hyperplane)
}

// Orthogonal returns the vectors of R^p that are 0 outside the coordinates of a set, in increasing
// order, and orthogonal to the rows of normals. Those are not 0, and each coordinate of the set is in
// one of them at most, so that they are orthogonal to each other. With the product of their
// Householder reflections, I - W*W, which takes each normal to a multiple of the unit vector of its
// first coordinate, the columns of E are those of I - W*W at the other coordinates of the set. They
// turn where the normals do. It panics if the arguments break these rules.
func Orthogonal(dev array.Device, p int, set []int, normals Rows) Space {
	return orthogonalTo(dev, p, set, normals, Complement)
}

func orthogonalTo(dev array.Device, p int, set []int, normals Rows, kind Kind) Space {
	checkSet(p, set)
	m := len(normals.Indptr) - 1
	in := make([]int8, p) // 1 in the set, 2 in a normal too
	for _, j := range set {
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
	on := dev.NewIndex(kept)
	s := &space{name: "an orthogonal complement", p: p, n: len(kept), dim: len(kept),
		form: Form{Kind: kind, Orthonormal: true}}
	s.Hold(on)
	reflect := func(array.Batch) {} // z -> (I - W*W) z
	if m > 0 {
		w, wt := Rows{slices.Clone(normals.Indptr), normals.Indices, values}.BothWays(dev, p)
		s.Hold(w, wt)
		reflect = func(z array.Batch) {
			along, back := z.Device().Alloc(z.K(), m), z.Device().Alloc(z.K(), p)
			z.Device().MulCSR(along, w, z)
			z.Device().MulCSR(back, wt, along)
			z.Device().Lin(z, 1, z, -1, back)
			array.Free(along, back)
		}
	}
	s.embed = func(dst, c array.Batch) {
		dst.Device().Scatter(dst, c, on)
		reflect(dst)
	}
	s.coordinates = func(dst, z array.Batch) {
		t := dst.Device().Alloc(z.K(), p)
		defer t.Free()
		dst.Device().Copy(t, z)
		reflect(t)
		dst.Device().Gather(dst, t, on)
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

// BothWays puts a sparse matrix with n columns and its transpose on a device. Its slices must not be modified
// afterwards.
func (r Rows) BothWays(dev array.Device, n int) (rows, columns array.CSR) {
	m, t := len(r.Indptr)-1, Transpose(r, n)
	return dev.NewCSR(m, n, r.Indptr, r.Indices, r.Values), dev.NewCSR(n, m, t.Indptr, t.Indices, t.Values)
}
