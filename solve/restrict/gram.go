package restrict

import (
	"context"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/space"
)

// Gram is the Gram matrix of columns of A, which grows as columns are asked for. It belongs
// to one solve.
type Gram struct {
	dev   array.Device
	a     linops.Operator
	place []int // of columns in the matrix, -1 for those that are not there
	parts Parts
	n     int       // columns
	g     []float64 // row-major
	width int       // of its rows
}

// NewGram is that of no columns of a yet.
func NewGram(dev array.Device, a linops.Operator) *Gram {
	_, dim := a.Dims()
	m := &Gram{dev: dev, a: a, place: make([]int, dim)}
	for j := range m.place {
		m.place[j] = -1
	}
	return m
}

func (m *Gram) Release() { m.parts.Release() }

// Missing lists the columns of an increasing set that are not there.
func (m *Gram) Missing(set []int) []int {
	var list []int
	for _, j := range set {
		if m.place[j] < 0 {
			list = append(list, j)
		}
	}
	return list
}

// Extend adds the columns of an increasing set.
func (m *Gram) Extend(set []int) {
	missing := m.Missing(set)
	m.grow(m.n + len(missing))
	for some := range slices.Chunk(missing, ColumnBlock) {
		k, at := len(some), m.n
		for i, j := range some {
			m.place[j] = at + i
		}
		m.n += k
		m.parts.Join(context.Background(), m.dev, m.a, some, m.place, 1, func(i, j int, v float64) {
			m.g[i*m.width+j], m.g[j*m.width+i] = v, v
		})
	}
}

func (m *Gram) grow(n int) {
	if n <= m.width {
		return
	}
	width := min(max(n, m.width+m.width/4), len(m.place))
	g := make([]float64, width*width)
	for i := range m.n {
		copy(g[i*width:], m.g[i*m.width:i*m.width+m.n])
	}
	m.g, m.width = g, width
}

// On fills k with the Gram matrix of the columns in a set that is there, row-major.
func (m *Gram) On(k []float64, set []int) {
	Submatrix(k, lists.Pick(m.place, set), func(i int) []float64 { return m.g[i*m.width:] })
}

// Submatrix fills k with the rows and columns at the places of a matrix with the given rows.
func Submatrix(k []float64, places []int, row func(i int) []float64) {
	n := len(places)
	for i, a := range places {
		from, to := row(a), k[i*n:(i+1)*n]
		for c, b := range places {
			to[c] = from[b]
		}
	}
}

// Averaged fills k, n x n, with E*G E, where the rows of E* are given.
func (m *Gram) Averaged(k []float64, rows space.Rows) {
	n := len(rows.Indptr) - 1
	places := lists.Pick(m.place, rows.Indices)
	mean := make([]float64, m.n)
	for i := range n {
		clear(mean)
		for u := rows.Indptr[i]; u < rows.Indptr[i+1]; u++ {
			row := m.g[places[u]*m.width : places[u]*m.width+m.n]
			for c, v := range row {
				mean[c] += rows.Values[u] * v
			}
		}
		for c := range n {
			sum := 0.0
			for u := rows.Indptr[c]; u < rows.Indptr[c+1]; u++ {
				sum += rows.Values[u] * mean[places[u]]
			}
			k[i*n+c] = sum
		}
	}
}

// Known is the Gram matrix of a set in a new slice, nil where a column is not there. It needs no
// memory of the device.
func (m *Gram) Known(set []int) []float64 {
	if m.Missing(set) != nil {
		return nil
	}
	k := make([]float64, len(set)*len(set))
	m.On(k, set)
	return k
}
