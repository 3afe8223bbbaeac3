package stored

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

const (
	// mostGram is the number of columns up to which the scan finds the products of all with each other, and rowsEach
	// how many rows a column has at least.
	mostGram, rowsEach = 512, 64
	// So many rows at a time stay in a processor's cache, and a task takes so many columns.
	gramRows, gramColumns = 512, 64
)

// gram are sums of the products of two columns of x - shift.
type gram struct {
	m     *Matrix
	sum   []float64 // p x p, on the diagonal and below
	moved []float64 // rows of x - shift
}

// newGram is nil where the products are not wanted.
func (m *Matrix) newGram() *gram {
	p := m.Cols
	if !m.ByRows || p == 0 || p > mostGram || m.Rows < rowsEach*p {
		return nil
	}
	return &gram{m, make([]float64, p*p), make([]float64, gramRows*p)}
}

// add adds the products of whole rows, in their order.
func (g *gram) add(x, shift []float64) {
	p := len(shift)
	for len(x) > 0 {
		part := x[:min(len(x), len(g.moved))]
		x = x[len(part):]
		n := len(part) / p
		g.m.each(n, func(i int) { floats.SubTo(g.moved[i*p:(i+1)*p], part[i*p:(i+1)*p], shift) })
		g.m.each((p+gramColumns-1)/gramColumns, func(k int) {
			from, to := k*gramColumns, min((k+1)*gramColumns, p)
			blas64.Gemm(blas.Trans, blas.NoTrans, 1,
				blas64.General{Rows: n, Cols: to - from, Stride: p, Data: g.moved[from:]},
				blas64.General{Rows: n, Cols: to, Stride: p, Data: g.moved}, 1,
				blas64.General{Rows: to - from, Cols: to, Stride: p, Data: g.sum[from*p:]})
		})
	}
}

// centered are the products about the means, by the sums of x - shift.
func (g *gram) centered(sums []float64) []float64 {
	p := len(sums)
	for i, s := range sums {
		for j, t := range sums[:i+1] {
			v := g.sum[i*p+j] - s*t/float64(g.m.Rows)
			g.sum[i*p+j], g.sum[j*p+i] = v, v
		}
	}
	return g.sum
}
