package linops

import (
	"gonum.org/v1/gonum/mat"

	"surepipe/linops/internal/product"
)

// RowNorms2 returns the squared lengths of the rows of A diag(s), or of A where s is nil, in a new slice: those of
// matrices, dense or sparse, by their entries, also on top of each other and multiplied by numbers. For other operators
// on top of each other it is one number for all rows of one, their mean square or, where that is not known, ||A_i||^2.
// It is nil where the lengths are not known, and does no products.
func RowNorms2(a Operator, s []float64) []float64 {
	if n := entryNorms2(a, s); n != nil {
		return n
	}
	above, ok := a.(*stack)
	if !ok || above.cols != nil {
		return nil
	}
	out := make([]float64, 0, above.d)
	for i, part := range above.parts {
		n := RowNorms2(part.Operator, s)
		if n == nil {
			mean, known := meanRow2(&part.s, above.rows[i+1]-above.rows[i], s)
			if !known {
				return nil
			}
			n = product.Constant(above.rows[i+1]-above.rows[i], mean)
		}
		out = append(out, n...)
	}
	return out
}

func entryNorms2(a Operator, s []float64) []float64 {
	switch m := a.(type) {
	case *scaled:
		n := entryNorms2(m.a.Operator, s)
		for i := range n {
			n[i] *= m.alpha * m.alpha
		}
		return n
	case *CSR:
		out := make([]float64, m.d)
		for i := range out {
			for u := m.m.Indptr[i]; u < m.m.Indptr[i+1]; u++ {
				v := m.m.Values[u]
				if s != nil {
					v *= s[m.m.Indices[u]]
				}
				out[i] += v * v
			}
		}
		return out
	case *Dense:
		return denseNorms2(m.x, s)
	}
	return nil
}

func denseNorms2(x *mat.Dense, s []float64) []float64 {
	d, _ := x.Dims()
	out := make([]float64, d)
	for i := range out {
		for j, v := range x.RawRowView(i) {
			if s != nil {
				v *= s[j]
			}
			out[i] += v * v
		}
	}
	return out
}

// meanRow2 is the mean of the squared lengths of d rows, or a bound of them.
func meanRow2(known *Structure, d int, s []float64) (mean float64, ok bool) {
	switch {
	case d == 0:
		return 0, true
	case known.ColumnNorms2 != nil:
		for j, v := range known.ColumnNorms2() {
			if s != nil {
				v *= s[j] * s[j]
			}
			mean += v / float64(d)
		}
		return mean, true
	case s != nil:
		return 0, false
	case known.Rows.Known:
		return known.Rows.Value, true
	}
	return known.Norm2.Value, known.Norm2.Known
}
