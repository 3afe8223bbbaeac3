package linops

import "slices"

// compressed is a sparse matrix in CSR form on the host.
type compressed struct {
	rows, cols int
	indptr     []int
	indices    []int
	values     []float64
}

// transpose returns the transposed matrix, each row's columns in order.
func (m compressed) transpose() compressed {
	t := compressed{m.cols, m.rows, make([]int, m.cols+1), make([]int, len(m.indices)), make([]float64, len(m.values))}
	for _, c := range m.indices {
		t.indptr[c+1]++
	}
	for c := range m.cols {
		t.indptr[c+1] += t.indptr[c]
	}
	next := append([]int(nil), t.indptr[:m.cols]...)
	for i := range m.rows {
		for u := m.indptr[i]; u < m.indptr[i+1]; u++ {
			c := m.indices[u]
			t.indices[next[c]], t.values[next[c]] = i, m.values[u]
			next[c]++
		}
	}
	return t
}

// pick returns the rows of a list.
func (m compressed) pick(list []int) compressed {
	c := compressed{rows: len(list), cols: m.cols, indptr: make([]int, 1, len(list)+1)}
	for _, i := range list {
		lo, hi := m.indptr[i], m.indptr[i+1]
		c.indices = append(c.indices, m.indices[lo:hi]...)
		c.values = append(c.values, m.values[lo:hi]...)
		c.indptr = append(c.indptr, len(c.indices))
	}
	return c
}

// times returns the product with a matrix that has one entry a row at most. Entries of the result
// that fall in the same place are not added up.
func (m compressed) times(e compressed) compressed {
	c := compressed{rows: m.rows, cols: e.cols, indptr: make([]int, 1, m.rows+1)}
	for i := range m.rows {
		for u := m.indptr[i]; u < m.indptr[i+1]; u++ {
			if at := e.indptr[m.indices[u]]; at < e.indptr[m.indices[u]+1] {
				c.indices = append(c.indices, e.indices[at])
				c.values = append(c.values, m.values[u]*e.values[at])
			}
		}
		c.indptr = append(c.indptr, len(c.indices))
	}
	return c
}

// scaleColumns is the matrix times diag(s).
func (m compressed) scaleColumns(s []float64) compressed {
	values := make([]float64, len(m.values))
	for u, v := range m.values {
		values[u] = v * s[m.indices[u]]
	}
	m.values = values
	return m
}

// scaleRows is diag(s) times the matrix.
func (m compressed) scaleRows(s []float64) compressed {
	values := make([]float64, len(m.values))
	for i := range m.rows {
		for u := m.indptr[i]; u < m.indptr[i+1]; u++ {
			values[u] = m.values[u] * s[i]
		}
	}
	m.values = values
	return m
}

// merge adds up neighbours in the same place, in m's own memory.
func (m compressed) merge() compressed {
	n, start := 0, 0
	for i := range m.rows {
		end := m.indptr[i+1]
		first := n
		for u := start; u < end; u++ {
			if n > first && m.indices[n-1] == m.indices[u] {
				m.values[n-1] += m.values[u]
				continue
			}
			m.indices[n], m.values[n] = m.indices[u], m.values[u]
			n++
		}
		start = end
		m.indptr[i+1] = n
	}
	m.indices, m.values = m.indices[:n], m.values[:n]
	return m
}

// components numbers the connected components of a bipartite graph with a and b nodes and the edges
// (first_e, second_e), in the order of their first nodes: of lists the component of each of the a + b nodes. Nodes
// without an edge are components of their own.
func components(a, b int, first, second []int) (of []int, n int) {
	parent := make([]int, a+b)
	for i := range parent {
		parent[i] = i
	}
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
