package sparse

import (
	"slices"

	"surepipe/internal/lists"
	"surepipe/space"
)

// Matrix is a D x P sparse matrix on the host, by rows.
type Matrix struct {
	D, P int
	space.Rows
}

// Transpose returns the transposed matrix, each row's columns in order.
func (m Matrix) Transpose() Matrix { return Matrix{m.P, m.D, space.Transpose(m.Rows, m.P)} }

// InOrder reports that each row has its columns in increasing order, and each once.
func (m Matrix) InOrder() bool {
	for i := range m.D {
		for u := m.Indptr[i] + 1; u < m.Indptr[i+1]; u++ {
			if m.Indices[u-1] >= m.Indices[u] {
				return false
			}
		}
	}
	return true
}

func (m Matrix) Pick(list []int) Matrix {
	n := 0
	for _, i := range list {
		n += m.Indptr[i+1] - m.Indptr[i]
	}
	c := Matrix{len(list), m.P, space.Rows{Indptr: make([]int, 1, len(list)+1), Indices: make([]int, 0, n),
		Values: make([]float64, 0, n)}}
	for _, i := range list {
		lo, hi := m.Indptr[i], m.Indptr[i+1]
		c.Indices = append(c.Indices, m.Indices[lo:hi]...)
		c.Values = append(c.Values, m.Values[lo:hi]...)
		c.Indptr = append(c.Indptr, len(c.Indices))
	}
	return c
}

// Times returns the product with a matrix that has one entry a row at most. Entries of the result
// that fall in the same place are not added up.
func (m Matrix) Times(e Matrix) Matrix {
	c := Matrix{m.D, e.P, space.Rows{Indptr: make([]int, 1, m.D+1)}}
	for i := range m.D {
		for u := m.Indptr[i]; u < m.Indptr[i+1]; u++ {
			if at := e.Indptr[m.Indices[u]]; at < e.Indptr[m.Indices[u]+1] {
				c.Indices = append(c.Indices, e.Indices[at])
				c.Values = append(c.Values, m.Values[u]*e.Values[at])
			}
		}
		c.Indptr = append(c.Indptr, len(c.Indices))
	}
	return c
}

func (m Matrix) ScaleColumns(s []float64) Matrix {
	values := make([]float64, len(m.Values))
	for u, v := range m.Values {
		values[u] = v * s[m.Indices[u]]
	}
	m.Values = values
	return m
}

func (m Matrix) ScaleRows(s []float64) Matrix {
	values := make([]float64, len(m.Values))
	for i := range m.D {
		for u := m.Indptr[i]; u < m.Indptr[i+1]; u++ {
			values[u] = m.Values[u] * s[i]
		}
	}
	m.Values = values
	return m
}

// Merge adds up neighbours in the same place, in m's own memory.
func (m Matrix) Merge() Matrix {
	n, start := 0, 0
	for i := range m.D {
		end := m.Indptr[i+1]
		first := n
		for u := start; u < end; u++ {
			if n > first && m.Indices[n-1] == m.Indices[u] {
				m.Values[n-1] += m.Values[u]
				continue
			}
			m.Indices[n], m.Values[n] = m.Indices[u], m.Values[u]
			n++
		}
		start = end
		m.Indptr[i+1] = n
	}
	m.Indices, m.Values = m.Indices[:n], m.Values[:n]
	return m
}

// Components numbers the connected components of a bipartite graph with a and b nodes and the edges
// (first_e, second_e), in the order of their first nodes: of lists the component of each of the a + b nodes. Nodes
// without an edge are components of their own.
func Components(a, b int, first, second []int) (of []int, n int) {
	parent := lists.Upto(a + b)
	find := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	for e, g := range first {
		parent[find(g)] = find(a + second[e])
	}
	of = slices.Repeat([]int{-1}, a+b)
	label := slices.Clone(of)
	for i := range of {
		root := find(i)
		if label[root] < 0 {
			label[root] = n
			n++
		}
		of[i] = label[root]
	}
	return of, n
}
